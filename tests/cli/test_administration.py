"""Groups, grants, keys, service accounts, tokens, documents and agents, administered by `carrel`."""

from contextlib import nullcontext
from pathlib import Path

import pytest
import typer

from carrel.wire.catalog import Document
from cli import documents, grants
from tests import made_files
from tests.cli.conftest import Run, ran
from tests.client.samples import DOCUMENT
from tests.harness.documents import ok, upload
from tests.harness.jobs import until
from tests.harness.services import ADMIN_EMAIL, RunningService
from tests.service.conversations import FERRY, Desk, a_desk
from tests.service.directory import a_user, code, done
from tests.service.service_accounts import an_account, enable_service_accounts

ADA, BEN = "ada@example.test", "ben@example.test"


@pytest.fixture
def service(service: RunningService) -> RunningService:
    a_user(service, ADA, name="Ada")
    a_user(service, BEN, name="Ben [bold]")
    return service


@pytest.fixture
def desk(service: RunningService) -> Desk:
    return a_desk(service)


def test_groups_are_made_filled_shown_and_deleted(run: Run, desk: Desk) -> None:
    assert "carrel groups create" in run("groups", "list").err
    crew = ran(run, "groups", "create", "Crew", "--external-id", "crew-1")["id"]
    ran(run, "groups", "create", "Ship")
    again = run("groups", "create", "Crew")
    assert (again.code, crew in again.err) == (2, True)
    assert ran(run, "groups", "add", "crew-1", ADA, BEN.upper())["memberCount"] == 2
    assert ran(run, "groups", "add", "Ship", "group:Crew")["memberCount"] == 1
    counts = {one["name"]: one["memberCount"] for one in ran(run, "groups", "list")["groups"]}
    assert list(counts.items()) == [("Crew", 2), ("Ship", 1)]
    assert "member     Ben [bold] <ben@example.test>" in run("groups", "show", "Crew").out
    assert ran(run, "groups", "show", crew)["members"][0]["email"] == ADA
    assert ran(run, "groups", "remove", "Crew", BEN)["memberCount"] == 1

    ran(run, "grants", "give", upload_own(desk.service, "secret"), "group:Crew")
    planned = run("groups", "delete", "Crew", "--plan")
    assert (planned.out.strip(), planned.code) == ("Ada <ada@example.test> would lose access to 1", 0)
    assert run("groups", "remove", "Crew", ADA, "--plan").out == planned.out
    assert ran(run, "groups", "show", "Crew")["memberCount"] == 1
    assert run("groups", "delete", "Crew").code == 2
    assert ran(run, "groups", "delete", "Crew", "--yes")["groupId"] == crew
    assert run("groups", "show", "Crew").code == 2
    for wrong in (("add", "Ship", "nobody@example.test"), ("add", "Ship", "nobody"), ("show", "Nowhere")):
        assert run("groups", *wrong).code == 2


def upload_own(service: RunningService, name: str, **file) -> str:
    return str(ok(upload(service, name, **file))["documentId"])


