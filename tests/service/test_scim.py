"""SCIM: an identity provider's requests maintain people and groups, end access at once, and have no further rights."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlencode
from uuid import uuid4

import httpx2
import pytest

from tests.harness.cases import cases
from tests.harness.services import RunningService
from tests.oauth.flow import works
from tests.service.directory import another_organization, code, done, entries
from tests.service.provisioning import GROUP, PATCH, USER, Provider, created, refusal
from tests.service.service_accounts import account as account_of
from tests.service.service_accounts import an_account, enable_service_accounts


@pytest.mark.slow
def test_a_checker_that_nobody_here_wrote_finds_no_error(service, monkeypatch) -> None:
    # Its models take five seconds to import, which every process that runs tests would need.
    from scim2_client.engines.httpx2 import SyncSCIMClient  # noqa: PLC0415
    from scim2_tester import Status, check_server  # noqa: PLC0415

    from service.domains.people.scim.models import User, describe_provider  # noqa: PLC0415

    addresses = [f"{number}@example.test" for number in range(100_000)]
    monkeypatch.setattr(User.model_fields["user_name"], "examples", addresses)
    headers = {"Authorization": f"Bearer {Provider(service).token}"}
    with httpx2.Client(base_url=f"{service.base_url}/scim/v2", headers=headers, timeout=60) as http:
        results = check_server(SyncSCIMClient(http, provider=describe_provider()))
    wrong = [f"{one.title}: {one.reason}" for one in results if one.status not in {Status.SUCCESS, Status.SKIPPED}]
    assert not wrong, "\n".join(wrong)
    assert sum(one.status is Status.SUCCESS for one in results) > 20


def test_entra_keeps_people_and_groups(service: RunningService) -> None:
    """The requests in the documentation of Entra's provisioning: cases, strings for flags, paths."""
    entra = Provider(service)
    assert entra.find("Users", filter='userName eq "Non-Existent"')["totalResults"] == 0
    extension = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"
    ada = entra.user(
        "Ada@Example.test",
        externalId="0a21f0f2",
        active=True,
        displayName="Ada",
        emails=[{"primary": True, "type": "work", "value": "ada@example.test"}],
        meta={"resourceType": "User"},
        name={"formatted": "Ada L", "familyName": "L", "givenName": "Ada"},
        roles=[{"value": "admin"}],
        isAdmin=True,
        schemas=[USER, extension],
        **{extension: {"department": "Engines"}},
    )
    assert entra.find("Users", filter='userName eq "ada@EXAMPLE.test"')["Resources"] == [ada]
    assert (ada["userName"], ada["displayName"], ada["active"]) == ("ada@example.test", "Ada", True)
    [kept] = people(service, "ada@example.test")
    assert (kept["name"], kept["isAdmin"], kept["active"]) == ("Ada", False, True)

    path = f"Users/{ada['id']}"
    changed = entra.patch(
        path,
        {"op": "Replace", "path": 'emails[type eq "work"].value', "value": "other@example.test"},
        {"op": "Add", "path": "name.familyName", "value": "King"},
        {"op": "Replace", "path": "displayName", "value": "Ada King"},
        {"op": "Add", "path": f"{extension}:department", "value": "Notes"},
    )
    assert (changed.status_code, changed.content) == (204, b"")
    renamed = {"name.givenName": "A", "userName": "king@example.test"}
    assert entra.patch(path, {"op": "replace", "value": renamed}).is_success
    now = done(entra.send("GET", path))
    assert (now["userName"], now["displayName"], now["externalId"]) == ("king@example.test", "Ada King", "0a21f0f2")

    crew = entra.group("Crew", externalId="8aa1a0c0")
    where = f"Groups/{crew['id']}"
    assert "members" not in done(entra.send("GET", f"{where}?excludedAttributes=members"))
    member = {"op": "Add", "path": "members", "value": [{"$ref": None, "value": ada["id"], "display": "x"}]}
    assert entra.patch(where, member).status_code == 204
    joined = f'id eq "{crew["id"]}" and members eq "{ada["id"]}"'
    assert entra.find("Groups", filter=joined, attributes="id")["totalResults"] == 1
    assert [one["value"] for one in done(entra.send("GET", where))["members"]] == [ada["id"]]
    assert entra.patch(where, {"op": "Remove", "path": "members", "value": [{"value": ada["id"]}]}).status_code == 204
    assert "members" not in done(entra.send("GET", where))

    assert entra.patch(path, {"op": "Replace", "path": "active", "value": "False"}, member="operations").is_success
    assert not people(service, "king@example.test")[0]["active"]
    assert entra.send("DELETE", path).status_code == 204
    assert refusal(entra.send("GET", path)) == (404, None)
    assert entra.send("DELETE", where).status_code == 204
    assert entra.find("Groups")["totalResults"] == 0


