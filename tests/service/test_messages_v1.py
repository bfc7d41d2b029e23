"""agents/sendMessage, fetchAgentResponse and feedback on v1: a message is a job, its sender's alone."""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from service.domains.answering import ModelFailure
from service.domains.conversations.abandoned import expire_turns
from service.domains.conversations.drafts import Superseded
from service.domains.conversations.jobs import answer_turn
from service.platform import secrets
from service.platform.identifiers import uuid7
from tests.oauth.flow import later, v1
from tests.service.conversations import (
    ADA,
    BEN,
    FERRY,
    SECONDS,
    Desk,
    Script,
    a_desk,
    a_reply,
    a_visitor,
    in_background,
    passage,
)
from tests.service.directory import a_user, code, done

GETS = ("agents/fetchAgentResponse", "agents/streamAgentResponse")


def told(answer: httpx.Response) -> tuple[int, str, str]:
    """The status, code and message of a refusal."""
    error = answer.json()["error"]
    assert error.keys() == {"message", "code", "requestId"}
    return answer.status_code, error["code"], error["message"]


def test_a_message_is_a_job_that_is_fetched(desk: Desk, script: Script) -> None:
    """The answer comes at once; partial text while it runs, sources with the whole, and an entry on the audit log."""
    visitor = a_visitor(desk)
    sent = done(visitor.send())
    assert sent.keys() == {"jobId", "conversationId"}
    assert visitor.fetch(sent["jobId"]) == {"status": "RUNNING"}
    script.tell("At noon", passage(desk.document_id))
    assert visitor.fetch(sent["jobId"]) == {"status": "RUNNING", "partialText": "At noon"}
    script.end(a_reply("At noon. [1]", passage(desk.document_id), cited=[0], warnings=["Mind the gap."]))
    job = visitor.finished(sent["jobId"])
    [entry] = desk.entries()
    assert job == {
        "status": "COMPLETED",
        "conversationId": sent["conversationId"],
        "result": {
            "agentResponseText": "At noon. [1]",
            "messageId": sent["jobId"],
            "referencedSources": [
                {
                    "id": desk.document_id,
                    "name": "Ferries",
                    "externalResourceId": {
                        "externalResourceId": desk.document_id,
                        "resourceType": "UPLOADED_DOCUMENT",
                    },
                    "quote": FERRY,
                }
            ],
            "warnings": ["Mind the gap."],
            "auditLogId": entry["auditLogId"],
        },
    }
    assert entry["actor"]["email"] == ADA


def test_the_built_in_model_answers_on_v1_as_on_v0(desk: Desk) -> None:
    """One path behind both."""
    reply = a_visitor(desk).ask("When does the ferry to Northlight leave?")["result"]
    result = desk.ask("When does the ferry to Northlight leave?")
    assert reply["agentResponseText"] == result["response"]["message"]
    assert reply["referencedSources"] == result["referencedSources"]


def test_a_failure_is_told(desk: Desk, script: Script) -> None:
    """By its code and what to do."""
    visitor = a_visitor(desk)
    job_id = done(visitor.send())["jobId"]
    script.end(ModelFailure("The model is overloaded. Try again later.", code="model_rate_limited"))
    assert visitor.finished(job_id) == {
        "status": "FAILED",
        "errorCode": "model_rate_limited",
        "errorMessage": "The model is overloaded. Try again later.",
    }


def test_a_conversation_goes_on_whichever_version_it_began_on(desk: Desk) -> None:
    """A key that acts for a person goes on with theirs; nobody else does."""
    visitor, other = a_visitor(desk), a_visitor(desk, BEN)
    began = done(visitor.send())
    visitor.finished(began["jobId"])
    assert desk.ask(userEmail=ADA, conversationId=began["conversationId"])["type"] == "ai_response_result"
    assert done(visitor.send(conversation_id=began["conversationId"]))["conversationId"] == began["conversationId"]
    expected = told(other.send(conversation_id=str(uuid7())))
    assert expected[:2] == (404, "conversation_not_found")
    assert told(other.send(conversation_id=began["conversationId"])) == expected