def test_grants_are_planned_given_and_taken(run: Run, service: RunningService) -> None:
    notes = upload_own(service, "notes")
    ran(run, "groups", "create", "Readers")
    ran(run, "groups", "add", "Readers", ADA)
    assert "carrel grants give" in run("grants", "list", notes).err
    plan = ran(run, "grants", "give", notes, "group:Readers", "--plan")
    assert (plan["outcome"], plan["changes"]) == ("planned", ["group:Readers becomes VIEWER."])
    assert ran(run, "grants", "list", notes)["grants"] == []
    ran(run, "grants", "give", notes, "group:Readers")
    planned = run("grants", "give", notes, ADA, BEN, "--plan").out.splitlines()
    assert planned == [f"{ADA} becomes VIEWER, and can already read it.", f"{BEN} becomes VIEWER."]
    assert ran(run, "grants", "give", notes, ADA, BEN, "--role", "editor", "--everybody")["changes"] == [
        "Everyone in the organization can read it.",
        f"{ADA} becomes EDITOR, and can already read it.",
        f"{BEN} becomes EDITOR.",
    ]
    held = ran(run, "grants", "list", f"UPLOADED_DOCUMENT:{notes}")
    assert held["organizationWide"] is True
    roles = {one["principal"]["name"]: one["role"] for one in held["grants"]}
    assert roles == {"Ada": "EDITOR", "Ben [bold]": "EDITOR", "Readers": "VIEWER"}
    assert "Ben [bold] <ben@example.test>  EDITOR" in run("grants", "list", notes).out
    assert ran(run, "grants", "give", notes, BEN)["changes"] == [f"{BEN} becomes VIEWER instead of EDITOR."]
    assert run("grants", "take", notes, ADA).code == 2
    assert ran(run, "grants", "take", notes, ADA, BEN, "--everybody", "--yes")["changes"] == [
        "It is no longer open to everyone in the organization.",
        f"{ADA} is no longer EDITOR, and can still read it: in the group Readers.",
        f"{BEN} is no longer VIEWER.",
    ]
    assert [one["principal"]["name"] for one in ran(run, "grants", "list", notes)["grants"]] == ["Readers"]
    nothing = run("grants", "take", notes, BEN, "--yes")
    assert ("has no role" in nothing.err, nothing.out.strip()) == (True, "No changes.")
    to_nobody = ("give", notes), ("give", notes, "group:Nobody")
    for wrong in (*to_nobody, ("give", "elsewhere", ADA), ("take", notes, "--yes")):
        assert run("grants", *wrong).code == 2


def test_a_person_with_two_roles_keeps_both_when_another_gets_a_role(run: Run, service: RunningService) -> None:
    paper = upload_own(service, "shared")
    resource = {"resourceId": paper, "resourceType": "UPLOADED_DOCUMENT"}
    of_ben = {"principal": {"type": "user", "email": BEN}}
    done(service.call("admin/grants/set", {"resource": resource, "grants": [of_ben | {"role": "VIEWER"}]}))
    shared = {"resource": resource, "grants": [of_ben | {"role": "EDITOR"}]}
    done(service.call("permissions/setShares", shared))
    ran(run, "grants", "give", paper, ADA)
    held = done(service.call("admin/grants/list", {"resource": resource}))["grants"]
    assert sorted((one["principal"]["email"], one["role"]) for one in held) == [
        (ADA, "VIEWER"),
        (BEN, "EDITOR"),
        (BEN, "VIEWER"),
    ]


def test_what_is_taken_is_said_once(run_on_terminal: Run, service: RunningService) -> None:
    paper = upload_own(service, "once")
    resource = {"resourceId": paper, "resourceType": "UPLOADED_DOCUMENT"}
    given = [{"principal": {"type": "user", "email": ADA}, "role": "VIEWER"}]
    done(service.call("admin/grants/set", {"resource": resource, "grants": given}))
    shown = run_on_terminal("grants", "take", paper, ADA, answer="y\n")
    assert (shown.code, shown.out.count(f"{ADA} is no longer VIEWER")) == (0, 1)
    assert shown.out.index("no longer") < shown.out.index("Revoke access?")
    assert done(service.call("admin/grants/list", {"resource": resource}))["grants"] == []


def test_names_are_completed(run: Run, desk: Desk) -> None:
    """Bash needs escaped spaces; without a key or a service there is no completion."""
    del desk

    def complete(line: str, **environment: str | None) -> list[str]:
        words = {"COMP_WORDS": line, "COMP_CWORD": str(line.count(" ")), "_CARREL_COMPLETE": "complete_bash"}
        ended = run(**words, **environment)
        assert (ended.code, ended.err) == (0, "")
        return [each for each in ended.out.splitlines() if each]

    ran(run, "groups", "create", "Pilots of the harbour")
    assert complete("carrel groups show Pil") == [r"Pilots\ of\ the\ harbour"]
    assert complete("carrel agents show Harb") == [r"Harbour\ desk"]
    assert complete("carrel collections show Harb") == [r"Harbour\ desk\ documents"]
    assert complete("carrel groups show desk") == []
    assert complete("carrel groups show Pil", CARREL_API_KEY=None) == []
    assert complete("carrel groups show Pil", CARREL_API_KEY="svc_key_wrong") == []
    assert complete("carrel groups show Pil", CARREL_BASE_URL="http://127.0.0.1:9") == []