def test_okta_keeps_people_and_groups(service: RunningService) -> None:
    """The requests of Okta's provisioning: whole people by PUT, members by values' paths, leavers as inactive."""
    okta = Provider(service)
    assert okta.find("Users", filter='userName eq "ben@example.test"', startIndex=1, count=100)["totalResults"] == 0
    body = {
        "schemas": [USER],
        "userName": "ben@example.test",
        "name": {"givenName": "Ben", "familyName": "Bosun"},
        "emails": [{"primary": True, "value": "ben@example.test", "type": "work"}],
        "externalId": "00u1",
        "locale": "en-US",
        "groups": [],
        "password": "1mz050nq",
        "active": True,
    }
    ben = created(okta.send("POST", "Users", body))
    assert ben["displayName"] == "Ben Bosun"
    assert refusal(okta.send("POST", "Users", body)) == (409, "uniqueness")
    assert people(service, "ben@example.test")[0]["hasPassword"] is False
    path = f"Users/{ben['id']}"
    renamed = body | {"name": {"givenName": "Benjamin", "familyName": "Bosun"}}
    assert done(okta.send("PUT", path, renamed))["displayName"] == "Benjamin Bosun"
    crew, ship = okta.group("Crew", ben), okta.group("Ship")
    assert refusal(okta.send("POST", "Groups", {"schemas": [GROUP], "displayName": "Crew"})) == (409, "uniqueness")
    where = f"Groups/{crew['id']}"
    swap = (
        {"op": "remove", "path": f'members[value eq "{ben["id"]}"]'},
        {"op": "add", "path": "members", "value": [{"value": ship["id"]}]},
    )
    assert okta.patch(where, *swap).is_success
    assert [(one["value"], one["type"]) for one in done(okta.send("GET", where))["members"]] == [(ship["id"], "Group")]
    assert okta.patch(where, {"op": "replace", "value": {"id": crew["id"], "displayName": "Hands"}}).is_success
    assert okta.patch(where, {"op": "replace", "path": "members", "value": [{"value": ben["id"]}]}).is_success
    hands = done(okta.send("GET", where))
    assert (hands["displayName"], [one["value"] for one in hands["members"]]) == ("Hands", [ben["id"]])
    assert done(okta.send("PUT", path, renamed | {"active": False}))["active"] is False
    assert not people(service, "ben@example.test")[0]["active"]
    assert done(okta.send("PUT", path, renamed))["active"] is True


def test_the_same_again_changes_nothing_and_versions_guard(service: RunningService) -> None:
    provider = Provider(service)
    ada, ben = provider.user("ada@example.test"), provider.user("ben@example.test")
    crew = provider.group("Crew", ada, ben, externalId="c")
    where = f"Groups/{crew['id']}"
    before, number = done(provider.send("GET", where)), len(audited(service))
    version, members = before["meta"]["version"], [{"value": ben["id"]}, {"value": ada["id"]}]
    again = {"schemas": [GROUP], "displayName": "Crew", "externalId": "c", "members": members}
    assert done(provider.send("PUT", where, again)) == before
    assert provider.patch(where, {"op": "add", "path": "members", "value": members}).headers["etag"] == version
    person = {"schemas": [USER], "userName": "ada@example.test", "active": True}
    assert done(provider.send("PUT", f"Users/{ada['id']}", person)) == ada
    assert len(audited(service)) == number
    assert provider.send("GET", where, **{"If-None-Match": version}).status_code == 304
    stale = {"If-Match": 'W/"stale"'}
    assert refusal(provider.patch(where, REMOVAL, **stale)) == (412, None)
    assert refusal(provider.send("DELETE", f"Users/{ada['id']}", **stale)) == (412, None)
    assert provider.patch(where, REMOVAL, **{"If-Match": version}).is_success
    [entry, *_] = audited(service)
    assert (entry["action"], entry["target"]["name"]) == ("group.members", "Crew")
    token = {"scimTokenId": provider.token_id, "scimTokenName": "Entra"}
    assert entry["details"] == {"removed": sorted([ada["id"], ben["id"]]), **token}
    done(provider.send("PUT", where, again | {"displayName": "Hands"}))
    done(provider.send("PUT", f"Users/{ada['id']}", person | {"active": False}))
    changes = {name: one for entry in audited(service) for name, one in (entry.get("changes") or {}).items()}
    assert changes["name"] == {"from": "Crew", "to": "Hands"}
    assert changes["active"] == {"from": True, "to": False}


