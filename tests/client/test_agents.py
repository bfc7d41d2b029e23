"""Messages to agents, and waiting for a reply, with each kind of credential."""

import pickle
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from carrel import Reply, errors
from carrel.wire.messages import CompletedJob, FailedJob, RunningJob
from tests.client import samples
from tests.client.conftest import ACCESS_TOKEN, Caller, MakeCaller
from tests.client.contract import OPERATIONS
from tests.client.samples import COMPLETED_JOB, CONVERSATION_ID, JOB_ID, OTHER_ID, RUNNING_JOB, SENT_CHAT, STARTED_JOB
from tests.client.server import Answer, Server, cut_short, json_answer, raw, refuse, slowly

ADA = "ada@example.com"


async def ask(caller: Caller, operate: Callable[[Any], Any]) -> Any:
    if caller.is_async:
        return await caller(lambda c: _walked(operate(c)))
    result = operate(caller.client)
    return list(result) if hasattr(result, "__iter__") and not isinstance(result, Reply) else result


async def _walked(result: Any) -> Any:
    return [item async for item in result] if hasattr(result, "__aiter__") else await result


@pytest.mark.parametrize(
    ("given", "conversation"),
    [
        ({}, {"type": "new"}),
        ({"conversation_id": UUID(CONVERSATION_ID)}, {"type": "existing", "conversationId": CONVERSATION_ID}),
    ],
    ids=["new", "existing"],
)
async def test_a_message(person: Caller, server: Server, given: dict[str, Any], conversation: dict[str, Any]) -> None:
    server.will(STARTED_JOB)
    job = await person(lambda c: c.agents.send_message(OTHER_ID, "How?", **given))
    [request] = server.received
    assert (request.method, request.path) == ("POST", "/api/v1/agents/sendMessage")
    assert request.json == {"agentId": OTHER_ID, "conversation": conversation, "message": "How?"}
    assert request.headers["authorization"] == f"Bearer {ACCESS_TOKEN}"
    assert request.headers["idempotency-key"]
    assert (str(job.job_id), str(job.conversation_id)) == (JOB_ID, CONVERSATION_ID)


async def test_feedback(person: Caller, caller: Caller, server: Server) -> None:
    judged = {"feedback": "NEGATIVE", "descriptiveFeedback": "Too short", "suggestedAnswer": "By ferry"}
    given = {"descriptive_feedback": "Too short", "suggested_answer": "By ferry"}
    for client, path, acting, sent in (
        (person, "/api/v1/agents/provideMessageFeedback", {}, {}),
        (caller, "/api/v0/copilots/provideMessageFeedback", {"user_email": ADA}, {"userEmail": ADA}),
    ):
        server.will({"auditLogId": samples.AUDIT_LOG_ID})
        kept = await client(
            lambda c, acting=acting: c.agents.provide_message_feedback(OTHER_ID, JOB_ID, "NEGATIVE", **given, **acting)
        )
        assert str(kept.audit_log_id) == samples.AUDIT_LOG_ID
        request = server.received.pop()
        assert request.path == path
        assert request.json == {"agentId": OTHER_ID, "messageId": JOB_ID, "messageFeedback": judged, **sent}
        assert request.headers["idempotency-key"]


@pytest.mark.parametrize(
    ("version", "operate"),
    [
        ("v1", lambda c: c.me()),
        ("v1", lambda c: c.agents.list()),
        ("v1", lambda c: c.agents.send_message(OTHER_ID, "How?")),
        ("v1", lambda c: c.agents.fetch_response(JOB_ID)),
        ("v1", lambda c: c.agents.stream_response(JOB_ID)),
        ("v1", lambda c: c.agents.with_raw_response.list()),
        ("v1", lambda c: c.conversations.list()),
        ("v1", lambda c: c.conversations.get(CONVERSATION_ID)),
        ("v0", lambda c: c.copilots.send_message(OTHER_ID, "How?")),
        ("v0", lambda c: c.copilots.provide_message_feedback(OTHER_ID, JOB_ID, "POSITIVE")),
    ],
)
async def test_operations_of_the_other_version_are_refused(caller, person, server, version, operate):
    client, wanted = (caller, "access_token=") if version == "v1" else (person, "api_key=")
    with pytest.raises(errors.ConfigurationError, match=f"works only on {version}, .* {wanted}"):
        await ask(client, operate)
    assert not server.received