@pytest.mark.parametrize("moment", ["principal_of", "_grants_of_others"])
def test_a_role_that_was_given_meanwhile_stays(run, service, monkeypatch, moment):
    paper, meant = upload_own(service, "paper"), getattr(grants, moment)
    resource, given = f"UPLOADED_DOCUMENT:{paper}", [{"principal": {"type": "user", "email": BEN}, "role": "EDITOR"}]
    change = {"resource": {"resourceId": paper, "resourceType": "UPLOADED_DOCUMENT"}, "grants": given}

    def give_first(*asked: object) -> object:
        if not ran(run, "grants", "list", resource)["grants"]:
            done(service.call("admin/grants/set", change))
        return meant(*asked)

    monkeypatch.setattr(grants, moment, give_first)
    monkeypatch.setenv("CARREL_BASE_URL", service.base_url)
    monkeypatch.setenv("CARREL_API_KEY", service.api_key)
    with nullcontext() if moment == "principal_of" else pytest.raises(typer.Exit):
        grants.give(paper, [ADA])
    roles = {one["principal"]["name"]: one["role"] for one in ran(run, "grants", "list", paper)["grants"]}
    assert roles == {"Ben [bold]": "EDITOR", **({"Ada": "VIEWER"} if moment == "principal_of" else {})}


def test_keys_are_shown_once_and_revoked(run: Run, service: RunningService) -> None:
    ended = run("keys", "create", "nightly", "--owner", ADMIN_EMAIL, "--acts-for-users")
    value = ended.out.strip()
    assert ("shown only once" in ended.err, value in ended.err) == (True, False)
    assert service.call("admin/apiKeys/list", api_key=value).status_code == 200
    [listed] = [one for one in ran(run, "keys", "list", "--owner", ADMIN_EMAIL)["apiKeys"] if one["name"] == "nightly"]
    assert (listed["mayActForUsers"], "apiKey" in listed) == (True, False)
    assert value not in run("keys", "list").out
    own = run("whoami", "--json", CARREL_API_KEY=value).json
    assert (own["kind"], own["credentialName"], own["email"], own["isAdmin"]) == (
        "apiKey",
        "nightly",
        ADMIN_EMAIL,
        True,
    )
    assert ("scopes" in own, value in str(own)) == (False, False)
    assert run("keys", "revoke", "nightly").code == 2
    assert ran(run, "keys", "revoke", "nightly", "--yes")["status"] == "revoked"
    assert code(service.call("admin/apiKeys/list", api_key=value))[0] == 401
    assert run("keys", "revoke", "nightly", "--yes").code == 2
    assert run("keys", "create", "x", "--expires", "yesterday").code == 2


def test_tokens_are_planned_created_and_revoked(run: Run, service: RunningService) -> None:
    enable_service_accounts(service)
    account = an_account(service, "Loader")
    assert "carrel tokens create" in run("tokens", "list").err
    assert "documents to read" in run("tokens", "create", "Loader", "x", "--scope", "catalog:read", "--plan").out
    assert ran(run, "tokens", "list", account["email"])["tokens"] == []
    options = ("--scope", "catalog:read", "--scope", "catalog:write", "--expires", "2099-01-01T00:00:00Z")
    made = ran(run, "tokens", "create", "Loader", "load", *options)
    assert (set(made["scopes"]), made["expiresAt"]) == ({"catalog:read", "catalog:write"}, options[-1])
    assert service.call("catalog/listDocuments", api_key=made["token"]).status_code == 200
    assert account["email"] in run("tokens", "list").out
    assert ran(run, "tokens", "revoke", made["tokenId"], "--yes")["status"] == "revoked"
    assert code(service.call("catalog/listDocuments", api_key=made["token"]))[0] == 401
    for wrong in (("create", "Nobody", "x", "--scope", "catalog:read"), ("create", "Loader", "x", "--scope", "all")):
        assert run("tokens", *wrong).code == 2


