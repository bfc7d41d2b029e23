"""agents/sendMessage, fetchAgentResponse and feedback on v1: a message is a job, only for its sender."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from service.domains.agents.answering.models import ModelFailure
from service.domains.agents.conversations.drafts import Superseded
from service.domains.agents.conversations.jobs import answer_turn, expire_turns
from service.platform.identifiers import uuid7
from tests.oauth.flow import v1
from tests.service import conversations
from tests.service.conversations import FERRY, Desk, Script, Visitor, a_reply, passage
from tests.service.directory import code, done, on_rows, organization_id
from tests.service.test_messages_v0 import told

GETS = ("agents/fetchAgentResponse", "agents/streamAgentResponse")


def age(desk: Desk, interval: str) -> None:
    on_rows(desk.service, "UPDATE turns SET created_at = now() - %s::interval", interval)


def test_a_message_is_a_job_that_is_fetched(desk: Desk, visitor: Visitor, script: Script) -> None:
    sent = done(visitor.send())
    assert sent.keys() == {"jobId", "conversationId"}
    assert visitor.fetch(sent["jobId"]) == {"status": "RUNNING"}
    script.tell("At noon", passage(desk.document_id))
    assert visitor.fetch(sent["jobId"]) == {"status": "RUNNING", "partialText": "At noon"}
    script.end(a_reply("At noon. [1]", passage(desk.document_id), cited=[0], warnings=["Mind the gap."]))
    job = visitor.finished(sent["jobId"])
    [entry] = desk.entries()
    resource = {"externalResourceId": desk.document_id, "resourceType": "UPLOADED_DOCUMENT"}
    assert job == {
        "status": "COMPLETED",
        "conversationId": sent["conversationId"],
        "result": {
            "agentResponseText": "At noon. [1]",
            "messageId": sent["jobId"],
            "referencedSources": [
                {"id": desk.document_id, "name": "Ferries", "externalResourceId": resource, "quote": FERRY}
            ],
            "warnings": ["Mind the gap."],
            "auditLogId": entry["auditLogId"],
        },
    }
    assert entry["actor"]["email"] == conversations.ADA


def test_the_built_in_model_answers_on_v1_as_on_v0(desk: Desk, visitor: Visitor) -> None:
    question = "When does the ferry to Northlight leave?"
    reply, result = visitor.ask(question)["result"], desk.ask(question)
    assert reply["agentResponseText"] == result["response"]["message"]
    assert reply["referencedSources"] == result["referencedSources"]


def test_a_job_its_conversation_and_its_reply_are_the_senders_alone(desk: Desk, visitor: Visitor) -> None:
    other = conversations.a_visitor(desk, conversations.BEN)
    began = done(visitor.send())
    job_id, conversation_id = began["jobId"], began["conversationId"]
    visitor.finished(job_id)
    for path in GETS:
        expected = told(other.get(path, jobId=str(uuid7())))
        assert expected[:2] == (404, "job_not_found")
        assert told(other.get(path, jobId=job_id)) == expected
    assert desk.ask(userEmail=conversations.ADA, conversationId=conversation_id)["type"] == "ai_response_result"
    assert done(visitor.send(conversation_id=conversation_id))["conversationId"] == conversation_id
    expected = told(other.send(conversation_id=str(uuid7())))
    assert expected[:2] == (404, "conversation_not_found")
    assert told(other.send(conversation_id=conversation_id)) == expected
    body = {"agentId": desk.agent_id, "messageId": job_id, "messageFeedback": {"feedback": "POSITIVE"}}
    assert code(v1(desk.service, "agents/provideMessageFeedback", other.token, body)) == (404, "message_not_found")
    given = done(v1(desk.service, "agents/provideMessageFeedback", visitor.token, body))
    [entry] = desk.entries("agent.feedback")
    assert (entry["auditLogId"], entry["actor"]["email"]) == (given["auditLogId"], conversations.ADA)


def test_a_job_is_kept_for_a_day(desk: Desk, visitor: Visitor) -> None:
    sent = done(visitor.send())
    visitor.finished(sent["jobId"])
    age(desk, "23 hours 59 minutes")
    assert visitor.fetch(sent["jobId"])["status"] == "COMPLETED"
    age(desk, "24 hours")
    for path in GETS:
        assert code(visitor.get(path, jobId=sent["jobId"])) == (404, "job_not_found")
    assert len(done(visitor.get(f"conversations/{sent['conversationId']}"))["messages"]) == 1


def test_parameters_are_judged_like_bodies(desk: Desk, visitor: Visitor) -> None:
    """400 with the name, after authorization and before existence."""
    reader = conversations.a_visitor(desk, conversations.BEN, scope="api:catalog:read")
    sizes = [({"pageSize": size}, "pageSize") for size in ("0", "1001", "x", "1.5", "")]
    paged = [({"nonsense": "1"}, "nonsense"), ({"userEmail": conversations.ADA}, "userEmail"), *sizes]
    of_job = [({}, "jobId"), ({"jobId": "mine"}, "jobId"), ({"jobId": str(uuid7()), "nonsense": "1"}, "nonsense")]
    wrong = dict.fromkeys(GETS, of_job) | {"conversations": paged, f"conversations/{uuid7()}": paged}
    for path, several in wrong.items():
        for parameters, field in several:
            answer = visitor.get(path, **parameters)
            assert code(answer) == (400, "invalid_request"), (path, parameters)
            assert [one["field"] for one in answer.json()["error"]["details"]] == [field]
        assert code(reader.get(path, nonsense="1")) == (403, "missing_scope")


def test_a_page_token_of_another_walk_is_refused(desk: Desk, visitor: Visitor) -> None:
    for _ in range(2):
        visitor.ask()
    page = done(visitor.get("conversations", pageSize=1))
    assert code(visitor.get("conversations", pageToken=page["nextPageToken"], agentId=desk.agent_id))[0] == 400
    assert code(visitor.get("conversations", pageToken=page["nextPageToken"] + "A"))[0] == 400
    assert code(visitor.get(f"conversations/{uuid7()}", pageToken=page["nextPageToken"])) == (400, "invalid_page_token")


def test_a_body_that_is_none_is_told(visitor: Visitor) -> None:
    with_id = {"type": "new", "conversationId": str(uuid7())}
    conversations = [{"conversation": one} for one in ({"type": "old"}, {"type": "existing"}, with_id)]
    for change in (*conversations, {"agentId": "x"}, {"message": "  "}, {"nonsense": 1}):
        assert code(visitor.send(body=change)) == (400, "invalid_request"), change
    assert done(visitor.get("conversations"))["conversations"] == []


def test_nobody_acts_for_somebody_else(desk: Desk, visitor: Visitor) -> None:
    verdict = {"agentId": desk.agent_id, "messageId": str(uuid7()), "messageFeedback": {"feedback": "POSITIVE"}}
    for path, body in (("agents/provideMessageFeedback", verdict), ("agents/sendMessage", {})):
        refused = v1(desk.service, path, visitor.token, {**body, "userEmail": conversations.ADA})
        assert code(refused) == (400, "access_token_acts_as_its_user")


def test_people_need_no_api_access(desk: Desk, visitor: Visitor) -> None:
    desk.update(apiAccessEnabled=False)
    assert visitor.ask()["status"] == "COMPLETED"
    desk.deploy()
    assert code(visitor.send()) == (404, "agent_not_found")


def test_a_token_for_one_agent_is_for_that_one(desk: Desk) -> None:
    other = conversations.a_desk(desk.service, "Second desk")
    everything = conversations.a_visitor(desk)
    theirs = done(v1(desk.service, "agents/sendMessage", everything.token, body_of(other)))
    mine = done(everything.send())
    for sent in (mine, theirs):
        everything.finished(sent["jobId"])
    narrow = conversations.a_visitor(desk, scope=f"api:agent:message:{desk.agent_id}")
    assert code(v1(desk.service, "agents/sendMessage", narrow.token, body_of(other))) == (403, "missing_scope")
    nobodys = {**body_of(other), "agentId": str(uuid7())}
    assert code(v1(desk.service, "agents/sendMessage", narrow.token, nobodys)) == (403, "missing_scope")
    feedback = {"agentId": other.agent_id, "messageId": theirs["jobId"], "messageFeedback": {"feedback": "POSITIVE"}}
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


def body_of(desk: Desk) -> dict:
    return {"agentId": desk.agent_id, "conversation": {"type": "new"}, "message": "Hello"}


def test_a_message_sent_twice_is_one_job(visitor: Visitor, script: Script) -> None:
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


def test_a_turn_after_one_that_failed_is_answered(visitor: Visitor, script: Script) -> None:
    job_id = done(visitor.send("One", done(visitor.send("Zero"))["conversationId"]))["jobId"]
    script.end(ModelFailure("No."))
    assert script.scene(1).assignment.history == []
    script.end(a_reply("Yes."), number=1)
    assert visitor.finished(job_id)["status"] == "COMPLETED"


def test_the_model_is_shown_fifty_exchanges_at_most(desk: Desk, visitor: Visitor, script: Script) -> None:
    first = done(visitor.send("Zero"))
    script.end(a_reply("Reply 0"))
    visitor.finished(first["jobId"])
    on_rows(
        desk.service,
        "INSERT INTO turns (turn_id, organization_id, conversation_id, turn_no, credential_id, message, reply, status)"
        " SELECT gen_random_uuid(), organization_id, conversation_id, n, credential_id, 'm' || n, 'r' || n, status"
        " FROM turns CROSS JOIN generate_series(2, 60) n",
    )
    done(visitor.send("Last", first["conversationId"]))
    assert [one.message for one in script.scene(1).assignment.history] == [f"m{number}" for number in range(11, 61)]
    script.end(a_reply("Done"), number=1)


def test_a_worker_that_was_replaced_writes_nothing(desk: Desk, visitor: Visitor, script: Script) -> None:
    job_id = done(visitor.send())["jobId"]
    script.tell("First worker", passage(desk.document_id))
    again = conversations.in_background(lambda: answer_again(desk))
    script.tell("Second worker", number=1)
    with pytest.raises(Superseded):
        script.tell("First worker, still here")
    script.end(a_reply("From the first"))
    assert visitor.fetch(job_id) == {"status": "RUNNING", "partialText": "Second worker"}
    script.end(a_reply("From the second"), number=1)
    again.result()
    assert visitor.finished(job_id)["result"]["agentResponseText"] == "From the second"
    assert len(desk.entries()) == 1


def test_progress_is_not_written_all_the_time(visitor, script, monkeypatch) -> None:
    job_id = done(visitor.send())["jobId"]
    script.tell("One")
    monkeypatch.setattr("service.domains.agents.conversations.drafts.PAUSE_SECONDS", 3600)
    script.tell("One, two")
    assert visitor.fetch(job_id)["partialText"] == "One"
    script.end(a_reply("One, two, three"))
    assert visitor.finished(job_id)["result"]["agentResponseText"] == "One, two, three"


def answer_again(desk: Desk) -> None:
    """Do the work of the turn, like a second worker that considers the first dead."""
    [(organization, turn_id)] = on_rows(desk.service, "SELECT organization_id, turn_id FROM turns")
    desk.service.run(answer_turn(desk.service.runtime, organization_id=organization, turn_id=turn_id))


def test_a_turn_whose_job_is_gone_fails_in_time(desk: Desk, visitor: Visitor, script: Script) -> None:
    service = desk.service
    first = done(visitor.send("One"))
    following = done(visitor.send("Two", first["conversationId"]))
    script.scene()
    age(desk, "1 hour")
    service.run(expire_turns(service.runtime))
    assert visitor.fetch(first["jobId"])["status"] == "RUNNING"
    age(desk, "0 hours")  # its job may be about to be seen
    own = "DELETE FROM procrastinate_jobs WHERE args->>'organization_id' = %s"
    service.execute(own, [str(organization_id(service))])
    service.run(expire_turns(service.runtime))
    assert visitor.fetch(first["jobId"])["status"] == "RUNNING"
    age(desk, "1 hour")
    service.run(expire_turns(service.runtime))
    assert visitor.fetch(first["jobId"])["errorCode"] == "reply_lost"
    # The next in the conversation has its job then.
    assert script.scene(1).assignment.message == "Two"
    service.run(expire_turns(service.runtime))
    script.end(a_reply("Done"), number=1)
    assert visitor.finished(following["jobId"])["status"] == "COMPLETED"
    script.end(a_reply("Too late"))
    assert visitor.finished(first["jobId"])["status"] == "FAILED"
