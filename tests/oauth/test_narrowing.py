"""Consent narrowed to collections: an agent reads only their documents."""

from dataclasses import dataclass
from uuid import UUID

import pytest

from service.identity_server.oauth import authorize
from service.identity_server.oauth.authorize import MOST_COLLECTIONS as MOST_OFFERED
from tests.harness.documents import add_to_collection, ok, uploaded
from tests.harness.services import RunningService
from tests.oauth.flow import EVERY_SCOPE, App, Page, Person, Pkce, a_person, an_mcp_client, call_mcp, sent_back
from tests.oauth.talking import refusal, result, send, use
from tests.service.conversations import Desk, a_desk
from tests.service.directory import collection, done, grant, user


@dataclass(frozen=True)
class Scene:
    """Two collections with a document each, a document in none, and an admin with an agent limited to the first."""

    service: RunningService
    agent: App
    admin: Person
    token: str
    first: Desk
    second: Desk
    loose: str

    def narrowed_to(self) -> list[str]:
        return [*map(str, call_mcp(self.service, self.token).collection_ids or ())]

    def found(self) -> set[str]:
        found = {one["id"] for one in use(self.service, self.token, "search", query="ferry")["results"]}
        listed = result(send(self.service, self.token, "resources/list"))["resources"]
        assert {one["uri"].rpartition("/")[2] for one in listed} == found
        return found


@pytest.fixture
def scene(service: RunningService) -> Scene:
    first, second = a_desk(service, "First"), a_desk(service, "Second", text="The second ferry leaves at midnight.")
    parts = {"internalPublic": "true", "allowedUsersEmailAddresses": "[]"}
    loose = uploaded(service, "loose", "A ferry in no collection.", **parts)["documentId"]
    agent, pkce = an_mcp_client(service, scopes=EVERY_SCOPE), Pkce()
    admin = Person(service)
    page = admin.sign_in(admin.open(agent, pkce, scope=" ".join(EVERY_SCOPE)))
    assert "First documents" in Page(page).text
    unknown = "00000000-0000-0000-0000-000000000000"
    page = admin.press(page, "allow", reach="collections", collection=unknown)
    assert "at least one collection" in page.text
    code = sent_back(admin.press(page, "allow", reach="collections", collection=first.collection_id))["code"]
    return Scene(service, agent, admin, done(agent.exchange(code, pkce))["access_token"], first, second, loose)


def test_an_agent_reads_no_more_than_the_collections_it_was_let(scene: Scene, monkeypatch) -> None:
    monkeypatch.setattr("service.mcp.asking.AGENTS_AT_ONCE", 1)
    service, token, first, second = scene.service, scene.token, scene.first, scene.second
    assert scene.narrowed_to() == [first.collection_id]
    assert scene.found() == {first.document_id}
    assert use(service, token, "fetch", id=first.document_id)["title"] == "Ferries"
    assert use(service, token, "who_can_read", document_id=first.document_id)
    for beyond in (second.document_id, scene.loose):
        assert "document_not_found" in refusal(service, token, "fetch", id=beyond)
        for tool, arguments in (("who_can_read", {}), ("why", {"email": service.admin_email})):
            assert "not_found" in refusal(service, token, tool, document_id=beyond, **arguments)
        answer = send(service, token, "resources/read", uri=f"carrel://documents/{beyond}")
        assert answer.json()["error"]["data"]["code"] == "document_not_found"
    second.update(collectionIds=[first.collection_id, second.collection_id])
    asked = use(service, token, "ask_agent", question="When does the ferry leave?", agent=second.agent_id)
    assert {source["id"] for source in asked["sources"]} == {first.document_id}
    assert ["also answers from" in one for one in asked["warnings"]] == [True]
    second.update(collectionIds=[second.collection_id])
    asked = use(service, token, "ask_agent", question="When does the ferry leave?", agent=second.agent_id)
    assert (asked["sources"], ["answers from none" in one for one in asked["warnings"]]) == ([], [True])
    first.update(collectionIds=[first.collection_id])
    asked = use(service, token, "ask_agent", question="When does the ferry leave?", agent=first.agent_id)
    assert asked["warnings"] == []
    again: dict = {"agent": second.agent_id, "conversation_id": asked["conversation_id"]}
    assert "conversation_not_found" in refusal(service, token, "ask_agent", question="And back?", **again)


