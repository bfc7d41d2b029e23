"""copilots/sendMessage and provideMessageFeedback: rights, answers, and stored data."""

import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, LiteralString
from uuid import UUID

import pytest

from service.domains.agents.answering.models import ModelFailure, Reply
from service.platform.identifiers import uuid7
from tests.harness.cases import cases
from tests.harness.jobs import until
from tests.service import conversations
from tests.service.conversations import ADA, BEN, Desk, Script, a_desk, a_reply, a_visitor, in_background, passage
from tests.service.directory import a_group, a_key, a_user, another_organization, code, done, on_rows, user
from tests.service.service_accounts import a_token, account, an_account, enable_service_accounts

VISITOR = "visitor@elsewhere.test"
QUESTION = "When does the ferry to Northlight leave?"


def turns(
    desk: Desk, select: LiteralString = "SELECT turn_no, message, status, attempt FROM turns"
) -> list[tuple[Any, ...]]:
    return on_rows(desk.service, select, more="ORDER BY created_at")


def test_a_message_is_answered_from_what_the_sender_may_read(desk: Desk) -> None:
    answer = desk.send(QUESTION, headers={"X-Request-Id": "a-request-of-mine"})
    assert answer.headers["X-Request-Id"] == "a-request-of-mine"
    result = done(answer)["sendChatResult"]
    assert result["type"] == "ai_response_result"
    assert "noon" in result["response"]["message"]
    [source, *_] = result["referencedSources"]
    assert (source["id"], source["name"]) == (desk.document_id, "Ferries")
    assert source["externalResourceId"] == {"externalResourceId": desk.document_id, "resourceType": "UPLOADED_DOCUMENT"}
    assert source["quote"] in conversations.FERRY
    assert {one["id"] for one in result["sourcesInDataContext"]} == {desk.document_id}
    assert result["webSearchResults"] == []
    [entry] = desk.entries()
    assert entry["auditLogId"] == result["inserted_audit_log"]["id"]
    assert entry["requestId"] == "a-request-of-mine"
    assert entry["actor"]["email"] == desk.service.admin_email
    assert entry["target"] == {"type": "agent", "id": desk.agent_id, "name": "Harbour desk"}
    assert entry["details"] == {
        "agentId": desk.agent_id,
        "conversationId": result["conversationId"],
        "messageId": result["messageId"],
        "status": "completed",
        "documentIds": [desk.document_id],
    }


def test_a_body_that_is_none_is_told(desk: Desk) -> None:
    for change, field in (*cases("messages_that_are_none"), ({"message": "x" * 20_001}, "message")):
        body = {"agentId": desk.agent_id, "message": "Hello", **change}
        body = {name: value for name, value in body.items() if value is not None}
        answer = desk.service.call("copilots/sendMessage", body)
        assert code(answer) == (400, "invalid_request"), change
        assert field is None or [one["field"] for one in answer.json()["error"]["details"]] == [field]
    assert turns(desk) == []


def test_a_service_account_sends_messages_as_itself(desk: Desk) -> None:
    service = desk.service
    enable_service_accounts(service)
    bosun = an_account(service, "Bosun")
    token = a_token(service, bosun, "agent:message")["token"]
    assert code(desk.send(api_key=token)) == (404, "agent_not_found")
    done(service.call("admin/agents/deploy", {"agentId": desk.agent_id, "principals": [account(bosun)]}))
    result = desk.ask(api_key=token)
    # What is open to everyone is open to people, so it has nothing to answer from.
    assert result["sourcesInDataContext"] == []
    again = desk.ask(api_key=token, conversationId=result["conversationId"])
    assert again["conversationId"] == result["conversationId"]
    assert {one["actor"]["email"] for one in desk.entries()} == {bosun["email"]}


def test_an_agent_that_is_not_the_callers_is_not_there(desk: Desk) -> None:
    """Unknown, another organization's, undeployed, and deleted agents: 404, to the byte, whatever the request."""
    service = desk.service
    a_user(service, BEN)
    stranger = another_organization(service)
    bens = a_key(service, ownerEmail=BEN)["apiKey"]
    desk.deploy()
    unknown = {"agentId": str(uuid7()), "message": "Hello", "conversationId": str(uuid7())}
    expected = told(service.call("copilots/sendMessage", unknown, api_key=bens))
    assert expected[:2] == (404, "agent_not_found")
    assert told(desk.send(api_key=bens)) == expected
    assert told(desk.send()) == expected
    assert told(desk.send(api_key=stranger)) == expected
    desk.update(apiAccessEnabled=False)
    assert told(desk.send(api_key=bens)) == expected
    desk.deploy(everybody=True)
    desk.delete()
    assert told(desk.send(api_key=bens)) == expected
    assert turns(desk) == []


