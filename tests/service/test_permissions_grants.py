"""Grants set by admins."""

import asyncio
from collections.abc import Iterator
from functools import partial
from typing import Any
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from service.permissions import queries
from service.permissions import queries as classes
from service.permissions.service import Access, access_class_for, access_of, register_resource, set_access
from service.platform.identifiers import uuid7
from tests.service import directory
from tests.service.conversations import at_once
from tests.service.directory import a_group, a_resource, a_user, code, done, group, organization_id, readers, user


def grants(resource: dict[str, str], *given: tuple[dict[str, Any], str], **body: Any) -> dict[str, Any]:
    return {"resource": resource, "grants": [{"principal": who, "role": role} for who, role in given], **body}


def summary(answer: dict[str, Any]) -> tuple[set[tuple[str, str, str]], bool]:
    held = {(one["principal"]["type"], one["principal"]["name"], one["role"]) for one in answer["grants"]}
    return held, answer["organizationWide"]


async def register(connection: AsyncConnection, organization: UUID, access: Access) -> UUID:
    object_id = uuid7()
    await register_resource(
        connection, organization, object_id=object_id, resource_type="AGENT", resource_id=str(object_id), access=access
    )
    return object_id


def test_setting_grants_replaces_them_and_keeps_the_owner(service) -> None:
    ada, _, team = a_user(service, "ada@example.test"), a_user(service, "ben@example.test"), a_group(service, "Team")
    memo = a_resource(service, "memo", owner=ada["id"])
    first = grants(memo, (user("Ben@example.test"), "EDITOR"), (group(team), "VIEWER"))
    answer = done(service.call("admin/grants/set", first))
    assert summary(answer) == ({("user", "ben", "EDITOR"), ("group", "Team", "VIEWER")}, False)
    assert answer["resource"] == memo
    assert done(service.call("admin/grants/list", {"resource": memo})) == answer
    assert set(readers(service, memo)) == {"ada@example.test", "ben@example.test", "Team"}
    answer = done(service.call("admin/grants/set", grants(memo, (user("ben@example.test"), "VIEWER"))))
    assert summary(answer) == ({("user", "ben", "VIEWER")}, False)
    assert summary(done(service.call("admin/grants/set", grants(memo, organizationWide=True)))) == (set(), True)
    assert set(readers(service, memo)) == {"ada@example.test", "ben@example.test", service.admin_email}
    assert summary(done(service.call("admin/grants/set", grants(memo)))) == (set(), False)
    assert readers(service, memo) == ["ada@example.test"]


def test_many_resources_are_set_at_once_or_not_at_all(service, elsewhere) -> None:
    a_user(service, "ben@example.test")
    memos = [a_resource(service, f"memo-{number}") for number in range(20)]
    given = [grants(memo, (user("ben@example.test"), "VIEWER")) for memo in memos]
    nowhere = {"resourceId": "nowhere", "resourceType": "UPLOADED_DOCUMENT"}
    a_user(elsewhere, "eve@example.test")
    unknown = (user("no@example.test"), user("eve@example.test"), group(a_group(elsewhere, "Theirs")))
    refused: list[tuple[list[dict[str, Any]], tuple[int, str], str]] = [
        ([*given, grants(nowhere)], (404, "resource_not_found"), "resources.20.resource"),
        ([*given, given[0]], (400, "duplicate_resource"), "resources.20.resource"),
        *(
            (
                [*given[1:], grants(memos[0], (one, "VIEWER"))],
                (400, "unknown_principal"),
                "resources.19.grants.0.principal",
            )
            for one in unknown
        ),
    ]
    for resources, expected, field in refused:
        response = service.call("admin/grants/setMany", {"resources": resources})
        assert code(response) == expected
        assert [one["field"] for one in response.json()["error"]["details"]] == [field]
        assert directory.readable(service, "ben@example.test") == []
    assert done(service.call("admin/grants/setMany", {"resources": given})) == {"resourceCount": 20}
    assert len(directory.readable(service, "ben@example.test")) == 20
    assert directory.on_rows(service, "SELECT count(DISTINCT access_class) FROM resources") == [(1,)]


class CountedWalks(list[Any]):
    walks = 0

    def __iter__(self) -> Iterator[Any]:
        type(self).walks += 1
        return super().__iter__()


def test_setting_many_goes_through_their_readers_as_often_as_setting_one(service, monkeypatch) -> None:
    """A thousand resources with a hundred readers each could otherwise block all requests for minutes."""
    a_user(service, "ben@example.test")
    memos = [a_resource(service, f"memo-{number}") for number in range(12)]
    list_readers = classes.list_readers

    async def counted(*args: Any, **kwargs: Any) -> CountedWalks:
        return CountedWalks(await list_readers(*args, **kwargs))

    monkeypatch.setattr(classes, "list_readers", counted)
    walks: list[int] = []
    for some in (memos[:1], memos[1:]):
        CountedWalks.walks = 0
        given = [grants(memo, (user("ben@example.test"), "VIEWER")) for memo in some]
        done(service.call("admin/grants/setMany", {"resources": given}))
        walks.append(CountedWalks.walks)
    assert walks[0] == walks[1]