def test_the_last_admin_is_not_locked_out(service: RunningService) -> None:
    provider = Provider(service)
    [admin] = provider.find("Users", filter='userName sw "admin@"')["Resources"]
    path = f"Users/{admin['id']}"
    assert refusal(provider.patch(path, {"op": "replace", "value": {"active": False}}))[0] == 409
    assert refusal(provider.patch(path, {"op": "replace", "path": "userName", "value": "eve@example.test"}))[0] == 409
    assert "active admin" in provider.send("DELETE", path).json()["detail"]
    assert done(provider.send("GET", path))["active"]
    refused = [one for one in audited(service) if one["action"] == "scim.refuse"]
    assert [one["details"]["code"] for one in refused] == ["last_admin"] * 3
    assert {one["details"]["scimTokenId"] for one in refused} == {provider.token_id}


@pytest.mark.parametrize("changed", ["userName", "externalId"])
def test_an_admins_account_goes_to_nobody_else(service: RunningService, changed: str) -> None:
    """An admin stays an admin when provisioned, except with a new address or external id."""
    provider = Provider(service)
    service.new_user("ada@example.test", is_admin=True)
    [ada] = provider.find("Users", filter='userName eq "ada@example.test"')["Resources"]
    path, known = f"Users/{ada['id']}", {"externalId": "1", "displayName": "Ada"}
    assert provider.patch(path, {"op": "replace", "value": known}).is_success
    assert people(service, "ada@example.test")[0]["isAdmin"] is True
    assert provider.patch(path, {"op": "replace", "path": changed, "value": "eve@example.test"}).is_success
    [now] = [one for one in people(service, "@example.test") if one["id"] == ada["id"]]
    assert now["isAdmin"] is False


def test_filters_find_what_they_say(service: RunningService) -> None:
    """Every operator and connection, pages and orders; a filter's words are values and never SQL."""
    provider = Provider(service)
    for number, (name, external_id) in enumerate({"Ada": "1", "ben_b": None, "b%n": "3"}.items()):
        known = {"externalId": external_id} if external_id else {}
        provider.user(f"{number}@example.test", displayName=name, **known)
    [inactive] = provider.find("Users", filter='externalId eq "3"')["Resources"]
    assert provider.patch(f"Users/{inactive['id']}", {"op": "replace", "value": {"active": False}}).is_success

    def found(text: str) -> list[str]:
        resources = provider.find("Users", filter=text).get("Resources", [])
        return sorted(one["displayName"] for one in resources if not one["userName"].startswith("admin@"))

    expected: dict[str, list[str]] = cases("filters_of_scim")
    assert {text: found(text) for text in expected} == expected
    for text in (
        'displayName eq "a',
        "displayName",
        'roles eq "x"',
        'userName eq "\\u0000"',
        "(" * 300 + 'id eq "1"',
        'id eq "1" or ' * 60 + 'id eq "1"',
    ):
        assert refusal(provider.send("GET", f"Users?{urlencode({'filter': text})}")) == (400, "invalidFilter"), text
    ada = provider.find("Users", filter='displayName eq "ada"')["Resources"][0]["id"]
    crew = provider.group("Crew", {"id": ada})["id"]
    provider.group("Ship", {"id": crew})
    of_groups = {
        f'members.value eq "{ada}"': 1,
        f'members[value eq "{ada.upper()}"]': 1,
        f'members eq "{ada}" or id eq "{crew}"': 1,
        f'members.value eq "{crew}" and displayName eq "ship"': 1,
        f'not (members.value eq "{ada}")': 1,
        f'members.value sw "{ada[:-1]}"': 1,
        'members.value eq "nobody"': 0,
        'id ne "nobody"': 2,
    }
    assert {text: provider.find("Groups", filter=text)["totalResults"] for text in of_groups} == of_groups
    page = provider.find("Users", sortBy="userName", sortOrder="descending", startIndex=2, count=2)
    assert [one["userName"] for one in page["Resources"]] == ["2@example.test", "1@example.test"]
    assert provider.find("Users", count=0)["totalResults"] == 4