def test_provisioning_tokens_are_shown_once_and_revoked(run: Run, service: RunningService) -> None:
    assert "carrel provisioning create" in run("provisioning", "list").err
    ended = run("provisioning", "create", "Entra")
    headers = {"Authorization": f"Bearer {ended.out.strip()}"}
    assert f"{service.settings.issuer}/scim/v2" in ended.err
    assert service.http.get("/scim/v2/Users", headers=headers).status_code == 200
    assert [one["name"] for one in ran(run, "provisioning", "list")["tokens"]] == ["Entra"]
    assert run("provisioning", "revoke", "Entra").code == 2
    assert ran(run, "provisioning", "revoke", "Entra", "--yes")["status"] == "revoked"
    assert service.http.get("/scim/v2/Users", headers=headers).status_code == 401
    assert "carrel provisioning list" in run("provisioning", "revoke", "Entra", "--yes").err


def test_service_accounts_are_made_shown_and_deleted(run: Run, service: RunningService) -> None:
    enable_service_accounts(service)
    made = ran(run, "service-accounts", "create", "Night [b] reader")
    address = made["email"]
    ran(run, "groups", "create", "Readers of the night")
    ran(run, "groups", "add", "Readers of the night", address)
    value = ran(run, "tokens", "create", address, "read", "--scope", "catalog:read")["token"]
    for name in (address, "Night [b] reader", made["serviceAccountId"]):
        shown = ran(run, "service-accounts", "show", name)
        assert (shown["email"], [one["name"] for one in shown["tokens"]]) == (address, ["read"])
        assert [one["name"] for one in shown["memberships"]] == ["Readers of the night"]
    assert "in         Readers of the night" in run("service-accounts", "show", address).out
    listed = ran(run, "service-accounts", "list", "--query", "night")["serviceAccounts"]
    assert [one["email"] for one in listed] == [address]
    assert run("service-accounts", "delete", address).code == 2
    assert ran(run, "service-accounts", "delete", address, "--yes")["revokedTokenCount"] == 1
    assert code(service.call("catalog/listDocuments", api_key=value))[0] == 401
    unknown = run("service-accounts", "show", address)
    assert (unknown.code, "carrel service-accounts list" in unknown.err) == (2, True)


def test_documents_without_text_are_told_from_those_that_are_being_read() -> None:
    listed = Document.model_validate({**DOCUMENT, "indexing": "DONE"})
    assert [
        documents.COLUMNS["index"](listed.model_copy(update={"chunk_count": count, "is_being_read": reads}))
        for count, reads in ((0, False), (0, True), (2, True))
    ] == ["no text", "being read", "done"]