def test_a_job_is_its_senders_alone(desk: Desk) -> None:
    """Another person's, and one there never was: 404, to the byte, by either way to look."""
    visitor, other = a_visitor(desk), a_visitor(desk, BEN)
    job_id = done(visitor.send())["jobId"]
    visitor.finished(job_id)
    for path in GETS:
        expected = told(other.get(path, jobId=str(uuid7())))
        assert expected[:2] == (404, "job_not_found")
        assert told(other.get(path, jobId=job_id)) == expected


def test_a_job_is_kept_for_a_day(desk: Desk) -> None:
    """To the moment; the conversation stays."""
    visitor = a_visitor(desk)
    sent = done(visitor.send())
    visitor.finished(sent["jobId"])
    with desk.service.owner_connection() as connection:
        # A token lives for an hour, so most of the day is in the past.
        connection.execute("UPDATE turns SET created_at = now() - interval '23 hours 59 minutes'")
    assert visitor.fetch(sent["jobId"])["status"] == "COMPLETED"
    later(desk.service, minutes=1)
    for path in GETS:
        assert code(visitor.get(path, jobId=sent["jobId"])) == (404, "job_not_found")
    assert len(done(visitor.get(f"conversations/{sent['conversationId']}"))["messages"]) == 1


def test_parameters_are_judged_like_bodies(desk: Desk) -> None:
    """400 naming the one that is missing, unknown or not one at all, after who asks and before what is there."""
    visitor, reader = a_visitor(desk), a_visitor(desk, BEN, scope="api:catalog:read")
    sizes = [({"pageSize": size}, "pageSize") for size in ("0", "1001", "x", "1.5", "")]
    paged = [({"nonsense": "1"}, "nonsense"), ({"userEmail": ADA}, "userEmail"), *sizes]
    of_job = [({}, "jobId"), ({"jobId": "mine"}, "jobId"), ({"jobId": str(uuid7()), "nonsense": "1"}, "nonsense")]
    wrong = dict.fromkeys(GETS, of_job) | {"conversations": paged, f"conversations/{uuid7()}": paged}
    for path, several in wrong.items():
        for parameters, field in several:
            answer = visitor.get(path, **parameters)
            assert code(answer) == (400, "invalid_request"), (path, parameters)
            assert [one["field"] for one in answer.json()["error"]["details"]] == [field]
        assert code(reader.get(path, nonsense="1")) == (403, "missing_scope")
        for credential in (desk.service.api_key, secrets.mint(secrets.SERVICE_ACCOUNT_TOKEN).value.get_secret_value()):
            assert code(v1(desk.service, path, credential)) == (401, "wrong_version")


def test_a_page_token_of_another_walk_is_refused(desk: Desk) -> None:
    """Of another conversation, of other parameters, or tampered with."""
    visitor = a_visitor(desk)
    for _ in range(2):
        visitor.ask()
    page = done(visitor.get("conversations", pageSize=1))
    assert code(visitor.get("conversations", pageToken=page["nextPageToken"], agentId=desk.agent_id))[0] == 400
    assert code(visitor.get("conversations", pageToken=page["nextPageToken"] + "A"))[0] == 400
    assert code(visitor.get(f"conversations/{uuid7()}", pageToken=page["nextPageToken"])) == (400, "invalid_page_token")


WRONG: "list[dict[str, Any]]" = [
    {"agentId": "x"},
    {"conversation": {"type": "old"}},
    {"conversation": {"type": "existing"}},
    {"conversation": {"type": "new", "conversationId": str(uuid7())}},
    {"message": "  "},
    {"nonsense": 1},
]