def told(answer: Any) -> tuple[int, str, str]:
    error = answer.json()["error"]
    assert error.keys() == {"message", "code", "requestId"}
    return answer.status_code, error["code"], error["message"]


def test_without_api_access_programs_are_refused(desk: Desk) -> None:
    desk.update(apiAccessEnabled=False)
    assert code(desk.send()) == (403, "api_access_off")
    assert code(desk.send(conversationId=str(uuid7()))) == (404, "conversation_not_found")
    desk.update(apiAccessEnabled=True)
    assert desk.send().status_code == 200


def test_a_conversation_is_its_callers_with_its_agent_alone(desk: Desk) -> None:
    """Unknown, another person's, agent's or organization's: 404, to the byte."""
    service = desk.service
    a_user(service, ADA)
    a_user(service, BEN)
    other = a_desk(service, "Second desk")
    mine = desk.ask(userEmail=ADA)["conversationId"]
    expected = told(desk.send(userEmail=BEN, conversationId=str(uuid7())))
    assert expected[:2] == (404, "conversation_not_found")
    assert told(desk.send(userEmail=BEN, conversationId=mine)) == expected
    assert told(desk.send(conversationId=mine)) == expected
    assert told(other.send(userEmail=ADA, conversationId=mine)) == expected
    assert len(turns(desk)) == 1
    adas = a_key(service, ownerEmail=ADA)["apiKey"]
    for caller in ({"userEmail": ADA}, {"api_key": adas}):
        assert desk.ask(**caller, conversationId=mine)["conversationId"] == mine
    own, _, for_her = desk.entries()
    assert (for_her["actor"]["email"], for_her["actingFor"]["email"]) == (service.admin_email, ADA)
    assert own["actor"]["email"] == ADA
    assert "actingFor" not in own
    assert code(desk.send(api_key=adas, userEmail=BEN)) == (403, "key_may_not_act_for_users")


def test_two_messages_at_once_are_both_answered_in_their_order(desk: Desk, script: Script) -> None:
    conversation = answered(script, lambda: desk.ask("Zero"), a_reply("Nothing"))["conversationId"]
    with ThreadPoolExecutor(3) as pool:
        sent = [pool.submit(desk.ask, f"Number {one}", conversationId=conversation) for one in range(3)]
        for number in range(1, 4):
            said = script.scene(number).assignment
            assert [one.reply for one in said.history] == ["Nothing", *(f"Reply {one}" for one in range(1, number))]
            assert len(script.scenes) == number + 1
            script.end(a_reply(f"Reply {number}"), number=number)
        results = [one.result() for one in sent]
    assert sorted(one["response"]["message"] for one in results) == ["Reply 1", "Reply 2", "Reply 3"]
    assert [row[0] for row in turns(desk)] == [1, 2, 3, 4]


def test_a_message_sent_twice_is_answered_once(desk: Desk, script: Script) -> None:
    headers = {"Idempotency-Key": "once"}
    with ThreadPoolExecutor(2) as pool:
        sent = [pool.submit(desk.send, "One", headers=headers) for _ in range(2)]
        script.end(a_reply("First"))
        answers = [one.result() for one in sent]
    answers.append(desk.send("One", headers=headers))
    assert {answer.text for answer in answers} == {answers[0].text}
    assert answers[0].status_code == 200
    assert sorted("Idempotent-Replayed" in answer.headers for answer in answers) == [False, True, True]
    assert len(turns(desk)) == 1
    assert code(desk.send("Two", headers=headers)) == (409, "idempotency_key_reused")
    assert len(script.scenes) == 1


def test_a_failed_message_sent_again_with_its_key_is_answered_anew(desk: Desk, script: Script) -> None:
    headers = {"Idempotency-Key": "once"}
    failure = ModelFailure("The model is overloaded. Try again later.", retry_after=7, code="model_rate_limited")
    refused = answered(script, lambda: desk.send("One", headers=headers), failure)
    assert code(refused) == (503, "model_rate_limited")
    assert refused.headers["Retry-After"] == "7"
    assert refused.json()["error"]["message"] == "The model is overloaded. Try again later."
    second = answered(script, lambda: desk.ask("One", headers=headers), a_reply("At last"), number=1)
    assert second["response"]["message"] == "At last"
    assert turns(desk) == [(1, "One", "COMPLETED", 2)]
    assert [one["details"]["status"] for one in desk.entries()] == ["completed", "failed"]


def test_a_replay_is_of_what_the_caller_may_read_now(desk: Desk) -> None:
    a_user(desk.service, ADA)
    headers = {"Idempotency-Key": "once"}
    assert desk.ask(QUESTION, userEmail=ADA, headers=headers)["type"] == "ai_response_result"
    desk.share()
    again = desk.send(QUESTION, userEmail=ADA, headers=headers)
    assert again.json()["sendChatResult"]["type"] == "blocked_result"
    assert "noon" not in again.text