@pytest.mark.parametrize(
    ("operate", "named"),
    [
        (lambda c: c.agents.send_message("x", "How?"), "agent_id"),
        (lambda c: c.agents.send_message(OTHER_ID, " \n"), "message"),
        (lambda c: c.agents.send_message(OTHER_ID, "How?", conversation_id="x"), "conversation_id"),
        (lambda c: c.agents.stream(OTHER_ID, ""), "message"),
        (lambda c: c.agents.stream_response("../me"), "job_id"),
        (lambda c: c.agents.fetch_response(7), "job_id"),
        (lambda c: c.agents.send_and_wait(OTHER_ID, "a\0b"), "message"),
        (lambda c: c.agents.send_and_wait(OTHER_ID, "How?", user_email="bo@example.com"), "user_email"),
        (lambda c: c.agents.provide_message_feedback(OTHER_ID, JOB_ID, "MEH"), "feedback"),
        (lambda c: c.agents.provide_message_feedback(OTHER_ID, JOB_ID, "POSITIVE", user_email="a@b.c"), "user_email"),
        (lambda c: c.conversations.get("../../me"), "conversation_id"),
        (lambda c: c.conversations.list(page_size=0), "page_size"),
    ],
)
async def test_arguments_are_checked(person: Caller, server: Server, operate: Callable[[Any], Any], named: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=named):
        await ask(person, operate)
    assert not server.received


@pytest.mark.parametrize(
    ("answer", "kind"), [(RUNNING_JOB, RunningJob), (COMPLETED_JOB, CompletedJob), (samples.FAILED_JOB, FailedJob)]
)
async def test_a_job_is_one_of_three(person: Caller, server: Server, answer: dict[str, Any], kind: type[Any]) -> None:
    server.will(answer, answer)
    assert type(await person(lambda c: c.agents.fetch_response(JOB_ID))) is kind
    response = await person(lambda c: c.agents.with_raw_response.fetch_response(JOB_ID))
    assert (type(response.parsed), response.status_code) == (kind, 200)


@pytest.mark.parametrize("body", [b"{}", b'{"status": "PAUSED"}', b"<html>"])
async def test_a_job_that_is_none(person: Caller, server: Server, body: bytes) -> None:
    server.will(raw(body))
    with pytest.raises(errors.UnexpectedResponseError, match="base_url"):
        await person(lambda c: c.agents.fetch_response(JOB_ID))


async def test_lists_become_frames(person: Caller, server: Server) -> None:
    listed, page = (OPERATIONS[name].response() for name in ("conversations", "conversations/{conversationId}"))
    server.will(*({**one, "nextPageToken": None} for one in (listed, page)))
    frame = await person(lambda c: c.conversations.list().to_frame())
    assert frame["agent_name"].tolist() == [listed["conversations"][0]["agentName"]]
    [read] = await person.walk(person.client.conversations.get(CONVERSATION_ID.upper()).pages())
    assert server.received[1].path == f"/api/v1/conversations/{CONVERSATION_ID}"
    assert read.conversation.title == page["conversation"]["title"]
    assert read.to_frame()["status"].tolist() == [page["messages"][0]["status"]]