def test_documents_are_found_shown_downloaded_and_deleted(run: Run, desk: Desk, tmp_path: Path) -> None:
    listed = ran(run, "documents", "list", "--query", "ferr")["documents"]
    assert [one["documentName"] for one in listed] == ["Ferries"]
    gone = upload_own(desk.service, "gone")
    named = "documents", "list", "--order", "name"
    first, *_, last = [one["documentName"] for one in ran(run, *named)["documents"]]
    assert ran(run, *named, "--reverse", "--most", "1")["documents"][0]["documentName"] == last > first
    narrowed = "--type", "text", "--since", "2020-01-01T00:00:00Z", "--until", "2999-01-01T00:00:00Z"
    assert len(ran(run, "documents", "list", *narrowed, "--reader", "admin@example.test")["documents"]) >= 2
    assert ran(run, "documents", "list", "--type", "pdf")["documents"] == []
    assert "--most" in run("documents", "list", "--most", "1").err
    assert "No document" in run("documents", "list", "--query", "no such name").err
    for name in (desk.document_id, "Harbour desk notes", "Ferries"):
        assert ran(run, "documents", "show", name)["documentId"] == desk.document_id
    shown = run("documents", "show", "Ferries").out
    assert "not read" not in shown
    assert "catalog: English\n" in shown
    mail = upload_own(desk.service, "mail", file_name="a.mbox", content=made_files.mailbox())
    assert "1 attachment (message 1)\n" in run("documents", "show", mail).out
    told = {"kind": "attachment", "count": 1, "where": ["message 1"]}
    assert ran(run, "documents", "show", mail)["notRead"] == [told]
    archive = made_files.archive({"in/one.txt": "One.", "two.exe": b"MZ\x90\x00"})
    upload_own(desk.service, "box.zip", file_name="box.zip", content=archive)
    until(lambda: ran(run, "documents", "list", "--parent", "box.zip")["documents"])
    listed = run("documents", "list").out
    assert ("/one.txt" in listed, "/one.txt" in run("documents", "list", "--with-files").out) == (False, True)
    [inside] = ran(run, "documents", "list", "--parent", "box.zip")["documents"]
    assert ran(run, "documents", "list", "--folder", "box.zip!/in", "--with-files")["documents"] == [inside]
    assert "No folders here." in run("documents", "folders", "box.zip!").err
    assert inside["documentExternalId"] == "box.zip!/in/one.txt"
    until(lambda: "1 of 2 files read, 1 left out (1 in a format that" in run("documents", "show", "box.zip").out)
    assert "two.exe" in run("documents", "left-out", "box.zip").out
    assert inside["parentDocumentId"] in run("documents", "show", inside["documentId"]).out
    assert "catalog: done, 1 chunk\n" in run("documents", "state", "Ferries").out
    assert [one["status"] for one in ran(run, "documents", "state", "Ferries")["indexedIn"]] == ["DONE", "DONE"]
    assert ran(run, "documents", "reindex", "Ferries")["indexing"] == "DONE"
    assert ran(run, "documents", "rename", "Ferries", "Boats")["documentName"] == "Boats"
    assert ran(run, "documents", "rename", "Boats", "Ferries")["documentVersion"] == 3
    assert Path(run("documents", "download", "Ferries", "--to", str(tmp_path)).out.strip()).read_text() == FERRY
    upload_own(desk.service, "rules", file_name="rules.pdf", content=made_files.pdf([("One", 12)], [("Two", 12)]))
    picture = Path(run("documents", "download", "rules", "--page", "2", "--to", str(tmp_path)).out.strip())
    assert (picture.name, picture.read_bytes()[:2]) == ("rules.pdf page 2.jpg", b"\xff\xd8")
    assert "Its last page is 2." in run("documents", "download", "rules", "--page", "3").err
    again = run("documents", "download", "Ferries")
    assert (again.code, "--replace" in again.err) == (2, True)
    assert run("documents", "download", "Ferries", "--replace").code == 0
    assert run("documents", "delete", "gone").code == 2
    assert ran(run, "documents", "delete", "gone", "--yes")["documentId"] == gone
    assert [run("documents", "show", name).code for name in (gone, "gone")] == [2, 2]
    assert run("documents", "trash", "--query", "unheard-of").err == "No deleted documents found.\n"
    [kept] = ran(run, "documents", "trash", "--query", "gone")["documents"]
    assert ran(run, "documents", "restore", kept["trashedDocumentId"])["documentId"] == gone
    assert run("documents", "show", "gone").code == 0


