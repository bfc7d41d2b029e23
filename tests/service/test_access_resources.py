"""Finding resources: by a part of a name, by type, by readers, and by the difference of two readers."""

from collections import Counter
from dataclasses import dataclass
from itertools import product

import pytest

from service.domains.access.lookups import queries as lookups
from service.domains.access.resources import service as finding
from tests.harness.cases import cases
from tests.harness.documents import create_collection, ok, refused, upload, uploaded
from tests.harness.services import RunningService
from tests.service.conversations import an_agent
from tests.service.directory import a_group, a_resource, a_user, another_organization, code, grant, group, user, walk
from tests.service.service_accounts import account, an_account, enable_service_accounts

LIST, COUNT = "admin/access/listResources", "admin/access/countResources"
ADA, BEN, EVE, ZOE = "ada@example.test", "ben@example.test", "eve@example.test", "zoe@example.test"
UNKNOWN = "0198c5b0-0000-7000-8000-000000000000"
BOX, PAGE, UPLOAD = "BOX_FILE", "CONFLUENCE_PAGE", "UPLOADED_DOCUMENT"


@dataclass(frozen=True)
class World:
    """An organization with resources readable in every way, and all kinds of principals."""

    service: RunningService
    readers: dict[str, dict]

    def found(self, *, page_size: int = 1000, **filters) -> list[str]:
        rows = walk(self.service, LIST, filters, page_size=page_size)
        assert [row["objectId"] for row in rows] == sorted(row["objectId"] for row in rows)
        counted = ok(self.service.call(COUNT, filters))
        counts = {one["resourceType"]: one["count"] for one in counted["counts"]}
        assert counts == Counter(row["resourceType"] for row in rows)
        assert counted["total"] == len(rows)
        return [row["resourceId"] for row in rows]


@pytest.fixture(scope="module")
def world(module_service: RunningService) -> World:
    return a_world(module_service)


def a_world(service: RunningService) -> World:
    """Ada reads through nested groups in a cycle, Ben directly, Eve is inactive, Zoe owns one resource."""
    owner = {email: a_user(service, email, active=email != EVE)["id"] for email in (ADA, BEN, EVE, ZOE)}
    enable_service_accounts(service)
    bosun = account(an_account(service, "Bosun"))
    inner = a_group(service, "inner", user(ADA), user(EVE), bosun)
    outer = a_group(service, "outer", group(inner))
    a_group(service, "inner", user(ADA), user(EVE), bosun, group(outer), id=inner["id"])
    empty = a_group(service, "empty")
    granted: dict[str, list[dict]] = {
        "to outer": [group(outer)],
        "to inner": [group(inner), user(BEN)],
        "to ben": [user(BEN)],
        "to eve": [user(EVE)],
        "to bosun": [bosun],
        "to nobody": [],
        "to everyone": [],
    }
    for number, (name, principals) in enumerate(granted.items()):
        resource = a_resource(service, name, resource_type=(BOX, PAGE)[number % 2], owner=owner[ZOE])
        grant(service, resource, *principals, organizationWide=name == "to everyone")
    groups = {"inner": group(inner), "outer": group(outer), "empty": group(empty)}
    return World(service, {**{email: user(email) for email in owner}, **groups, "bosun": bosun})


def test_what_somebody_may_read_is_what_they_may_read(world: World) -> None:
    for email in (ADA, BEN, ZOE):
        looked_up = walk(world.service, "permissions/listAuthorizedResources", {"action": "READ", "userEmail": email})
        assert world.found(readableBy=user(email)) == [one["resourceId"] for one in looked_up]
    expected = {
        ADA: {"to outer", "to inner", "to everyone"},
        BEN: {"to inner", "to ben", "to everyone"},
        EVE: set[str](),
        "inner": {"to outer", "to inner"},
        "outer": {"to outer", "to inner"},
        "empty": set[str](),
        "bosun": {"to outer", "to inner", "to bosun"},
    }
    assert {name: {*world.found(readableBy=world.readers[name], action="READ")} for name in expected} == expected
    assert len(world.found(readableBy=user(ZOE))) == 7