def test_a_token_opens_scim_alone_and_nothing_else_opens_scim(service: RunningService) -> None:
    provider, key = Provider(service), another_organization(service)
    other = Provider(service, api_key=key)
    assert service.call("admin/users/list", api_key=provider.token).status_code == 401
    assert not works(service, provider.token)
    for value in (service.api_key, "svc_sc_wrong", "x"):
        assert refusal(service.http.get("/scim/v2/Users", headers={"Authorization": f"Bearer {value}"}))[0] == 401
    ada, crew = provider.user("ada@example.test"), provider.group("Crew")
    for path in (f"Users/{ada['id']}", f"Groups/{crew['id']}"):
        unknown = other.send("GET", path.replace(ada["id"], crew["id"]))
        anew = {"schemas": [USER], "userName": "x@y.example", "displayName": "x"}
        for method, body in (("GET", None), ("DELETE", None), ("PUT", anew)):
            assert refusal(other.send(method, path, body)) == (404, None)
        assert other.send("GET", path).json()["detail"] == unknown.json()["detail"]
    stranger = {"op": "add", "path": "members", "value": [{"value": ada["id"]}]}
    assert refusal(other.patch(f"Groups/{other.group('Theirs')['id']}", stranger)) == (400, "invalidValue")
    assert other.find("Users")["totalResults"] == 1
    eve = service.new_user("eve@example.test")
    assert code(service.call("admin/scimTokens/create", {"name": "x"}, api_key=eve))[0] == 403
    listed = done(service.call("admin/scimTokens/list"))
    assert listed["baseUrl"] == f"{service.settings.issuer}/scim/v2"
    assert provider.token not in str(listed)
    assert listed["tokens"][0]["lastUsedAt"]
    done(service.call("admin/scimTokens/revoke", {"tokenId": provider.token_id}))
    assert refusal(provider.send("GET", "Users"))[0] == 401


def test_known_members_come_in_without_those_that_are_unknown(service: RunningService) -> None:
    provider = Provider(service)
    ada, ben, nobody = provider.user("ada@example.test"), provider.user("ben@example.test"), {"id": str(uuid4())}
    crew = provider.group("Crew", ada, nobody)
    joining = {"op": "add", "path": "members", "value": [{"value": one["id"]} for one in (nobody, ben)]}
    assert provider.patch(f"Groups/{crew['id']}", joining).is_success
    alone = {"op": "add", "path": "members", "value": [{"value": nobody["id"]}]}
    assert refusal(provider.patch(f"Groups/{crew['id']}", alone)) == (400, "invalidValue")
    members = provider.send("GET", f"Groups/{crew['id']}").json()["members"]
    assert {one["value"] for one in members} == {ada["id"], ben["id"]}
    refused = entries(service, action="scim.refuse")
    assert [one["details"]["unknown"] for one in refused] == [[nobody["id"]]] * 3
    assert [one["target"]["id"] for one in refused] == [crew["id"]] * 3