def test_a_body_that_is_none_is_told(desk: Desk) -> None:
    """400, and nothing begins."""
    visitor = a_visitor(desk)
    for change in WRONG:
        assert code(visitor.send(body=change)) == (400, "invalid_request"), change
    assert done(visitor.get("conversations"))["conversations"] == []


def test_nobody_acts_for_somebody_else(desk: Desk) -> None:
    """Though on v0 feedback may be given for a user."""
    visitor = a_visitor(desk)
    body = {"agentId": desk.agent_id, "messageId": str(uuid7()), "messageFeedback": {"feedback": "POSITIVE"}}
    for path, more in (("agents/provideMessageFeedback", body), ("agents/sendMessage", {})):
        refused = v1(desk.service, path, visitor.token, {**more, "userEmail": ADA})
        assert code(refused) == (400, "access_token_acts_as_its_user")
    refused = v1(desk.service, "agents/provideMessageFeedback", visitor.token, {**body, "user_email": ADA})
    assert code(refused)[0] == 400


def test_people_need_no_api_access(desk: Desk) -> None:
    """That is for programs; but the agent must be deployed to them."""
    visitor = a_visitor(desk)
    desk.update(apiAccessEnabled=False)
    assert visitor.ask()["status"] == "COMPLETED"
    desk.deploy()
    assert code(visitor.send()) == (404, "agent_not_found")


def test_a_token_for_one_agent_is_for_that_one(desk: Desk) -> None:
    """Messages to others are 403; their jobs and conversations are not there, nor on any list."""
    other = a_desk(desk.service, "Second desk")
    everything = a_visitor(desk)
    theirs = done(v1(desk.service, "agents/sendMessage", everything.token, body_of(other)))
    mine = done(everything.send())
    for sent in (mine, theirs):
        everything.finished(sent["jobId"])
    narrow = a_visitor(desk, scope=f"api:agent:message:{desk.agent_id}")
    assert code(v1(desk.service, "agents/sendMessage", narrow.token, body_of(other))) == (403, "missing_scope")
    nobodys = {**body_of(other), "agentId": str(uuid7())}
    assert code(v1(desk.service, "agents/sendMessage", narrow.token, nobodys)) == (403, "missing_scope")
    feedback = {
        "agentId": other.agent_id,
        "messageId": theirs["jobId"],
        "messageFeedback": {"feedback": "POSITIVE"},
    }
    assert code(v1(desk.service, "agents/provideMessageFeedback", narrow.token, feedback)) == (403, "missing_scope")
    assert narrow.fetch(mine["jobId"])["status"] == "COMPLETED"
    for path in GETS:
        assert code(narrow.get(path, jobId=theirs["jobId"])) == (404, "job_not_found")
    assert code(narrow.get(f"conversations/{theirs['conversationId']}")) == (404, "conversation_not_found")
    assert narrow.get(f"conversations/{mine['conversationId']}").status_code == 200
    for parameters, expected in (({}, [mine]), ({"agentId": other.agent_id}, [])):
        listed = done(narrow.get("conversations", **parameters))["conversations"]
        assert [one["conversationId"] for one in listed] == [one["conversationId"] for one in expected]
    assert narrow.ask()["status"] == "COMPLETED"


def body_of(desk: Desk) -> dict[str, Any]:
    """A message that begins a conversation with a desk."""
    return {"agentId": desk.agent_id, "conversation": {"type": "new"}, "message": "Hello"}