def test_through_whom_somebody_reads_is_said_of_each_resource(service, monkeypatch) -> None:
    world = a_world(service)

    def through(name: str, **filters) -> dict[str, list[str]]:
        asked = {"readableBy": world.readers[name], "withThrough": True, **filters}
        return {
            row["resourceId"]: [one["name"] for one in row["through"]]
            for row in walk(service, LIST, asked, page_size=2)
        }

    assert through(ADA) == {"to outer": ["outer"], "to inner": ["inner"], "to everyone": ["Everyone"]}
    assert through("bosun", order="NAME") == {"to bosun": ["Bosun"], "to inner": ["inner"], "to outer": ["outer"]}
    assert through(EVE) == {}
    again = {"resourceType": BOX, "resourceId": "to outer"}
    grant(service, again, *(world.readers[name] for name in (ADA, "inner", "outer")))
    ada = through(ADA)["to outer"]
    assert ada == [ADA.partition("@")[0], "inner", "outer"]
    monkeypatch.setattr(finding, "MOST_THROUGH", 2)
    assert through(ADA)["to outer"] == ada[:2]
    [row] = walk(service, LIST, {"readableBy": user(BEN), "resourceIds": ["to ben"], "withThrough": True}, page_size=2)
    assert [(one["principalType"], one["role"]) for one in row["through"]] == [("user", "VIEWER")]
    [row] = walk(service, LIST, {"readableBy": user(BEN), "resourceIds": ["to ben"]}, page_size=2)
    assert "through" not in row
    assert "withThrough is given together with readableBy" in service.call(LIST, {"withThrough": True}).text


@pytest.mark.parametrize("few", [0, 10_000])
def test_the_difference_of_two_is_the_difference_of_their_lists(world, monkeypatch, few) -> None:
    monkeypatch.setattr(lookups, "FEW", few)
    everything = world.found()
    alone = {name: set(world.found(readableBy=reader)) for name, reader in world.readers.items()}
    for one, other in product((ADA, BEN, EVE, ZOE, "inner", "bosun"), repeat=2):
        filters = {"readableBy": world.readers[one], "notReadableBy": world.readers[other]}
        left = [each for each in everything if each in alone[one] - alone[other]]
        assert world.found(page_size=2, **filters) == left, (one, other)


def test_filters_narrow_together(world: World) -> None:
    types: list = [None, [BOX], [BOX, PAGE], ["SLACK_CHANNEL"]]
    parts = [None, "O E", "to nobody", "%", "_", "\\"]
    of_type = {row["resourceId"]: row["resourceType"] for row in walk(world.service, LIST)}
    reads = {name: set(world.found(readableBy=world.readers[name])) for name in (ADA, EVE)}
    for wanted, part, name in product(types, parts, (None, *reads)):
        filters = {"resourceTypes": wanted, "query": part, "readableBy": world.readers[name] if name else None}
        expected = [
            one
            for one in of_type
            if (wanted is None or of_type[one] in wanted)
            and (part is None or part.lower() in one)
            and (name is None or one in reads[name])
        ]
        given = {key: value for key, value in filters.items() if value is not None}
        assert world.found(page_size=2, **given) == expected, given
    assert world.found(query="to") == world.found()
    assert world.found(resourceIds=["to ben", "to", "nothing"]) == ["to ben"]
    assert world.found(resourceIds=["to ben"], resourceTypes=["SLACK_CHANNEL"]) == []
    assert world.found(resourceIds=["to ben", "to eve"], readableBy=user(BEN)) == ["to ben"]


def test_what_is_open_to_everybody(world: World) -> None:
    assert world.found(organizationWide=True) == ["to everyone"]
    assert world.found(organizationWide=True, page_size=1, query="EVERY") == ["to everyone"]
    assert world.found(organizationWide=True, query="ben") == []
    assert world.found(organizationWide=True, readableBy=world.readers[ADA]) == ["to everyone"]
    assert world.found(organizationWide=True, readableBy=world.readers["inner"]) == []
    assert world.found(organizationWide=True, ownedBy=world.readers[ZOE]) == ["to everyone"]
    assert len(world.found(organizationWide=False)) == 7
    stranger = another_organization(world.service)
    assert walk(world.service, LIST, {"organizationWide": True}, page_size=9, api_key=stranger) == []