def test_an_agent_is_asked(run: Run, desk: Desk) -> None:
    assert [one["name"] for one in ran(run, "agents", "list")["agents"]] == ["Harbour desk"]
    desk.update(starterQuestions=["When does it leave?"], answersSearches=True)
    shown = run("agents", "show", "Harbour desk").out
    assert "When does it leave?" in shown
    assert "answered on the Search page" in shown
    assert "used by    everyone in the organization" in shown
    assert "from       Harbour desk documents" in shown
    asked = run("agents", "ask", "Harbour desk", "When does the ferry to Northlight leave?")
    assert asked.code == 0, asked.err
    assert "leaves at noon" in asked.out
    assert "[1] Ferries: “" in asked.out
    conversation = asked.err.split("--conversation ")[1].strip()
    more = ran(run, "agents", "ask", desk.agent_id, "Do dogs travel free?", "--conversation", conversation)
    assert (more["outcome"], more["conversationId"]) == ("answered", conversation)
    sources = ran(run, "agents", "ask", "Harbour desk", "ferry?", "--as", BEN)["sources"]
    assert [one["name"] for one in sources] == ["Ferries"]
    unanswered = ran(run, "agents", "ask", "Harbour desk", "How much is a zeppelin?", exit_code=1)
    assert (unanswered["outcome"], unanswered["sources"]) == ("unanswered", [])
    assert run("agents", "ask", "Harbour desk", "ferry?", "--conversation", desk.agent_id).code == 2
    assert run("agents", "ask", "Nobody", "ferry?").code == 2
    asked_now = ran(run, "agents", "questions", "Harbour desk", "--unanswered")["questions"]
    assert [one["message"] for one in asked_now] == ["How much is a zeppelin?"]
    assert "Do dogs travel free?" in run("agents", "questions").out
    assert ran(run, "agents", "questions", "--most", "1")["hasMore"]
    desk.update(apiAccessEnabled=False)
    closed = run("agents", "ask", "Harbour desk", "ferry?")
    assert (closed.code, "API access" in closed.err, "CARREL_API_KEY" in closed.err) == (3, True, False)
    desk.update(apiAccessEnabled=True)


def test_an_evaluation_set_of_an_agent_is_run_again(run: Run, desk: Desk) -> None:
    body = {"name": "Ferries [b]", "agentId": desk.agent_id}
    set_id = done(desk.service.call("admin/evaluationSets/create", body))["evaluationSetId"]
    assert run("agents", "evaluate", "Ferries [b]").code == 2
    body = {"evaluationSetId": set_id, "cases": [{"question": "When does the ferry leave? [b]", "judgements": []}]}
    done(desk.service.call("admin/evaluationSets/putJudgements", body))
    assert "1 asked: answered 100%, groundedness 100%" in run("agents", "evaluate", "Ferries [b]").out
    desk.update(collectionIds=[])
    again = ran(run, "agents", "evaluate", set_id, "--note", "without documents", exit_code=1)
    assert (again["worse"], again["note"]) == (["When does the ferry leave? [b]"], "without documents")
    low = run("agents", "evaluate", set_id, "--at-least", "answered=0.5", "--at-least", "recall=0.5")
    assert low.code == 1
    assert "Too low: answered is 0.000, at least 0.5\nToo low: recall is not measured, at least 0.5" in low.out
    desk.update(collectionIds=[desk.collection_id])
    better = run("agents", "evaluate", set_id, "--at-least", "answered=1")
    assert better.code == 0
    assert "Better than before: When does the ferry leave? [b]" in better.out
    other = done(desk.service.call("admin/agents/create", {"name": "Empty desk", "apiAccessEnabled": True}))["agentId"]
    done(desk.service.call("admin/agents/deploy", {"agentId": other, "organizationWide": True, "principals": []}))
    compared = ran(run, "agents", "evaluate", set_id, "--agent", "Empty desk", exit_code=1)
    assert (compared["agentName"], compared["worse"]) == ("Empty desk", ["When does the ferry leave? [b]"])
    copied = ran(run, "agents", "copy", "Harbour desk")
    assert copied["name"] == "Harbour desk (copy)"
    assert "noon" in run("agents", "ask", copied["name"], "When does the ferry leave? [b]").out
    done(desk.service.call("admin/agents/update", {"agentId": copied["agentId"], "instructions": "Be brief."}))
    assert ran(run, "agents", "evaluate", set_id, "--agent", copied["name"])["changedSettings"] == ["instructions"]
    assert ran(run, "agents", "show", copied["name"])["grants"] == []  # it is a draft again
    assert "than before" not in run("agents", "evaluate", set_id).out  # what another agent was asked is no "before"
    for wrong in ("recall", "recall=2", "recall=x", "speed=1"):
        refused = run("agents", "evaluate", set_id, "--at-least", wrong)
        said = f"--at-least {wrong}: give a score and a share from 0 to 1"
        assert (refused.code, refused.err.split(", such as")[0]) == (2, said)
    assert run("agents", "evaluate", "Nothing").code == 2