def answered(script: Script, send: Callable[[], Any], outcome: Reply | Exception, *, number: int = 0) -> Any:
    sent = in_background(send)
    script.end(outcome, number=number)
    return sent.result()


def test_a_defect_is_told_without_what_it_was(desk: Desk, script: Script) -> None:
    answer = answered(script, desk.send, RuntimeError("secret details"))
    assert code(answer) == (500, "internal")
    assert "secret" not in answer.text


def test_a_caller_that_gives_up_leaves_the_turn_to_finish(desk: Desk, script: Script) -> None:
    headers, before = {"Idempotency-Key": "once"}, conversations.in_flight(desk.service)
    body = {"agentId": desk.agent_id, "message": "One"}
    request = desk.service.http.build_request("POST", "/api/v0/copilots/sendMessage", json=body, headers=headers)
    lines = "".join(f"{name}: {value}\r\n" for name, value in request.headers.items())
    with socket.create_connection(("127.0.0.1", desk.service.settings.port)) as connection:
        connection.sendall(f"POST {request.url.path} HTTP/1.1\r\n{lines}\r\n".encode() + request.read())
        script.scene()
    until(lambda: conversations.in_flight(desk.service) <= before)
    script.end(a_reply("Done"))
    assert desk.ask("One", headers=headers)["response"]["message"] == "Done"
    assert len(script.scenes) == 1


def test_who_waits_too_long_is_told_how_to_go_on(desk: Desk, script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "service.domains.agents.conversations.streaming.QUEUE_SECONDS", -desk.service.settings.model_seconds
    )
    headers = {"Idempotency-Key": "once"}
    late = desk.send("One", headers=headers)
    assert code(late) == (503, "reply_delayed")
    assert int(late.headers["Retry-After"]) > 0
    monkeypatch.undo()
    monkeypatch.setattr("service.domains.agents.answering.answer", script)
    assert answered(script, lambda: desk.ask("One", headers=headers), a_reply("Done"))["response"]["message"] == "Done"
    assert len(turns(desk)) == 1


@pytest.mark.parametrize(
    ("how", "refusal", "turn"),
    [
        ("undeployed", (404, "agent_not_found"), ("FAILED", None, "agent_not_found")),
        ("deleted", (404, "agent_not_found"), ("FAILED", None, "agent_not_found")),
        ("deactivated", (400, "unknown_user"), ("FAILED", None, "sender_inactive")),
        ("revoked", (401, "credential_revoked"), ("COMPLETED", "Half of a reply", None)),
    ],
)
def test_a_right_taken_away_while_it_answers(desk, script, how, refusal, turn) -> None:
    a_user(desk.service, ADA)
    key = a_key(desk.service, mayActForUsers=True)
    first = in_background(lambda: desk.send(userEmail=ADA, api_key=key["apiKey"]))
    script.tell("Half of a", passage(desk.document_id))
    take: dict[str, Callable[[], object]] = {
        "undeployed": desk.deploy,
        "deleted": desk.delete,
        "deactivated": lambda: a_user(desk.service, ADA, active=False),
        "revoked": lambda: desk.service.call("admin/apiKeys/revoke", {"apiKeyId": key["apiKeyId"]}),
    }
    take[how]()
    script.end(a_reply("Half of a reply", passage(desk.document_id)))
    assert code(first.result()) == refusal
    kept = (
        "SELECT status, reply, error_code, (SELECT count(*) FROM turn_passages p WHERE p.turn_id = turns.turn_id)"
        " FROM turns"
    )
    assert turns(desk, kept) == [(*turn, int(turn[0] == "COMPLETED"))]
    assert [one["details"]["status"] for one in desk.entries()] == [str(turn[0]).lower()]


def test_who_left_a_group_is_not_answered_from_what_it_reads(desk: Desk, script: Script) -> None:
    a_user(desk.service, ADA)
    crew = a_group(desk.service, "Crew", user(ADA))
    first = in_background(lambda: desk.ask(userEmail=ADA))
    assert UUID(crew["id"]) in desk.service.run(script.scene().assignment.sender()).principals
    script.end(a_reply("Done"))
    conversation = first.result()["conversationId"]
    a_group(desk.service, "Crew")
    second = in_background(lambda: desk.ask(userEmail=ADA, conversationId=conversation))
    assert UUID(crew["id"]) not in desk.service.run(script.scene(1).assignment.sender()).principals
    script.end(a_reply("Done"), number=1)
    assert second.result()["type"] == "ai_response_result"


def test_the_model_is_given_the_agent_as_it_is_now(desk: Desk, script: Script) -> None:
    desk.update(instructions="Answer in verse.", collectionIds=[])
    assert answered(script, desk.ask, a_reply("Done"))["sourcesInDataContext"] == []
    assignment = script.scene().assignment
    assert (assignment.instructions, list(assignment.collection_ids)) == ("Answer in verse.", [])