def test_the_audit_log_names_the_role_by_which_a_principal_may_do_most(service) -> None:
    ada, ben = a_user(service, "ada@example.test"), a_user(service, "ben@example.test")
    memo = a_resource(service, "memo", owner=ada["id"])
    both = [(user("ben@example.test"), "EDITOR"), (user("ben@example.test"), "VIEWER")]
    done(service.call("admin/grants/set", grants(memo, *both, (user("ada@example.test"), "VIEWER"))))
    done(service.call("admin/grants/set", grants(memo)))
    newest, first = done(service.call("admin/auditLog/query", {"action": "grants.set", "pageSize": 2}))["entries"]
    held = {ada["id"]: "OWNER", ben["id"]: "EDITOR"}
    assert first["details"] == {"before": {ada["id"]: "OWNER"}, "after": held}
    assert newest["details"] == {"before": held, "after": {ada["id"]: "OWNER"}}


def test_only_viewer_and_editor_can_be_granted(service) -> None:
    """The owner is the resource's creator."""
    memo = a_resource(service, "memo")
    for role in ("OWNER", "ADMIN", ""):
        response = service.call("admin/grants/set", grants(memo, (user(service.admin_email), role)))
        assert code(response) == (400, "invalid_request")


def test_concurrent_changes_of_overlapping_resources_neither_deadlock_nor_mix(service) -> None:
    a_user(service, "ben@example.test")
    memos = [a_resource(service, f"memo-{number}") for number in range(12)]
    wide = [grants(memo, organizationWide=True) for memo in memos]
    narrow = [grants(memo, (user("ben@example.test"), "EDITOR")) for memo in reversed(memos)]
    calls = [partial(service.call, "admin/grants/setMany", {"resources": one}) for one in (wide, narrow) * 4]
    assert [one.status_code for one in at_once(*calls)] == [200] * 8
    ends = [summary(done(service.call("admin/grants/list", {"resource": memo}))) for memo in memos]
    assert all(one in [(set(), True), ({("user", "ben", "EDITOR")}, False)] for one in ends)
    assert len({str(one) for one in ends}) == 1


def test_resources_are_locked_in_the_order_of_their_ids(service) -> None:
    """A waiting call has locked no later resource, so two calls can't deadlock."""
    memos = [a_resource(service, f"memo-{number}") for number in range(12)]
    organization = organization_id(service)
    identities = [(memo["resourceType"], memo["resourceId"]) for memo in memos]

    async def lock() -> list[int]:
        database = service.runtime.database
        async with database.transaction(organization) as first, database.transaction(organization) as second:
            locked = [await queries.lock_resources(first, organization, identities=identities[:1])]
            waiting = asyncio.ensure_future(queries.lock_resources(second, organization, identities=identities[::-1]))
            await asyncio.sleep(0.2)
            assert not waiting.done()
            async with database.transaction(organization) as third:
                locked.append(await queries.lock_resources(third, organization, identities=identities[1:]))
            await first.commit()
            return [len(one) for one in (*locked, await waiting)]

    assert service.run(lock()) == [1, 11, 12]


def test_two_transactions_that_need_the_same_new_class_get_the_same(service) -> None:
    organization = organization_id(service)
    access = Access(owner_id=None, viewers=frozenset({organization}))

    async def both() -> tuple[int, int, Access]:
        database = service.runtime.database
        async with database.transaction(organization) as first:
            other = await access_class_for(first, organization, Access(owner_id=None))
            made = await access_class_for(first, organization, access)
            assert made != other
            async with database.transaction(organization) as second:
                waiting = asyncio.ensure_future(access_class_for(second, organization, access))
                await asyncio.sleep(0.2)
                assert not waiting.done()
                await first.commit()
                found = await waiting
                return made, found, await access_of(second, organization, await register(second, organization, access))

    made, found, readable_by = service.run(both())
    assert made == found
    assert readable_by == access


def test_access_survives_a_round_trip_and_waits_for_whoever_locked_the_resource(service) -> None:
    ada, team = UUID(a_user(service, "ada@example.test")["id"]), UUID(a_group(service, "Team")["id"])
    organization, database = organization_id(service), service.runtime.database
    access = Access(owner_id=ada, viewers=frozenset({organization}), editors=frozenset({team, ada}))

    async def change() -> tuple[Access, int | None, int | None]:
        async with database.transaction(organization) as connection:
            object_id = await register(connection, organization, Access(owner_id=ada))

        async def replace() -> None:
            async with database.transaction(organization) as connection:
                await set_access(connection, organization, object_id=object_id, access=access)

        async with database.transaction(organization) as writer:
            before = await queries.lock_resource(writer, organization, object_id)
            waiting = asyncio.ensure_future(replace())
            await asyncio.sleep(0.2)
            assert not waiting.done()
        await waiting
        async with database.transaction(organization) as connection:
            after = await queries.lock_resource(connection, organization, object_id)
            return await access_of(connection, organization, object_id), before, after

    result, before, after = service.run(change())
    assert result == access
    assert before != after