def test_any_collection_can_be_found_and_chosen(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authorize, "MOST_COLLECTIONS", 0)
    admin, first, second = scene.admin, scene.first.collection_id, scene.second.collection_id
    page = admin.open(scene.agent, scope="api:catalog:read", prompt="consent")
    assert f'value="{first}" checked' in page.text
    assert second not in page.text
    assert "Only the first 1 are shown" in Page(page).text
    monkeypatch.setattr(authorize, "MOST_COLLECTIONS", 1)
    page = admin.press(page, "find", find="ECOND")
    assert f'value="{first}" checked' in page.text
    assert f'value="{second}">' in page.text
    assert 'value="ECOND"' in page.text
    assert "There are more" not in Page(page).text
    many = [str(UUID(int=number)) for number in range(authorize.MOST_CHOSEN + MOST_OFFERED - 1)]
    form = Page(page).form("allow")
    ticked = {"action": "allow", "reach": "collections", "collection": [*many, second], "find": "\U0001f6a2" * 200}
    assert admin.http.post(form.action, data=form.fields | ticked).status_code == 303
    assert scene.narrowed_to() == [second]
    monkeypatch.setattr(authorize, "MOST_CHOSEN", 1)
    for action in ("find", "allow"):
        page = admin.press(page, action, reach="collections", collection=[first, second])
        assert "You selected 2 collections; the limit is 1. Deselect 1" in page.text
        assert page.text.count(" checked>") == 3
    monkeypatch.setattr(authorize, "MOST_COLLECTIONS", 0)
    page = admin.press(admin.open(scene.agent, scope="api:catalog:read", prompt="consent"), "find", find="%<i>\0")
    assert first not in page.text
    assert "&lt;i&gt;" in page.text
    assert "Second documents" in admin.http.get("/account/consents").text
    owned = {"resources": [collection(second)], "newOwner": user(a_person(scene.service).email)}
    done(scene.service.call("admin/owners/transfer", owned))
    grant(scene.service, collection(second))
    assert "Second documents" not in admin.http.get("/account/consents").text, "the admin can no longer read it"


def test_what_is_in_the_collections_counts_at_the_next_call(scene: Scene) -> None:
    service, first, admin = scene.service, scene.first, scene.admin
    into = {"documentId": scene.loose, "documentCollectionId": first.collection_id}
    ok(add_to_collection(service, scene.loose, first.collection_id))
    assert scene.found() == {first.document_id, scene.loose}
    ok(service.call("documentCollections/removeDocumentFromCollection", into))
    assert scene.found() == {first.document_id}
    shown = Page(admin.http.get("/account/consents")).text
    assert "First documents" in shown
    assert "Last used" in shown
    page = admin.open(scene.agent, scope="api:catalog:read", prompt="consent")
    assert f'value="{first.collection_id}" checked' in page.text
    page = admin.press(page, "allow", reach="everything")
    assert "collections are still selected" in page.text
    assert scene.found() == {first.document_id}
    admin.press(page, "allow", reach="everything-anyway")
    assert len(scene.found()) == 3
    page = admin.open(scene.agent, scope="api:catalog:read", prompt="consent")
    admin.press(page, "allow", reach="collections", collection=first.collection_id)
    ok(service.call("documentCollections/deleteDocumentCollection", {"documentCollectionId": first.collection_id}))
    assert scene.found() == set()
    assert "collections that were deleted" in admin.http.get("/account/consents").text
    page = admin.open(scene.agent, scope="api:catalog:read", prompt="consent")
    admin.press(page, "allow", reach="everything", collection=first.collection_id)
    assert len(scene.found()) == 3