def feedback(desk: Desk, message_id: str, **members: Any) -> Any:
    options = {"api_key": members.pop("api_key", None)}
    given = {"feedback": "NEGATIVE", "descriptiveFeedback": "Too short", "suggestedAnswer": "At noon."}
    body = {"agentId": desk.agent_id, "messageId": message_id, "messageFeedback": given, **members}
    return desk.service.call("copilots/provideMessageFeedback", body, **options)


def test_feedback_is_kept_on_the_audit_log(desk: Desk) -> None:
    visitor = a_visitor(desk)
    result = desk.ask(userEmail=ADA)
    given = done(feedback(desk, result["messageId"], userEmail=ADA))
    [entry] = desk.entries("agent.feedback")
    assert entry["auditLogId"] == given["auditLogId"]
    assert (entry["actor"]["email"], entry["actingFor"]["email"]) == (desk.service.admin_email, ADA)
    assert entry["target"] == {"type": "message", "id": result["messageId"]}
    told_of = {"agentId": desk.agent_id, "conversationId": result["conversationId"]}
    assert entry["details"] == {**told_of, "feedback": "NEGATIVE"}
    assert entry["text"] == "Too short\n\nSuggested answer: At noon."
    done(feedback(desk, result["messageId"], userEmail=ADA, messageFeedback={"feedback": "POSITIVE"}))
    messages = done(visitor.get(f"conversations/{result['conversationId']}"))["messages"]
    assert [one["feedback"] for one in messages] == ["POSITIVE"]
    assert "text" not in desk.entries("agent.feedback")[0]


def test_feedback_is_for_replies_one_was_given(desk: Desk) -> None:
    """Unknown, another person's, another agent's: 404, to the byte."""
    service = desk.service
    for email in (ADA, BEN):
        a_user(service, email)
    other = a_desk(service, "Second desk")
    bens = a_key(service, ownerEmail=BEN, mayActForUsers=True)["apiKey"]
    message_id = desk.ask(userEmail=ADA)["messageId"]
    expected = told(feedback(desk, str(uuid7())))
    assert expected[:2] == (404, "message_not_found")
    for named in ({}, {"userEmail": BEN}, {"userEmail": VISITOR}):
        assert told(feedback(desk, message_id, api_key=bens, **named)) == expected
    assert told(feedback(desk, message_id, userEmail=BEN)) == expected
    assert told(feedback(other, message_id, userEmail=ADA)) == expected
    assert desk.entries("agent.feedback") == []


def test_an_admin_judges_every_reply(desk: Desk) -> None:
    visitor = a_visitor(desk)
    result = desk.ask(userEmail=ADA)
    done(feedback(desk, result["messageId"]))
    done(feedback(desk, result["messageId"], userEmail=VISITOR))
    [passed_on, own] = desk.entries("agent.feedback")
    assert own["text"] == "Too short\n\nSuggested answer: At noon."
    assert passed_on["text"] == f"End user: {VISITOR}\n\n{own['text']}"
    assert not {"actingFor"} & (own.keys() | passed_on.keys())
    messages = done(visitor.get(f"conversations/{result['conversationId']}"))["messages"]
    assert [one["feedback"] for one in messages] == ["NEGATIVE"]


def test_a_key_passes_on_feedback_on_its_own_conversation(desk: Desk) -> None:
    for email in (ADA, BEN):
        a_user(desk.service, email)
    key = a_key(desk.service, ownerEmail=BEN, mayActForUsers=True)["apiKey"]
    message_id = desk.ask(api_key=key)["messageId"]
    done(feedback(desk, message_id, api_key=key, userEmail=VISITOR, messageFeedback={"feedback": "POSITIVE"}))
    done(feedback(desk, message_id, api_key=key, userEmail=ADA, messageFeedback={"feedback": "POSITIVE"}))
    by_ada, by_visitor = desk.entries("agent.feedback")
    assert (by_ada["actor"]["email"], by_ada["actingFor"]["email"]) == (BEN, ADA)
    assert "text" not in by_ada
    assert (by_visitor["actor"]["email"], by_visitor["text"]) == (BEN, f"End user: {VISITOR}")
    assert VISITOR not in str(by_visitor["details"])


def test_feedback_needs_a_reply(desk: Desk, script: Script) -> None:
    first = in_background(desk.send)
    script.scene()
    [(message_id,)] = turns(desk, "SELECT turn_id FROM turns")
    assert code(feedback(desk, str(message_id))) == (409, "no_reply")
    script.end(ModelFailure("No."))
    first.result()
    assert code(feedback(desk, str(message_id))) == (409, "no_reply")
