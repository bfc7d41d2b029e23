"""GET conversations and conversations/{id}: the caller's own, by pages, with changes during the walk; and erasure."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from service.domains.agents.answering.models import ModelFailure
from service.domains.oversight.audit_log import erasure
from service.platform.identifiers import uuid7
from tests.harness.jobs import until
from tests.oauth.flow import EVERY_SCOPE, a_person, an_mcp_client, v1
from tests.oauth.talking import use
from tests.service.conversations import ADA, BEN, Script, Visitor, a_desk, a_reply, a_visitor, in_background, passage
from tests.service.directory import code, done, on_rows
from tests.service.test_text_erasure import where

pytestmark = pytest.mark.own_service  # erasing looks through all organizations


@dataclass(frozen=True)
class Standing:
    """A person with three conversations, one with a second agent, unchanged by tests."""

    visitor: Visitor
    second_agent_id: str
    latest_first: list[str]


@pytest.fixture(scope="module")
def standing(module_service) -> Standing:
    visitor = a_visitor(a_desk(module_service))
    second = a_desk(module_service, "Second desk")
    one, two = begun(visitor, "  First\n\nquestion " + "x" * 100, "Second question")
    [three] = begun(replace(visitor, desk=second), "Third question")
    visitor.ask("And then?", one)
    return Standing(visitor, second.agent_id, [one, three, two])


def begun(visitor: Visitor, *messages: str) -> list[str]:
    sent = [done(visitor.send(message)) for message in messages]
    for one in sent:
        visitor.finished(one["jobId"])
    return [one["conversationId"] for one in sent]


def test_conversations_with_all_agents_or_one_are_listed_latest_first(standing: Standing) -> None:
    listed = done(standing.visitor.get("conversations"))["conversations"]
    assert [each["conversationId"] for each in listed] == standing.latest_first
    assert {name: listed[0][name] for name in ("agentId", "agentName", "messageCount", "title")} == {
        "agentId": standing.visitor.desk.agent_id,
        "agentName": "Harbour desk",
        "messageCount": 2,
        "title": "First question " + "x" * 64 + "…",
    }
    assert listed[0]["updatedAt"] > listed[0]["createdAt"]
    assert listed[1]["messageCount"] == 1
    one, three, two = standing.latest_first
    expected = {standing.visitor.desk.agent_id: [one, two], standing.second_agent_id: [three], str(uuid7()): []}
    for agent_id, ids in expected.items():
        of_agent = done(standing.visitor.get("conversations", agentId=agent_id))["conversations"]
        assert [each["conversationId"] for each in of_agent] == ids


def test_conversations_are_ones_own(standing: Standing) -> None:
    other = a_visitor(standing.visitor.desk, BEN)
    assert done(other.get("conversations"))["conversations"] == []
    unknown, anothers = (other.get(f"conversations/{one}") for one in (uuid7(), standing.latest_first[0]))
    assert code(unknown) == code(anothers) == (404, "conversation_not_found")
    assert unknown.json()["error"]["message"] == anothers.json()["error"]["message"]
    assert code(standing.visitor.get("conversations/mine"))[0] == 400


def test_programs_leave_nothing_in_lists_made_by_hand(module_service) -> None:
    email, scope = "own@example.test", " ".join(EVERY_SCOPE)
    visitor = a_visitor(a_desk(module_service, "Own desk"), email, scope=scope)
    key, other = module_service.new_user(email), a_visitor(visitor.desk, email, scope=scope)
    ids = begun(visitor, "By hand") + begun(other, "By hand, too")
    ids += [visitor.desk.ask(userEmail=email)["conversationId"], visitor.desk.ask(api_key=key)["conversationId"]]
    assistant = a_person(module_service, email).tokens(an_mcp_client(module_service), scope=scope)["access_token"]
    ids.append(use(module_service, assistant, "ask_agent", question="When?", agent="Own desk")["conversation_id"])
    use(module_service, assistant, "search", query="by an assistant")
    listed = done(visitor.get("conversations"))["conversations"]
    assert [each["conversationId"] for each in listed] == [ids[1], ids[0]]
    assert {visitor.get(f"conversations/{one}").status_code for one in ids} == {200}
    search = "search/searchDocumentCatalog"
    module_service.call(search, {"searchQuery": "for them", "userEmail": email})
    module_service.call(search, {"searchQuery": "by their key"}, api_key=key)
    done(v1(module_service, search, visitor.token, {"searchQuery": "by hand"}))
    recent = done(v1(module_service, "search/listRecentSearches", visitor.token, {}))["searches"]
    assert [one["searchQuery"] for one in recent] == ["by hand"]


def test_what_is_gone_on_with_during_a_walk_is_seen_once(visitor: Visitor) -> None:
    order = begun(visitor, "1", "2", "3", "4", "5")[::-1]
    first = done(visitor.get("conversations", pageSize=2))
    visitor.ask("More", order[4])
    visitor.ask("More", order[0])
    begun(visitor, "6")
    second = done(visitor.get("conversations", pageSize=2, pageToken=first["nextPageToken"]))
    visitor.ask("More", order[4])
    third = done(visitor.get("conversations", pageSize=2, pageToken=second["nextPageToken"]))
    assert [one["conversationId"] for page in (first, second, third) for one in page["conversations"]] == order
    assert "nextPageToken" not in third
    again = done(visitor.get("conversations"))["conversations"]
    assert [one["conversationId"] for one in again][:3:2] == [order[4], order[0]]


def test_a_conversation_is_read_oldest_first(visitor: Visitor, script: Script) -> None:
    desk = visitor.desk
    first = done(visitor.send("One"))
    script.end(a_reply("Reply [1]", passage(desk.document_id), cited=[0], warnings=["Careful."]))
    visitor.finished(first["jobId"])
    second = done(visitor.send("Two", first["conversationId"]))
    script.end(ModelFailure("The model is away."), number=1)
    visitor.finished(second["jobId"])
    done(visitor.send("Three", first["conversationId"]))
    script.tell("Half", number=2)
    path = f"conversations/{first['conversationId']}"
    page = done(visitor.get(path, pageSize=2))
    one, two = page["messages"]
    last = done(visitor.get(path, pageSize=2, pageToken=page["nextPageToken"]))
    [three] = last["messages"]
    assert "nextPageToken" not in last
    assert (one["message"], one["status"], one["agentResponseText"]) == ("One", "COMPLETED", "Reply [1]")
    assert one["messageId"] == first["jobId"]
    assert [source["id"] for source in one["referencedSources"]] == [desk.document_id]
    assert one["warnings"] == ["Careful."]
    assert (two["status"], two["errorMessage"]) == ("FAILED", "The model is away.")
    assert "agentResponseText" not in two
    assert (three["status"], three["message"]) == ("RUNNING", "Three")
    assert "agentResponseText" not in three
    assert done(visitor.get(path))["conversation"]["messageCount"] == 3
    script.end(a_reply("Done"), number=2)


def test_a_deleted_agents_conversations_stay(visitor: Visitor) -> None:
    [mine] = begun(visitor, "One")
    visitor.desk.delete()
    assert done(visitor.get("conversations"))["conversations"][0]["agentName"] == "Harbour desk"
    assert done(visitor.get(f"conversations/{mine}"))["messages"][0]["status"] == "COMPLETED"
    assert code(visitor.send(conversation_id=mine)) == (404, "agent_not_found")


def test_a_persons_conversations_are_erased_with_their_words(visitor: Visitor) -> None:
    desk = visitor.desk
    service = desk.service
    other = a_visitor(desk, BEN)
    visitor.ask("xylophone")
    message_id = desk.ask("xylograph", userEmail=ADA)["messageId"]
    body = {
        "agentId": desk.agent_id,
        "messageId": message_id,
        "messageFeedback": {"feedback": "NEGATIVE", "suggestedAnswer": "xylem"},
    }
    done(v1(service, "agents/provideMessageFeedback", visitor.token, body))
    other.ask("marimba")
    assert where(service, "xyl") == {"turns", "free_texts"}
    assert service.run(erasure.erase_person(service.runtime.database, email=ADA)) == 3
    assert where(service, "xyl") == set()
    assert where(service, "marimba") == {"turns"}
    assert done(visitor.get("conversations"))["conversations"] == []
    assert len(done(other.get("conversations"))["conversations"]) == 1
    assert len(desk.entries()) == 3
    assert len(desk.entries("agent.feedback")) == 1
    assert len(on_rows(service, "SELECT conversation_id FROM conversations")) == 1


def test_a_person_renames_finds_and_deletes_a_conversation(visitor: Visitor) -> None:
    """A deleted conversation leaves only an audit log entry and the rows of questions."""
    desk, other = visitor.desk, a_visitor(visitor.desk, BEN)
    [mine] = begun(visitor, "xylophone when does the ferry leave?")
    visitor.ask("And xylography?", mine)
    begun(other, "marimba")

    def change(operation: str, by: Visitor = visitor, **body: str) -> httpx.Response:
        return v1(desk.service, f"conversations/{operation}", by.token, {"conversationId": mine, **body})

    def found(query: str, by: Visitor = visitor) -> list[str]:
        return [one["title"] for one in done(by.get("conversations", query=query))["conversations"]]

    assert found("NOON xylo") == ["xylophone when does the ferry leave?"]
    for operation, body in (("rename", {"title": "Theirs"}), ("delete", {})):
        assert code(change(operation, other, **body)) == (404, "conversation_not_found")
    assert done(change("rename", title=" xylem of 100% "))["title"] == "xylem of 100%"
    assert done(visitor.get(f"conversations/{mine}"))["conversation"]["title"] == "xylem of 100%"
    assert found("0% xylog") == found("xylem ferry") == ["xylem of 100%"]
    assert found("%x") == found("marimba") == found("xylem", other) == []
    desk.share()
    assert (found("noon"), found("xylem ferry")) == ([], ["xylem of 100%"])
    assert where(desk.service, "xyl") == {"turns", "conversations"}
    deleting = [in_background(lambda: change("delete")) for _ in range(4)]
    assert sorted(each.result().status_code for each in deleting) == [200, 404, 404, 404]
    assert where(desk.service, "xyl") == set()
    assert where(desk.service, "marimba") == {"turns"}
    assert code(change("delete")) == code(visitor.get(f"conversations/{mine}")) == (404, "conversation_not_found")
    [entry] = desk.entries("conversation.delete")
    assert entry["details"] == {"conversationId": mine, "messages": 2}
    assert len(on_rows(desk.service, "SELECT turn_id FROM questions")) == 3


def test_an_erased_message_is_not_answered(visitor: Visitor, script: Script) -> None:
    desk = visitor.desk
    waiting = in_background(lambda: desk.send("xylophone", userEmail=ADA))
    script.tell("xylem", passage(desk.document_id))
    service = desk.service
    assert service.run(erasure.erase_person(service.runtime.database, email=ADA)) == 1
    assert code(waiting.result()) == (404, "conversation_not_found")
    script.end(a_reply("xylitol", passage(desk.document_id)))
    until(lambda: "procrastinate_jobs" not in where(service, ""))
    assert where(service, "xyl") == set()
    assert desk.entries() == []


def test_erasing_waits_for_whoever_ends_a_message(visitor: Visitor, script: Script) -> None:
    """Both lock the conversation first, to prevent a deadlock."""
    waiting = in_background(lambda: visitor.desk.send("xylophone", userEmail=ADA))
    script.tell("xylem", passage(visitor.desk.document_id))
    service = visitor.desk.service
    with service.owner_connection() as ending, service.owner_connection() as watching, ending.transaction():
        ending.execute("SELECT FROM conversations FOR NO KEY UPDATE")
        erasing = in_background(lambda: service.run(erasure.erase_person(service.runtime.database, email=ADA)))
        until(lambda: watching.execute("SELECT FROM pg_locks WHERE NOT granted").rowcount)
        ending.execute("UPDATE turns SET message = 'xylophone'")
    assert erasing.result() == 1
    assert code(waiting.result()) == (404, "conversation_not_found")
    script.end(a_reply("xylitol", passage(visitor.desk.document_id)))


def test_conversations_are_erased_when_untouched_for_long(visitor: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(erasure, "CONVERSATIONS_AT_ONCE", 2)
    service = visitor.desk.service
    order = begun(visitor, "1", "2", "3", "4", "5")
    moment = datetime(2025, 5, 1, tzinfo=UTC)
    with service.owner_connection() as connection:
        for number, conversation_id in enumerate(order):
            touched = moment - timedelta(milliseconds=1) if number < 3 else moment
            connection.execute(
                "UPDATE conversations SET created_at = %s, updated_at = %s WHERE conversation_id = %s",
                [moment - timedelta(days=9), touched, conversation_id],
            )
    assert service.run(erasure.erase_before(service.runtime.database, moment=moment)) == 3
    assert {one["conversationId"] for one in done(visitor.get("conversations"))["conversations"]} == set(order[3:])
    assert service.run(erasure.erase_before(service.runtime.database, moment=moment)) == 0
