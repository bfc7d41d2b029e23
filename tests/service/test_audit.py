"""The audit log."""

from datetime import UTC, datetime
from uuid import UUID

import psycopg
import pytest
from sqlalchemy.ext.asyncio import AsyncConnection

from service.audit import queries
from service.audit.service import record
from service.auth.callers import Caller, acting_for, authenticate
from tests.harness.documents import create_collection, uploaded
from tests.service.directory import a_group, a_key, a_resource, a_user, code, done, entries, organization_id, user, walk
from tests.service.service_accounts import an_account, delete_account, enable_service_accounts


def test_every_change_is_one_entry_by_its_actor_with_the_requests_id(service) -> None:
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
    users = [{"email": "ben@example.test"}, {"email": service.admin_email, "active": False}]
    assert code(service.call("admin/users/upsert", {"users": users}))[0] == 409
    assert len(entries(service)) == before + len(written)
    assert entries(service, targetId=team["id"]) == [written[3], written[2]]


def test_the_log_is_walked_newest_first_and_narrowed(service) -> None:
    done(service.call("admin/users/upsert", {"users": [{"email": f"u{number}@example.test"} for number in range(30)]}))
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


def test_who_acts_for_a_user_is_the_actor_and_the_user_is_named(service) -> None:
    a_user(service, "ben@example.test")
    organization = organization_id(service)

    async def act(connection: AsyncConnection) -> tuple[Caller, UUID]:
        admin = await authenticate(connection, f"Bearer {service.api_key}", keys=service.runtime.keys)
        ben = await acting_for(connection, admin, "ben@example.test")
        return ben, await record(
            connection, ben, action="feedback", target_type="search", target_id="x", text="not helpful"
        )

    ben, audit_log_id = service.in_transaction(None, act)
    assert ben.organization_id == organization
    newest = entries(service)[0]
    assert newest["auditLogId"] == str(audit_log_id)
    assert newest["actor"]["email"] == service.admin_email
    assert newest["actingFor"]["email"] == "ben@example.test"
    assert newest["text"] == "not helpful"
    assert newest["details"] == {}
    assert newest in entries(service, actor="ben@example.test")
    assert newest in entries(service, actor=service.admin_email)


def test_no_entry_can_be_changed_or_deleted_by_the_service(service, databases) -> None:
    """The service's role lacks the privilege, except for erasing free text."""
    a_user(service, "ada@example.test")
    with databases.connect(service.database) as connection:
        connection.execute("SET ROLE carrel_service")
        connection.execute("SELECT set_config('carrel.organization_id', %s, false)", [str(organization_id(service))])
        for statement in ("UPDATE audit_entries SET action = 'x'", "DELETE FROM audit_entries"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement)
        connection.execute("DELETE FROM free_texts")


FIREFOX = "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:142.0) Gecko/20100101 Firefox/142.0"


def test_an_entry_says_from_where_it_was_done(service) -> None:
    users = {"users": [{"email": f"u{number}@example.test"} for number in range(2)]}
    done(service.call("admin/users/upsert", users, headers={"User-Agent": FIREFOX}))
    done(service.call("admin/organization/update", {"name": "A"}, headers={"User-Agent": "curl/8.5.0"}))
    newest = entries(service)[:3]
    assert [one["device"] for one in newest] == ["curl", "Firefox on Windows", "Firefox on Windows"]
    assert {one["address"] for one in newest} == {"127.0.0.1"}
    assert "address" not in entries(service)[-1]  # the organization's beginning, which nobody asked for
    assert newest[0]["at"].endswith("Z")
    assert abs((datetime.now(UTC) - datetime.fromisoformat(newest[0]["at"])).total_seconds()) < 3600
    odd = {"x" * 5000: "x" * 40, "<script>": None, "Mozilla/5.0 (who knows)": "A browser"}
    for number, (sent, kept) in enumerate(odd.items()):
        done(service.call("admin/organization/update", {"name": f"A{number}"}, headers={"User-Agent": sent}))
        assert entries(service)[0].get("device") == kept