async def test_one_reply_whatever_the_credential(caller: Caller, person: Caller, server: Server) -> None:
    server.will(SENT_CHAT)
    given = {"conversation_id": CONVERSATION_ID, "user_email": ADA}
    one = await caller(lambda c: c.agents.send_and_wait(OTHER_ID, "How?", **given))
    sent = server.received.pop()
    members = {"agentId": OTHER_ID, "message": "How?", "conversationId": CONVERSATION_ID, "userEmail": ADA}
    assert (sent.path, sent.json) == ("/api/v0/copilots/sendMessage", members)
    server.will(STARTED_JOB, RUNNING_JOB, {"status": "RUNNING"}, COMPLETED_JOB)
    other = await person(lambda c: c.agents.send_and_wait(OTHER_ID, "How?"))
    called = [request.path.rpartition("/")[2] for request in server.received]
    assert called == ["sendMessage", *["fetchAgentResponse"] * 3]
    assert server.received[1].query == {"jobId": JOB_ID}
    assert 0 < person.naps[0] < person.naps[1] < 1
    assert one == other
    ids = str(one.conversation_id), str(one.message_id)
    assert (one.text, *ids) == ("By “night train” [1].", CONVERSATION_ID, JOB_ID)
    assert (one.sources[0].quote, one.warnings) == ("Book the night train", ["A quote was left out."])
    assert one.to_frame()["id"].tolist() == [samples.DOCUMENT_ID]


async def test_a_withheld_reply(caller: Caller, person: Caller, server: Server) -> None:
    server.will(samples.BLOCKED_CHAT, STARTED_JOB, samples.WITHHELD_JOB)
    for client in (caller, person):
        with pytest.raises(errors.ReplyWithheldError, match="You may not read this any more") as caught:
            await client(lambda c: c.agents.send_and_wait(OTHER_ID, "How?"))
        assert (caught.value.code, str(caught.value.conversation_id)) == ("reply_withheld", CONVERSATION_ID)


async def test_a_failed_reply(caller: Caller, person: Caller, server: Server) -> None:
    """Sending again is left to the application."""
    server.will(refuse(503, "model_unavailable", {"retry-after": "5"}), STARTED_JOB, samples.FAILED_JOB)
    for client in (caller, person):
        with pytest.raises(errors.ReplyFailedError) as caught:
            await client(lambda c: c.agents.send_and_wait(OTHER_ID, "How?"))
        assert caught.value.code == "model_unavailable"
    assert len(server.received) == 3
    assert str(caught.value.message_id) == JOB_ID
    assert isinstance(pickle.loads(pickle.dumps(caught.value)), errors.ReplyError)  # noqa: S301 - our own bytes


@pytest.mark.parametrize("code", ["saturated", "not_found"])
async def test_what_is_no_reply_of_a_model(caller: Caller, server: Server, code: str) -> None:
    status, kind = (503, errors.ServerError) if code == "saturated" else (404, errors.NotFoundError)
    server.will(*[refuse(status, code)] * 3)
    with pytest.raises(kind) as caught:
        await caller(lambda c: c.agents.send_and_wait(OTHER_ID, "How?"))
    assert caught.value.code == code


async def test_a_lost_answer_is_asked_for_again(person: Caller, server: Server) -> None:
    away: list[Answer] = [refuse(502)] * 5
    server.will(refuse(503), STARTED_JOB, *away, RUNNING_JOB, COMPLETED_JOB)
    assert (await person(lambda c: c.agents.send_and_wait(OTHER_ID, "How?"))).text
    keys = [request.headers.get("idempotency-key") for request in server.received]
    assert keys[0] == keys[1] is not None
    assert not any(keys[2:])
    assert len(server.received) == 9


async def test_who_wants_no_second_attempt(make_caller: MakeCaller, server: Server) -> None:
    """With max_retries=0 each request is sent once, also polls of a job."""
    hasty = make_caller(api_key=None, access_token=ACCESS_TOKEN, max_retries=0)
    server.will(STARTED_JOB, refuse(502), COMPLETED_JOB)
    with pytest.raises(errors.ServerError):
        await hasty(lambda c: c.agents.send_and_wait(OTHER_ID, "How?"))
    assert len(server.received) == 2