REMOVAL = {"op": "remove", "path": "members"}
REFUSALS: list[tuple[str, str, Any, tuple[int, str | None]]] = [
    ("POST", "Groups", {"schemas": [GROUP], "displayName": "x" * 2000}, (400, "invalidValue")),
    ("POST", "Groups", {"schemas": [GROUP], "displayName": "x", "externalId": "x" * 2000}, (400, "invalidValue")),
    ("PATCH", "Groups/1", {"schemas": [PATCH], "Operations": [REMOVAL] * 1001}, (413, None)),
    ("POST", "Users/.search", {"schemas": [], "filter": "(" * 20_000}, (413, None)),
    *((method, path, body, tuple(told)) for method, path, body, told in cases("requests_that_scim_refuses")),
]


def test_what_cannot_be_done_is_said_in_scims_form(service: RunningService) -> None:
    provider = Provider(service)
    answers = [refusal(provider.send(method, path, body)) for method, path, body, _ in REFUSALS]
    assert answers == [expected for *_, expected in REFUSALS]


def test_thousands_of_members_and_two_at_once(service: RunningService, monkeypatch: pytest.MonkeyPatch) -> None:
    provider, other = Provider(service), Provider(service)
    ids: list[str] = []
    for start in range(0, 3000, 1000):
        users = [{"email": f"{number}@example.test"} for number in range(start, start + 1000)]
        ids += [one["id"] for one in done(service.call("admin/users/upsert", {"users": users}))["users"]]
    crew = provider.group("Crew")
    enable_service_accounts(service)
    robot = account_of(an_account(service))
    done(service.call("admin/groups/addMembers", {"groupId": crew["id"], "members": [robot]}))
    where, everybody = f"Groups/{crew['id']}", [{"value": one} for one in ids]
    halves = (everybody[:1600], everybody[1400:])
    with ThreadPoolExecutor(2) as both:
        sent = [
            both.submit(one.patch, where, {"op": "add", "path": "members", "value": half})
            for one, half in zip((provider, other), halves, strict=True)
        ]
    assert [one.result().status_code for one in sent] == [204, 204]
    assert len(done(provider.send("GET", where))["members"]) == 3000
    joined = [one["details"].get("added", []) for one in audited(service) if one["action"] == "group.members"]
    assert sum(map(len, joined)) == 3000
    monkeypatch.setattr("service.domains.people.scim.storage.MOST_MEMBERS", 2)
    for number in range(3):
        provider.group(f"Watch {number}", {"id": ids[0]})
    listed = {"sortBy": "displayName", "startIndex": 1}
    pages = list[tuple[int, list[int]]]()
    while listed["startIndex"] <= 4:
        page = provider.find("Groups", **listed)
        pages.append((page["totalResults"], [len(one["members"]) for one in page["Resources"]]))
        listed["startIndex"] += page["itemsPerPage"]
    assert pages == [(4, [3000]), (4, [1, 1]), (4, [1])]
    bare = provider.find("Groups", excludedAttributes="members")["Resources"]
    assert (len(bare), any("members" in one for one in bare)) == (4, False)
    # Each operation would go through all members, if it weren't done in bulk.
    gone = [{"op": "remove", "path": f'members[value eq "{one}"]'} for one in ids[:500]]
    renamed, version = {"op": "replace", "path": "displayName", "value": "Hands"}, done(provider.send("GET", where))
    known = {"If-Match": version["meta"]["version"]}
    assert provider.patch(where, renamed, *gone, **known).status_code == 204
    assert refusal(provider.patch(where, renamed, *gone, **known)) == (412, None)
    slow = [{"op": "remove", "path": f'members[value ne "{one}"]'} for one in ids[:20]]
    assert refusal(provider.patch(where, *slow)) == (400, "invalidSyntax")
    joining = {"op": "add", "path": "members", "value": everybody[:1]}
    hands = done(provider.patch(f"{where}?attributes=displayName,members", joining))
    assert (hands["displayName"], len(hands["members"])) == ("Hands", 2501)
    assert done(provider.send("PUT", where, {"schemas": [GROUP], "displayName": "Crew", "members": everybody[:2]}))
    assert done(service.call("admin/groups/list", {"query": "Crew"}))["groups"][0]["memberCount"] == 3


def people(service: RunningService, query: str) -> list[dict[str, Any]]:
    return done(service.call("admin/users/list", {"query": query}))["users"]


def audited(service: RunningService) -> list[dict[str, Any]]:
    return [one for one in entries(service) if "scimTokenId" in one.get("details", {})]