def test_a_message_sent_twice_is_one_job(desk: Desk, script: Script) -> None:
    """At once, or later; one that failed is tried again as the same job."""
    visitor = a_visitor(desk)
    once = {"headers": {"Idempotency-Key": "once"}}
    with ThreadPoolExecutor(2) as pool:
        sent = [one.result() for one in [pool.submit(visitor.send, "One", **once) for _ in range(2)]]
    assert sent[0].json() == sent[1].json()
    assert sorted("Idempotent-Replayed" in one.headers for one in sent) == [False, True]
    job_id = done(sent[0])["jobId"]
    script.end(ModelFailure("No."))
    assert visitor.finished(job_id)["status"] == "FAILED"
    assert done(visitor.send("One", **once)) == sent[0].json()
    script.end(a_reply("Yes."), number=1)
    assert visitor.finished(job_id)["result"]["agentResponseText"] == "Yes."
    assert done(visitor.send("One", **once)) == sent[0].json()
    assert len(script.scenes) == 2
    assert code(visitor.send("Two", **once)) == (409, "idempotency_key_reused")


def test_two_messages_at_once_on_v1_are_answered_in_their_order(desk: Desk, script: Script) -> None:
    """Both have a job at once; the second's model is shown the first reply."""
    visitor = a_visitor(desk)
    conversation = done(visitor.send("Zero"))["conversationId"]
    jobs = [done(visitor.send(f"Number {one}", conversation))["jobId"] for one in (1, 2)]
    script.end(a_reply("Reply 0"))
    script.end(a_reply("Reply 1"), number=1)
    assert [one.reply for one in script.scene(2).assignment.history] == ["Reply 0", "Reply 1"]
    script.end(a_reply("Reply 2"), number=2)
    replies = [visitor.finished(job)["result"]["agentResponseText"] for job in jobs]
    assert replies == ["Reply 1", "Reply 2"]


def test_a_turn_after_one_that_failed_is_answered(desk: Desk, script: Script) -> None:
    """And the failed one isn't part of what the model is shown."""
    visitor = a_visitor(desk)
    conversation = done(visitor.send("Zero"))["conversationId"]
    job_id = done(visitor.send("One", conversation))["jobId"]
    script.end(ModelFailure("No."))
    assert script.scene(1).assignment.history == []
    script.end(a_reply("Yes."), number=1)
    assert visitor.finished(job_id)["status"] == "COMPLETED"


def test_the_model_is_shown_fifty_exchanges_at_most(desk: Desk, script: Script) -> None:
    """The last ones, oldest first."""
    visitor = a_visitor(desk)
    first = done(visitor.send("Zero"))
    script.end(a_reply("Reply 0"))
    visitor.finished(first["jobId"])
    with desk.service.owner_connection() as connection:
        connection.execute(
            "INSERT INTO turns"
            " (turn_id, organization_id, conversation_id, turn_no, credential_id, message, reply, status)"
            " SELECT gen_random_uuid(), organization_id, conversation_id, n, credential_id, 'm' || n, 'r' || n, status"
            " FROM turns, generate_series(2, 60) n"
        )
    done(visitor.send("Last", first["conversationId"]))
    shown = [one.message for one in script.scene(1).assignment.history]
    assert shown == [f"m{number}" for number in range(11, 61)]
    script.end(a_reply("Done"), number=1)


def test_feedback_is_given_on_v1_too(desk: Desk) -> None:
    """On replies of one's own."""
    visitor, other = a_visitor(desk), a_visitor(desk, BEN)
    job_id = done(visitor.send())["jobId"]
    visitor.finished(job_id)
    body = {"agentId": desk.agent_id, "messageId": job_id, "messageFeedback": {"feedback": "POSITIVE"}}
    assert code(v1(desk.service, "agents/provideMessageFeedback", other.token, body)) == (404, "message_not_found")
    given = done(v1(desk.service, "agents/provideMessageFeedback", visitor.token, body))
    [entry] = desk.entries("agent.feedback")
    assert entry["auditLogId"] == given["auditLogId"]
    assert entry["actor"]["email"] == ADA