async def test_the_time_is_up_on_v1(person: Caller, server: Server) -> None:
    server.will(STARTED_JOB, slowly(5, json_answer(RUNNING_JOB)))
    with pytest.raises(errors.ReplyTimeoutError, match=r"within 0\.2 seconds.*" + JOB_ID) as caught:
        await person(lambda c: c.agents.send_and_wait(OTHER_ID, "How?", timeout=0.2))
    assert (str(caught.value.job_id), str(caught.value.conversation_id)) == (JOB_ID, CONVERSATION_ID)
    assert isinstance(caught.value, errors.APITimeoutError)
    again = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - our own bytes
    assert vars(again) == vars(caught.value)


async def test_a_job_out_of_reach(person: Caller, server: Server) -> None:
    server.will(STARTED_JOB, *[cut_short(b"{", promised=9)] * 7, COMPLETED_JOB)
    with pytest.raises(errors.ReplyConnectionError, match=JOB_ID) as caught:
        await person(lambda c: c.agents.send_and_wait(OTHER_ID, "How?"))
    assert (str(caught.value.job_id), str(caught.value.conversation_id)) == (JOB_ID, CONVERSATION_ID)
    assert not isinstance(caught.value, errors.APITimeoutError)
    job_id = caught.value.job_id
    assert isinstance(await person(lambda c: c.agents.fetch_response(job_id)), CompletedJob)


LATE = slowly(5, json_answer(SENT_CHAT))


@pytest.mark.parametrize(
    ("options", "answer", "end"),
    [
        ({"timeout": None, "max_retries": 0}, LATE, (0.2, "within 0.2 seconds")),
        ({"timeout": None, "max_retries": 2}, LATE, (0.2, "within 0.2 seconds")),
        ({}, refuse(503, "saturated", {"retry-after": "60"}), (30, "within 30 seconds")),
        ({"max_retries": 0}, refuse(503, "reply_delayed", {"retry-after": "5"}), (30, "There is no reply yet")),
    ],
    ids=["late", "late with retries", "a pause that is longer", "the service's own end"],
)
async def test_the_time_is_up_on_v0(make_caller, server, options, answer, end):
    seconds, said = end
    server.will(answer)
    caller = make_caller(**options)
    with pytest.raises(errors.ReplyTimeoutError, match=said):
        await caller(lambda c: c.agents.send_and_wait(OTHER_ID, "How?", timeout=seconds))
    assert (len(server.received), caller.naps) == (1, [])


async def test_a_connection_that_fails_in_time(make_caller: MakeCaller) -> None:
    caller = make_caller(base_url="http://127.0.0.1:1")
    with pytest.raises(errors.APIConnectionError) as caught:
        await caller(lambda c: c.agents.send_and_wait(OTHER_ID, "How?", timeout=30))
    assert not isinstance(caught.value, errors.APITimeoutError)


@pytest.mark.parametrize(
    "operate",
    [
        lambda c, **own: c.copilots.send_message(OTHER_ID, "How?", **own),
        lambda c, **own: c.catalog.upload_file(b"x", document_external_id="x", file_name="x.txt", **own),
        lambda c, **own: c.agents.stream(OTHER_ID, "How?", **own),
    ],
    ids=["message", "upload", "stream"],
)
async def test_a_calls_own_timeout_and_headers_hold_where_patience_is_usual(make_caller, server, operate):
    server.will(slowly(0.5, json_answer(SENT_CHAT)))
    with pytest.raises(errors.APITimeoutError):
        await ask(make_caller(max_retries=0), lambda c: operate(c, timeout=0.1, headers={"X-Trace": "t-1"}))
    assert [one.headers["x-trace"] for one in server.received] == ["t-1"]


async def test_a_message_waits_for_a_long_reply(caller: Caller, server: Server) -> None:
    server.will(slowly(0.3, json_answer(SENT_CHAT)))
    hasty = caller.client.with_options(timeout=0.1)
    answer = await caller(lambda _: hasty.copilots.send_message(OTHER_ID, "How?"))
    assert str(answer.send_chat_result.message_id) == JOB_ID