def test_a_forwarded_address_counts_from_trusted_proxies_alone(service, make_service) -> None:
    """An untrusted sender can't choose the logged address, as for the limits of failures."""
    behind_a_proxy = make_service(trusted_proxies=("127.0.0.1",))
    for asked, address in ((service, "127.0.0.1"), (behind_a_proxy, "203.0.113.9")):
        done(asked.call("admin/organization/update", {"name": "A"}, headers={"X-Forwarded-For": "203.0.113.9"}))
        assert entries(asked)[0]["address"] == address


def test_entries_keep_the_names_of_their_time(service) -> None:
    boss = a_user(service, "boss@example.test", name="Grace", isAdmin=True)
    key = a_key(service, ownerEmail="boss@example.test")["apiKey"]
    agent = done(service.call("admin/agents/create", {"name": "Policy desk"}, api_key=key))["agentId"]
    done(service.call("admin/agents/update", {"agentId": agent, "name": "Rules desk"}, api_key=key))
    a_user(service, "boss@example.test", name="Grace Hopper")
    done(service.call("admin/agents/delete", {"agentId": agent}, api_key=key))
    found = entries(service, targetId=agent)
    assert [(one["action"], one["actor"]["name"], one["target"]["name"]) for one in found] == [
        ("agent.delete", "Grace Hopper", "Rules desk"),
        ("agent.update", "Grace", "Rules desk"),
        ("agent.create", "Grace", "Policy desk"),
    ]
    assert [one["target"]["name"] for one in entries(service, targetId=boss["id"])] == ["Grace Hopper", "Grace"]


def test_what_is_deleted_keeps_its_name_on_the_log(service) -> None:
    enable_service_accounts(service)
    robot = an_account(service, "Robot")
    client = {"name": "Logbook", "redirectUris": ["https://app.example.test/cb"], "scopes": ["api:catalog:read"]}
    application = done(service.call("admin/oauthClients/create", client))
    shelf = create_collection(service, "Shelf")
    document_id = uploaded(service, "memo", documentName="Memo")["documentId"]
    source = done(service.call("sources/reportSource", {"ledger": "a" * 24, "source": "/srv/memos"}))
    delete_account(service, robot)
    done(service.call("admin/oauthClients/delete", {"clientId": application["clientId"]}))
    done(service.call("documentCollections/deleteDocumentCollection", {"documentCollectionId": shelf}))
    done(service.call("catalog/deleteDocument", {"documentId": document_id}))
    done(service.call("sources/removeSource", {"sourceId": source["sourceId"]}))
    assert [(one["action"], one["target"].get("name")) for one in entries(service)[:5]] == [
        ("source.remove", "/srv/memos"),
        ("document.delete", "Memo"),
        ("collection.delete", "Shelf"),
        ("oauthClient.delete", "Logbook"),
        ("serviceAccount.delete", "Robot"),
    ]


def test_the_log_is_narrowed_by_a_part_of_a_name(service, monkeypatch: pytest.MonkeyPatch) -> None:
    a_user(service, "boss@example.test", name="Grace 100%", isAdmin=True)
    key = a_key(service, ownerEmail="boss@example.test")["apiKey"]
    done(service.call("admin/agents/create", {"name": "Policy desk"}, api_key=key))
    done(service.call("admin/users/upsert", {"users": [{"email": f"u{number}@example.test"} for number in range(30)]}))
    assert [one["action"] for one in entries(service, query="policy")] == ["agent.create"]
    assert {one["action"] for one in entries(service, query="CE 100%")} == {"agent.create", "user.create"}
    assert entries(service, query="c%d") == []
    assert entries(service, query="desk", action="user.create") == []
    monkeypatch.setattr(queries, "MOST_LOOKED_THROUGH", 7)
    first = done(service.call("admin/auditLog/query", {"query": "policy"}))
    assert first["entries"] == []
    assert first["nextPageToken"]
    found = walk(service, "admin/auditLog/query", {"query": "policy"}, page_size=5)
    assert [one["action"] for one in found] == ["agent.create"]
    found = walk(service, "admin/auditLog/query", {"query": "u1"}, page_size=3)
    assert sorted(one["target"]["name"] for one in found) == ["u1", *(f"u{number}" for number in range(10, 20))]
