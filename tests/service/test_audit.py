"""The audit log."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import psycopg
import pytest

from service.audit.service import record
from service.auth.callers import Caller, acting_for, authenticate
from tests.harness.databases import TestDatabases
from tests.harness.services import RunningService
from tests.service.directory import (
    a_group,
    a_key,
    a_resource,
    a_user,
    another_organization,
    code,
    done,
    organization_id,
    user,
    walk,
)


def entries(service: RunningService, **body: Any) -> list[dict[str, Any]]:
    """The log, newest first."""
    return walk(service, "admin/auditLog/query", body, page_size=1000)


def test_every_change_is_one_entry_by_its_actor_with_the_requests_id(service: RunningService) -> None:
    """What changed nothing leaves none."""
    before = len(entries(service))
    ada = a_user(service, "ada@example.test")
    key = a_key(service, ownerEmail="ada@example.test")
    team = a_group(service, "Team", user("ada@example.test"))
    memo = a_resource(service, "memo")
    access = {"resource": memo, "grants": [{"principal": user("ada@example.test"), "role": "VIEWER"}]}
    done(service.call("admin/grants/set", access, headers={"X-Request-Id": "request-17"}))
    done(service.call("admin/apiKeys/revoke", {"apiKeyId": key["apiKeyId"]}))
    settings = {"name": "Ferries", "domain": "Ferries.test", "serviceAccountsEnabled": True}
    done(service.call("admin/organization/update", settings))
    written = list(reversed(entries(service)))[before:]
    assert [(one["action"], one["target"]["type"]) for one in written] == [
        ("user.create", "user"),
        ("apiKey.create", "apiKey"),
        ("group.create", "group"),
        ("group.members", "group"),
        ("grants.set", "UPLOADED_DOCUMENT"),
        ("apiKey.revoke", "apiKey"),
        ("organization.update", "organization"),
    ]
    assert {one["actor"]["email"] for one in written} == {service.admin_email}
    assert written[3]["details"] == {"added": [ada["id"]]}
    assert written[4]["details"] == {"before": {}, "after": {ada["id"]: "VIEWER"}}
    assert written[4]["requestId"] == "request-17"
    assert written[6]["details"] == {"nameSet": True, "domain": "ferries.test", "serviceAccountsEnabled": True}
    a_user(service, "ada@example.test", active=True)
    a_group(service, "Team", user("ada@example.test"))
    done(service.call("admin/grants/set", access))
    done(service.call("admin/apiKeys/revoke", {"apiKeyId": key["apiKeyId"]}))
    assert len(entries(service)) == before + len(written)
    assert entries(service, targetId=team["id"]) == [written[3], written[2]]


def test_a_refused_change_leaves_no_entry(service: RunningService) -> None:
    """Entry and change are one transaction."""
    before = entries(service)
    users = [{"email": "ben@example.test"}, {"email": service.admin_email, "active": False}]
    assert code(service.call("admin/users/upsert", {"users": users}))[0] == 409
    assert entries(service) == before


def test_the_log_is_walked_newest_first_and_narrowed(service: RunningService) -> None:
    """By actor, action, target and time (`from` included, `to` not); each entry once over all pages."""
    users = [{"email": f"u{number}@example.test"} for number in range(30)]
    done(service.call("admin/users/upsert", {"users": users}))
    a_user(service, "boss@example.test", isAdmin=True)
    other = a_key(service, ownerEmail="boss@example.test")["apiKey"]
    done(service.call("admin/organization/update", {"name": "A"}, api_key=other))
    whole = entries(service)
    assert walk(service, "admin/auditLog/query", {}, page_size=7) == whole
    order = [(datetime.fromisoformat(one["at"]), one["auditLogId"]) for one in whole]
    assert order == sorted(order, reverse=True)
    assert [one["action"] for one in entries(service, actor="Boss@example.test")] == ["organization.update"]
    assert len(entries(service, action="user.create")) == 31
    middle = whole[1]["at"]
    assert entries(service, to=middle) == [one for one in whole if one["at"] < middle]
    assert entries(service, **{"from": middle}) == [one for one in whole if one["at"] >= middle]
    assert entries(service, actor="nobody@example.test") == []


def test_who_acts_for_a_user_is_the_actor_and_the_user_is_named(service: RunningService) -> None:
    """The log tells the owner of the credential from the person it spoke for, and shows the comment apart."""
    a_user(service, "ben@example.test")
    organization = organization_id(service)

    async def act() -> tuple[Caller, UUID]:
        async with service.runtime.database.transaction(None) as connection:
            admin = await authenticate(connection, f"Bearer {service.api_key}", keys=service.runtime.keys)
            ben = await acting_for(connection, admin, "ben@example.test")
            entry = await record(
                connection, ben, action="feedback", target_type="search", target_id="x", text="not helpful"
            )
            return ben, entry

    ben, audit_log_id = service.run(act())
    assert ben.organization_id == organization
    newest = entries(service)[0]
    assert newest["auditLogId"] == str(audit_log_id)
    assert newest["actor"]["email"] == service.admin_email
    assert newest["actingFor"]["email"] == "ben@example.test"
    assert newest["text"] == "not helpful"
    assert newest["details"] == {}
    assert newest in entries(service, actor="ben@example.test")
    assert newest in entries(service, actor=service.admin_email)


def test_no_entry_can_be_changed_or_deleted_by_the_service(service: RunningService, databases: TestDatabases) -> None:
    """The service's own role lacks the privilege; free text it may erase."""
    a_user(service, "ada@example.test")
    with databases.connect(service.database) as connection:
        connection.execute("SET ROLE carrel_service")
        connection.execute("SELECT set_config('carrel.organization_id', %s, false)", [str(organization_id(service))])
        for statement in ("UPDATE audit_entries SET action = 'x'", "DELETE FROM audit_entries"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement)
        connection.execute("DELETE FROM free_texts")


def test_another_organizations_log_is_its_own(service: RunningService) -> None:
    """Neither sees the other's entries, by target or by actor."""
    other = another_organization(service)
    ada = a_user(service, "ada@example.test")
    theirs = walk(service, "admin/auditLog/query", {}, page_size=9, api_key=other)
    assert [one["action"] for one in theirs] == ["organization.create"]
    for body in ({"targetId": ada["id"]}, {"actor": service.admin_email}):
        assert walk(service, "admin/auditLog/query", body, page_size=9, api_key=other) == []


def test_times_are_in_utc_and_end_in_z(service: RunningService) -> None:
    """RFC 3339, whatever the database's time zone is."""
    newest = entries(service)[0]["at"]
    assert newest.endswith("Z")
    assert abs((datetime.now(UTC) - datetime.fromisoformat(newest)).total_seconds()) < 3600
