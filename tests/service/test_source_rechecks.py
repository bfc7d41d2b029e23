"""A reply is shown while all its sources are readable, checked at every turn and view."""

from collections.abc import Callable

import pytest

from service.domains.agents.answering.models import Reply
from tests.harness.documents import upload
from tests.service.conversations import ADA, FERRY, Desk, Script, Visitor, a_reply, in_background, passage
from tests.service.directory import a_user, done
from tests.service.test_messages_v0 import answered

SECOND = "The lighthouse opens at nine."


def second_document(desk: Desk) -> str:
    parts = {"documentName": "Lighthouse", "allowedUsersEmailAddresses": "[]", "internalPublic": "true"}
    return done(upload(desk.service, "lighthouse", SECOND, **parts))["documentId"]


AWAY: "dict[str, Callable[[Desk], object]]" = {
    "withdrawn": lambda desk: desk.share(),
    "deleted": lambda desk: done(desk.service.call("catalog/deleteDocument", {"documentId": desk.document_id})),
}


def replied(visitor: Visitor, script: Script, reply: Reply, *message: str, number: int = 0) -> dict:
    sent = done(visitor.send(*message))
    script.end(reply, number=number)
    assert visitor.finished(sent["jobId"])["status"] == "COMPLETED"
    return sent


def statuses(visitor: Visitor, conversation_id: str) -> list[str]:
    return [one["status"] for one in done(visitor.get(f"conversations/{conversation_id}"))["messages"]]


@pytest.mark.parametrize("away", AWAY.values(), ids=AWAY)
def test_a_reply_is_withheld_once_its_document_is_away(visitor, script, away) -> None:
    desk = visitor.desk
    sent = replied(visitor, script, a_reply("Noon [1]", passage(desk.document_id), cited=[0], warnings=["Of Ferries"]))
    away(desk)
    job = visitor.fetch(sent["jobId"])
    assert (job["status"], job["errorCode"]) == ("FAILED", "reply_withheld")
    shown = visitor.get(f"conversations/{sent['conversationId']}")
    [message] = done(shown)["messages"]
    assert message["status"] == "WITHHELD"
    stream = visitor.get("agents/streamAgentResponse", jobId=sent["jobId"])
    assert "event: failed" in stream.text
    for answer in (shown, stream, visitor.get("agents/fetchAgentResponse", jobId=sent["jobId"])):
        for word in ("Noon", "noon", "Ferries", desk.document_id):
            assert word not in answer.text


def test_a_reply_is_shown_again_with_the_names_and_addresses_of_now(visitor: Visitor, script: Script) -> None:
    desk = visitor.desk
    sent = replied(visitor, script, a_reply("Noon [1]", passage(desk.document_id), cited=[0]))
    desk.share()
    assert visitor.fetch(sent["jobId"])["status"] == "FAILED"
    desk.share(ADA)
    assert visitor.fetch(sent["jobId"])["result"]["agentResponseText"] == "Noon [1]"
    url = "https://ferries.example/timetable"
    parts = {"documentName": "Timetable", "documentExternalUrl": url}
    done(upload(desk.service, "Harbour desk notes", "All is changed.", **parts))
    [source] = visitor.fetch(sent["jobId"])["result"]["referencedSources"]
    assert (source["name"], source["url"], source["quote"]) == ("Timetable", url, FERRY)


@pytest.mark.parametrize("away", AWAY.values(), ids=AWAY)
def test_between_retrieval_and_the_end_access_goes_away(desk, script, away) -> None:
    a_user(desk.service, ADA)
    waiting = in_background(lambda: desk.send(userEmail=ADA))
    script.scene()
    away(desk)
    script.end(a_reply("Noon [1]", passage(desk.document_id), cited=[0], quotes_only=True, warnings=["Of Ferries"]))
    answer = waiting.result()
    result = done(answer)["sendChatResult"]
    assert result.keys() == {"type", "conversationId", "blocks", "policy_triggers", "warnings", "inserted_audit_log"}
    assert result["type"] == "blocked_result"
    assert len(result["blocks"]) == 1
    assert result["warnings"] == []
    assert "Noon" not in answer.text
    assert "Ferries" not in answer.text
    [entry] = desk.entries()
    assert entry["details"]["status"] == "withheld"
    assert entry["auditLogId"] == result["inserted_audit_log"]["id"]