def test_everything_has_its_name_and_is_found_by_it(service: RunningService) -> None:
    parts = {"documentName": "Ölstand 100% geprüft", "resourceId": "SEA-7", "resourceType": "JIRA_TICKET"}
    document_id = uploaded(service, "log", "Calm at sea.", **parts)["documentId"]
    collection_id = create_collection(service, "Logs of 1900")
    ids = [document_id, collection_id, an_agent(service, name="Purser's mate")["agentId"]]
    names = {row["objectId"]: row.get("name") for row in walk(service, LIST, {}, page_size=2)}
    assert names == dict(zip(ids, ["Ölstand 100% geprüft", "Logs of 1900", "Purser's mate"], strict=True))
    found = {
        part: [row["objectId"] for row in walk(service, LIST, {"query": part}, page_size=1)]
        for part in ("ölSTAND", "0% g", "logs", "MATE", "sea-7", collection_id[5:], "0_ g")
    }
    assert list(found.values()) == [[ids[0]], [ids[0]], [ids[1]], [ids[2]], [ids[0]], [ids[1]], []]
    named = {"objectIds": [ids[2], ids[0], ids[0], UNKNOWN]}
    assert [row["objectId"] for row in walk(service, LIST, named, page_size=1)] == sorted([ids[0], ids[2]])
    assert ok(service.call(COUNT, {**named, "query": "mate"}))["total"] == 1
    ok(service.call("catalog/deleteDocument", {"documentId": ids[0]}))
    assert walk(service, LIST, {"query": "geprüft"}) == []


def test_the_order_of_names_is_that_of_people(service: RunningService) -> None:
    for name in ("beta", "Alpha", "Gamma", "alpha"):
        ok(upload(service, name, documentName=name))
    a_resource(service, "BETA-1", resource_type=BOX)
    an_agent(service, name="Aft")
    for size in (1, 2, 3, 1000):
        rows = walk(service, LIST, {"order": "NAME"}, page_size=size)
        names = [(row.get("name") or row["resourceId"]).lower() for row in rows]
        assert names == ["aft", "alpha", "alpha", "beta", "beta-1", "gamma"]
        assert len({row["objectId"] for row in rows}) == 6
    filters = {"order": "NAME", "readableBy": user(service.admin_email), "resourceTypes": [UPLOAD], "query": "A"}
    found = [row["name"].lower() for row in walk(service, LIST, filters, page_size=2)]
    assert found == ["alpha", "alpha", "beta", "gamma"]
    token = ok(service.call(LIST, {"order": "NAME", "pageSize": 1}))["nextPageToken"]
    assert code(service.call(LIST, {"pageSize": 1, "pageToken": token})) == (400, "invalid_page_token")


def test_it_is_of_one_organization(world: World) -> None:
    service = world.service
    stranger = another_organization(service)
    for operation in (LIST, COUNT):
        for reader in world.readers.values():
            error = refused(service.call(operation, {"readableBy": reader}, api_key=stranger), 400, "unknown_principal")
            assert error["details"][0]["field"] == "readableBy"
    assert walk(service, LIST, {"query": "to"}, api_key=stranger) == []
    assert ok(service.call(COUNT, {}, api_key=stranger)) == {"counts": [], "total": 0}
    admin = user("admin@other.test")
    assert walk(service, LIST, {"readableBy": admin}, api_key=stranger) == []
    answer = service.call(LIST, {"readableBy": admin, "notReadableBy": user(ADA)}, api_key=stranger)
    assert answer.json()["error"]["details"][0]["field"] == "notReadableBy"


@pytest.mark.parametrize("body", [*cases("filters_that_mean_nothing_are_refused"), {"query": "a" * 1025}])
def test_filters_that_mean_nothing_are_refused(module_service: RunningService, body: dict) -> None:
    for operation in (LIST, COUNT):
        assert module_service.call(operation, body).status_code == 400, body


def test_a_page_token_is_bound_to_the_filters(world: World) -> None:
    filters = {"readableBy": user(ZOE), "notReadableBy": user(BEN), "pageSize": 1}
    token = ok(world.service.call(LIST, filters))["nextPageToken"]
    others = [{**filters, "readableBy": user(ADA)}, {**filters, "query": "to"}, {"readableBy": user(ZOE)}]
    for body in others:
        assert code(world.service.call(LIST, {**body, "pageToken": token})) == (400, "invalid_page_token")
    ok(world.service.call(LIST, {**filters, "pageToken": token}))