def test_a_worker_that_was_replaced_writes_nothing(desk: Desk, script: Script) -> None:
    """Neither progress nor an end: the turn is the later attempt's."""
    visitor = a_visitor(desk)
    job_id = done(visitor.send())["jobId"]
    script.tell("First worker", passage(desk.document_id))
    again = in_background(lambda: answer_again(desk))
    script.tell("Second worker", number=1)
    with pytest.raises(Superseded):
        script.tell("First worker, still here")
    script.end(a_reply("From the first"))
    assert visitor.fetch(job_id) == {"status": "RUNNING", "partialText": "Second worker"}
    script.end(a_reply("From the second"), number=1)
    again.result()
    assert visitor.finished(job_id)["result"]["agentResponseText"] == "From the second"
    assert len(desk.entries()) == 1


def test_progress_is_not_written_all_the_time(desk: Desk, script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes right after something was written waits for what comes next; the end has it all."""
    visitor = a_visitor(desk)
    job_id = done(visitor.send())["jobId"]
    script.tell("One")
    monkeypatch.setattr("service.domains.conversations.drafts.PAUSE_SECONDS", 3600)
    script.tell("One, two")
    assert visitor.fetch(job_id)["partialText"] == "One"
    script.end(a_reply("One, two, three"))
    assert visitor.finished(job_id)["result"]["agentResponseText"] == "One, two, three"


def answer_again(desk: Desk) -> None:
    """Do the work of the one turn, as a second worker does that takes the first for dead."""
    with desk.service.owner_connection() as connection:
        [(organization_id, turn_id)] = connection.execute("SELECT organization_id, turn_id FROM turns").fetchall()
    desk.service.run(answer_turn(desk.service.runtime, organization_id=organization_id, turn_id=turn_id))


def test_a_turn_whose_job_is_gone_fails_in_time(desk: Desk, script: Script) -> None:
    """After longer than any reply takes, with a word why; one that has a job is left alone, however old."""
    service, visitor = desk.service, a_visitor(desk)
    first = done(visitor.send("One"))
    following = done(visitor.send("Two", first["conversationId"]))
    script.scene()
    age(desk)
    assert service.run(expire_turns(service.runtime)) == 0
    with service.owner_connection() as connection:
        connection.execute("DELETE FROM procrastinate_jobs")
    assert service.run(expire_turns(service.runtime)) == 1
    assert visitor.fetch(first["jobId"])["errorCode"] == "reply_lost"
    # The next in the conversation has its job then.
    assert script.scene(1).assignment.message == "Two"
    assert service.run(expire_turns(service.runtime)) == 0
    script.end(a_reply("Done"), number=1)
    assert visitor.finished(following["jobId"])["status"] == "COMPLETED"
    script.end(a_reply("Too late"))
    assert visitor.finished(first["jobId"])["status"] == "FAILED"


def age(desk: Desk) -> None:
    """Let a turn have been begun long ago, and yet be fetched."""
    with desk.service.owner_connection() as connection:
        connection.execute("UPDATE turns SET created_at = now() - interval '1 hour'")


def test_without_a_job_a_young_turn_is_left_alone(desk: Desk, script: Script) -> None:
    """Its job may be about to be seen."""
    a_visitor(desk).send("One")
    script.scene()
    with desk.service.owner_connection() as connection:
        connection.execute("DELETE FROM procrastinate_jobs")
    assert desk.service.run(expire_turns(desk.service.runtime)) == 0
    script.end(a_reply("Done"))


def test_a_deactivated_person_is_refused(desk: Desk, script: Script) -> None:
    """At once by their token, and by the worker that answers them."""
    visitor = a_visitor(desk)
    done(visitor.send())
    script.scene()
    a_user(desk.service, ADA, active=False)
    assert code(visitor.send()) == (401, "credential_revoked")
    script.end(a_reply("Done"))
    with desk.service.owner_connection() as connection:
        deadline = time.monotonic() + SECONDS
        while connection.execute("SELECT FROM turns WHERE status = 'RUNNING'").rowcount:
            assert time.monotonic() < deadline
        assert connection.execute("SELECT error_code FROM turns").fetchall() == [("sender_inactive",)]