@pytest.mark.parametrize(("quotes_only", "expected"), [(True, "COMPLETED"), (False, "FAILED")])
def test_a_reply_of_quotes_rests_on_what_it_cites_alone(visitor, script, quotes_only, expected) -> None:
    desk = visitor.desk
    second = second_document(desk)
    passages = (passage(desk.document_id), passage(second, SECOND))
    sent = replied(visitor, script, a_reply("Nine [1]", *passages, cited=[1], quotes_only=quotes_only))
    desk.share()
    job = visitor.fetch(sent["jobId"])
    assert job["status"] == expected
    if quotes_only:
        assert [one["id"] for one in job["result"]["referencedSources"]] == [second]


def test_what_was_retrieved_is_shown_as_far_as_it_may_be_read(desk: Desk, script: Script) -> None:
    a_user(desk.service, ADA)
    second = second_document(desk)
    headers = {"Idempotency-Key": "once"}
    passages = (passage(desk.document_id), passage(second, SECOND))
    reply = a_reply("Nine [1]", *passages, cited=[1], quotes_only=True)
    result = answered(script, lambda: desk.ask(userEmail=ADA, headers=headers), reply)
    assert [one["quote"] for one in result["sourcesInDataContext"]] == [FERRY, SECOND]
    assert [one["quote"] for one in result["referencedSources"]] == [SECOND]
    desk.share()
    again = desk.send(userEmail=ADA, headers=headers)
    assert [one["id"] for one in done(again)["sendChatResult"]["sourcesInDataContext"]] == [second]
    assert desk.document_id not in again.text
    assert FERRY not in again.text


def test_the_model_is_not_shown_what_is_withheld(visitor: Visitor, script: Script) -> None:
    desk = visitor.desk
    first = replied(visitor, script, a_reply("Noon", passage(desk.document_id)), "About ferries")
    conversation, nine = first["conversationId"], passage(second_document(desk), SECOND)
    reply = a_reply("Nine [1]", nine, cited=[0], quotes_only=True)
    replied(visitor, script, reply, "About lighthouses", conversation, number=1)
    assert [one.reply for one in script.scene(1).assignment.history] == ["Noon"]
    desk.share()
    done(visitor.send("And now?", conversation))
    shown = script.scene(2).assignment.history
    assert [(one.message, one.reply) for one in shown] == [("About lighthouses", "Nine [1]")]
    script.end(a_reply("Done"), number=2)
    assert statuses(visitor, conversation)[:2] == ["WITHHELD", "COMPLETED"]


def test_a_reply_rests_on_what_the_replies_before_it_did(visitor: Visitor, script: Script) -> None:
    desk = visitor.desk
    first = replied(visitor, script, a_reply("Noon", passage(desk.document_id)), "One")
    conversation = first["conversationId"]
    replies = [a_reply("As I said"), a_reply("Again"), a_reply("Nothing answers this.", quotes_only=True)]
    for number, reply in enumerate(replies, 1):
        replied(visitor, script, reply, "And?", conversation, number=number)
    job_id = done(visitor.send("And?", conversation))["jobId"]
    script.tell("As I said, noon", number=4)
    assert visitor.fetch(job_id)["partialText"] == "As I said, noon"
    desk.share()
    assert visitor.fetch(job_id) == {"status": "RUNNING"}
    script.end(a_reply("As I said"), number=4)
    assert statuses(visitor, conversation)[:4] == ["WITHHELD", "WITHHELD", "WITHHELD", "COMPLETED"]


def test_a_word_of_the_reply_repeated_by_a_document_is_still_that_documents(visitor: Visitor) -> None:
    desk = visitor.desk
    assert "noon" in visitor.ask("When does the ferry to Northlight leave?")["result"]["agentResponseText"]
    desk.share()
    after = visitor.ask("When does the ferry to Northlight leave?")
    assert "noon" not in after["result"]["agentResponseText"]
    assert after["result"]["referencedSources"] == []
