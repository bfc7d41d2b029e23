"""Messages to agents: every operation of v1, and a reply waited for with whatever credential."""

import pickle
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from carrel import (
    APIConnectionError,
    APITimeoutError,
    ConfigurationError,
    InvalidArgumentError,
    NotFoundError,
    Reply,
    ReplyConnectionError,
    ReplyError,
    ReplyFailedError,
    ReplyTimeoutError,
    ReplyWithheldError,
    ServerError,
    UnexpectedResponseError,
)
from carrel._operations import FlowOperation, ListOperation, Operation, StreamOperation
from carrel.resources.agents import Agents
from carrel.resources.conversations import Conversations
from carrel.wire.messages import CompletedJob, FailedJob, RunningJob
from tests.client.conftest import Caller, MakeCaller
from tests.client.samples import (
    AUDIT_LOG_ID,
    BLOCKED_CHAT,
    COMPLETED_JOB,
    CONVERSATION_ID,
    CONVERSATION_ROW,
    DOCUMENT_ID,
    FAILED_JOB,
    JOB_ID,
    ME,
    MESSAGE_ROW,
    OTHER_ID,
    RUNNING_JOB,
    SENT_CHAT,
    STARTED_JOB,
    WITHHELD_JOB,
)
from tests.client.server import Answer, Server, cut_short, json_answer, raw, refuse, slowly
from tests.client.test_operations import covers

ACCESS_TOKEN = "svc_at_of_the_tests_0123456789abcdefghij"
NEW = {"agentId": OTHER_ID, "conversation": {"type": "new"}, "message": "How?"}
FEEDBACK = {
    "agentId": OTHER_ID,
    "messageId": JOB_ID,
    "messageFeedback": {"feedback": "NEGATIVE", "descriptiveFeedback": "Too short", "suggestedAnswer": "By ferry"},
}
Case = tuple[str, str, Callable[[Any], Any], dict[str, Any], dict[str, Any]]

# Method, path, operation, what is asked for (the body of a POST, a GET's parameters), answer.
SINGLE: list[Case] = [
    ("GET", "me", lambda c: c.me(), {}, ME),
    ("POST", "agents/sendMessage", lambda c: c.agents.send_message(OTHER_ID, "How?"), NEW, STARTED_JOB),
    (
        "POST",
        "agents/sendMessage",
        lambda c: c.agents.send_message(UUID(OTHER_ID), "How?", conversation_id=CONVERSATION_ID),
        {**NEW, "conversation": {"type": "existing", "conversationId": CONVERSATION_ID}},
        STARTED_JOB,
    ),
    (
        "GET",
        "agents/fetchAgentResponse",
        lambda c: c.agents.fetch_response(JOB_ID),
        {"jobId": JOB_ID},
        COMPLETED_JOB,
    ),
    (
        "POST",
        "agents/provideMessageFeedback",
        lambda c: c.agents.provide_message_feedback(
            OTHER_ID, JOB_ID, "NEGATIVE", descriptive_feedback="Too short", suggested_answer="By ferry"
        ),
        FEEDBACK,
        {"auditLogId": AUDIT_LOG_ID},
    ),
]
LISTS: list[Case] = [
    (
        "GET",
        "agents",
        lambda c: c.agents.list(),
        {},
        {"agents": [{"agentId": OTHER_ID, "name": "Travel desk", "description": "Knows how we travel"}]},
    ),
    (
        "GET",
        "conversations",
        lambda c: c.conversations.list(agent_id=OTHER_ID),
        {"agentId": OTHER_ID},
        {"conversations": [CONVERSATION_ROW]},
    ),
    (
        "GET",
        f"conversations/{CONVERSATION_ID}",
        lambda c: c.conversations.get(CONVERSATION_ID.upper()),
        {},
        {"conversation": CONVERSATION_ROW, "messages": [MESSAGE_ROW]},
    ),
]


def _named(cases: list[Case]) -> list[Any]:
    return [pytest.param(case, id=f"{case[1]}-{number}") for number, case in enumerate(cases)]


@pytest.fixture
def person(make_caller: MakeCaller) -> Caller:
    """A client with an access token."""
    return make_caller(api_key=None, access_token=ACCESS_TOKEN)


async def ask(caller: Caller, operate: Callable[[Any], Any]) -> Any:
    """Do what an operation does, whatever it gives: an answer, a list or a stream."""
    if caller.is_async:
        return await caller(lambda c: _walked(operate(c)))
    result = operate(caller.client)
    return list(result) if hasattr(result, "__iter__") and not isinstance(result, Reply) else result


async def _walked(result: Any) -> Any:
    return [item async for item in result] if hasattr(result, "__aiter__") else await result


@pytest.mark.parametrize("case", _named(SINGLE))
async def test_operation_of_v1(person: Caller, server: Server, case: Case) -> None:
    """The request has v1's path and members, a GET no body, and every member of the answer is read."""
    method, path, operate, asked, answer = case
    server.will(answer)
    result = await person(operate)
    request = server.received[0]
    assert (request.method, request.path) == (method, f"/api/v1/{path}")
    assert request.headers["authorization"] == f"Bearer {ACCESS_TOKEN}"
    if method == "GET":
        assert (request.query, request.body) == (asked, b"")
        assert not {"content-type", "content-length", "idempotency-key"} & request.headers.keys()
    else:
        assert request.json == asked
        assert request.headers["idempotency-key"]
    assert covers(result.model_dump(mode="json", by_alias=True), answer)


@pytest.mark.parametrize("case", _named(LISTS))
async def test_list_of_v1(person: Caller, server: Server, case: Case) -> None:
    """A list is walked over its pages by GET, each with the token of the one before and the same parameters."""
    method, path, operate, asked, answer = case
    server.will({**answer, "nextPageToken": "a+b &c=/é"}, answer)
    items = await person.walk(operate(person.client))
    rows = next(value for value in answer.values() if isinstance(value, list))
    assert covers([item.model_dump(mode="json", by_alias=True) for item in items], rows * 2)
    assert [(one.method, one.path) for one in server.received] == [(method, f"/api/v1/{path}")] * 2
    assert [one.query for one in server.received] == [
        {**asked, "pageSize": "100"},
        {**asked, "pageSize": "100", "pageToken": "a+b &c=/é"},
    ]


def test_every_operation_of_v1_has_a_case() -> None:
    """No operation is left out of the cases above; replies that are waited for or streamed have their own tests."""
    members = [member for group in (Agents, Conversations) for member in vars(group).values()]
    assert sum(isinstance(member, Operation) for member in members) + 1 == len({case[1] for case in SINGLE})
    assert sum(isinstance(member, ListOperation) for member in members) == len(LISTS)
    described = [m for m in members if isinstance(m, Operation | ListOperation | FlowOperation | StreamOperation)]
    assert len(described) == len(LISTS) + 6
    assert all(member.__doc__ for member in described)


ONLY_V1: list[Callable[[Any], Any]] = [
    *(operate for _, _, operate, _, _ in (*SINGLE[:-1], *LISTS)),
    lambda c: c.agents.stream_response(JOB_ID),
    lambda c: c.agents.with_raw_response.list(),
]
ONLY_V0: list[Callable[[Any], Any]] = [
    lambda c: c.copilots.send_message(OTHER_ID, "How?"),
    lambda c: c.copilots.provide_message_feedback(OTHER_ID, JOB_ID, "POSITIVE"),
]


@pytest.mark.parametrize("operate", ONLY_V1)
async def test_what_a_key_cannot_call(caller: Caller, server: Server, operate: Callable[[Any], Any]) -> None:
    """With an API key, an operation of v1 says which credential it wants before anything is sent."""
    with pytest.raises(ConfigurationError, match=r"is on v1 alone, .* access_token="):
        await ask(caller, operate)
    assert not server.received


@pytest.mark.parametrize("operate", ONLY_V0)
async def test_what_an_access_token_cannot_call(person: Caller, server: Server, operate: Callable[[Any], Any]) -> None:
    """With an access token, an operation of v0 says which credential it wants before anything is sent."""
    with pytest.raises(ConfigurationError, match=r"is on v0 alone, .* api_key="):
        await ask(person, operate)
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
    """Arguments that make no request, or lead to another path, are refused by name before anything is sent."""
    with pytest.raises(InvalidArgumentError, match=named):
        await ask(person, operate)
    assert not server.received


@pytest.mark.parametrize(
    ("answer", "kind"), [(RUNNING_JOB, RunningJob), (COMPLETED_JOB, CompletedJob), (FAILED_JOB, FailedJob)]
)
async def test_a_job_is_one_of_three(person: Caller, server: Server, answer: dict[str, Any], kind: type[Any]) -> None:
    """What fetching a job gives is told apart by its class, behind with_raw_response too."""
    server.will(answer, answer)
    assert type(await person(lambda c: c.agents.fetch_response(JOB_ID))) is kind
    response = await person(lambda c: c.agents.with_raw_response.fetch_response(JOB_ID))
    assert (type(response.parsed), response.status_code) == (kind, 200)


@pytest.mark.parametrize("body", [b"{}", b'{"status": "PAUSED"}', b"<html>"])
async def test_a_job_that_is_none(person: Caller, server: Server, body: bytes) -> None:
    """An answer that is no job is said to be none."""
    server.will(raw(body))
    with pytest.raises(UnexpectedResponseError, match="base_url"):
        await person(lambda c: c.agents.fetch_response(JOB_ID))


async def test_lists_become_frames(person: Caller, server: Server) -> None:
    """Conversations and messages are tables, the page of messages knows its conversation."""
    server.will({"conversations": [CONVERSATION_ROW]}, LISTS[2][4])
    frame = await person(lambda c: c.conversations.list().to_frame())
    assert frame["agent_name"].tolist() == ["Travel desk"]
    page = (await person.walk(person.client.conversations.get(CONVERSATION_ID).pages()))[0]
    assert page.conversation.title == "How do I get to Vienna?"
    assert page.to_frame()["status"].tolist() == ["COMPLETED"]


async def test_one_reply_whatever_the_credential(make_caller: MakeCaller, person: Caller, server: Server) -> None:
    """send_and_wait gives the same reply on both versions: by one request on v0, by a job on v1."""
    program = make_caller()
    server.will(SENT_CHAT)
    one = await program(
        lambda c: c.agents.send_and_wait(
            OTHER_ID, "How?", conversation_id=CONVERSATION_ID, user_email="ada@example.com"
        )
    )
    assert [request.path for request in server.received] == ["/api/v0/copilots/sendMessage"]
    assert server.received[0].json == {
        "agentId": OTHER_ID,
        "message": "How?",
        "conversationId": CONVERSATION_ID,
        "userEmail": "ada@example.com",
    }
    server.received.clear()
    server.will(STARTED_JOB, RUNNING_JOB, {"status": "RUNNING"}, COMPLETED_JOB)
    other = await person(lambda c: c.agents.send_and_wait(OTHER_ID, "How?"))
    assert [request.path.rpartition("/")[2] for request in server.received] == [
        "sendMessage",
        *["fetchAgentResponse"] * 3,
    ]
    assert server.received[1].query == {"jobId": JOB_ID}
    assert 0 < person.naps[0] < person.naps[1] < 1
    assert one == other
    assert (one.text, str(one.conversation_id), str(one.message_id)) == (
        "By “night train” [1].",
        CONVERSATION_ID,
        JOB_ID,
    )
    assert (one.sources[0].quote, one.warnings) == ("Book the night train", ["A quote was left out."])
    assert one.to_frame()["id"].tolist() == [DOCUMENT_ID]


async def test_feedback_with_a_key(caller: Caller, server: Server) -> None:
    """Feedback goes to v0 with an API key, for the user it acts for."""
    server.will({"auditLogId": AUDIT_LOG_ID})
    await caller(
        lambda c: c.agents.provide_message_feedback(OTHER_ID, JOB_ID, "POSITIVE", user_email="ada@example.com")
    )
    assert server.received[0].path == "/api/v0/copilots/provideMessageFeedback"
    assert server.received[0].json["userEmail"] == "ada@example.com"


async def test_a_withheld_reply(make_caller: MakeCaller, person: Caller, server: Server) -> None:
    """A reply that may not be read any more is the same error on both versions."""
    server.will(BLOCKED_CHAT, STARTED_JOB, WITHHELD_JOB)
    for caller in (make_caller(), person):
        with pytest.raises(ReplyWithheldError, match="You may not read this any more") as caught:
            await caller(lambda c: c.agents.send_and_wait(OTHER_ID, "How?"))
        assert (caught.value.code, str(caught.value.conversation_id)) == ("reply_withheld", CONVERSATION_ID)


async def test_a_failed_reply(make_caller: MakeCaller, person: Caller, server: Server) -> None:
    """A model without a reply is the same error on both versions, and sending again is left to the application."""
    server.will(refuse(503, "model_unavailable", {"retry-after": "5"}), STARTED_JOB, FAILED_JOB)
    for caller in (make_caller(), person):
        with pytest.raises(ReplyFailedError) as caught:
            await caller(lambda c: c.agents.send_and_wait(OTHER_ID, "How?"))
        assert caught.value.code == "model_unavailable"
    assert len(server.received) == 3
    assert str(caught.value.message_id) == JOB_ID
    assert isinstance(pickle.loads(pickle.dumps(caught.value)), ReplyError)  # noqa: S301 - our own bytes


@pytest.mark.parametrize("code", ["saturated", "not_found"])
async def test_what_is_no_reply_of_a_model(caller: Caller, server: Server, code: str) -> None:
    """Other refusals of v0 stay what they are."""
    status, kind = (503, ServerError) if code == "saturated" else (404, NotFoundError)
    server.will(*[refuse(status, code)] * 3)
    with pytest.raises(kind) as caught:
        await caller(lambda c: c.agents.send_and_wait(OTHER_ID, "How?"))
    assert caught.value.code == code


async def test_a_lost_answer_is_asked_for_again(person: Caller, server: Server) -> None:
    """A message whose answer was lost is sent again under its key, and looking at its job goes on over a restart."""
    away: list[Answer] = [refuse(502)] * 5
    server.will(refuse(503), STARTED_JOB, *away, RUNNING_JOB, COMPLETED_JOB)
    assert (await person(lambda c: c.agents.send_and_wait(OTHER_ID, "How?"))).text
    keys = [request.headers.get("idempotency-key") for request in server.received]
    assert keys[0] == keys[1] is not None
    assert not any(keys[2:])
    assert len(server.received) == 9


async def test_who_wants_no_second_attempt(make_caller: MakeCaller, server: Server) -> None:
    """With max_retries=0 nothing is sent twice, looks at a job included."""
    hasty = make_caller(api_key=None, access_token=ACCESS_TOKEN, max_retries=0)
    server.will(STARTED_JOB, refuse(502), COMPLETED_JOB)
    with pytest.raises(ServerError):
        await hasty(lambda c: c.agents.send_and_wait(OTHER_ID, "How?"))
    assert len(server.received) == 2


async def test_the_time_is_up_on_v1(person: Caller, server: Server) -> None:
    """When the time is up the error tells the job, which can be fetched later."""
    server.will(STARTED_JOB, slowly(5, json_answer(RUNNING_JOB)))
    with pytest.raises(ReplyTimeoutError, match=r"within 0\.2 seconds.*" + JOB_ID) as caught:
        await person(lambda c: c.agents.send_and_wait(OTHER_ID, "How?", timeout=0.2))
    assert (str(caught.value.job_id), str(caught.value.conversation_id)) == (JOB_ID, CONVERSATION_ID)
    assert isinstance(caught.value, APITimeoutError)
    again = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - our own bytes
    assert vars(again) == vars(caught.value)


async def test_a_job_out_of_reach(person: Caller, server: Server) -> None:
    """When no look at a job gets an answer, the error tells the job, which can be fetched later."""
    server.will(STARTED_JOB, *[cut_short(b"{", promised=9)] * 7, COMPLETED_JOB)
    with pytest.raises(ReplyConnectionError, match=JOB_ID) as caught:
        await person(lambda c: c.agents.send_and_wait(OTHER_ID, "How?"))
    assert (str(caught.value.job_id), str(caught.value.conversation_id)) == (JOB_ID, CONVERSATION_ID)
    assert not isinstance(caught.value, APITimeoutError)
    job_id = caught.value.job_id
    assert isinstance(await person(lambda c: c.agents.fetch_response(job_id)), CompletedJob)


@pytest.mark.parametrize("retries", [0, 2])
async def test_the_time_is_up_on_v0(make_caller: MakeCaller, server: Server, retries: int) -> None:
    """`timeout` holds whatever the client's own is, over further attempts, and is said to be it."""
    server.will(slowly(5, json_answer(SENT_CHAT)))
    caller = make_caller(timeout=None, max_retries=retries)
    with pytest.raises(ReplyTimeoutError, match=r"within 0\.2 seconds"):
        await caller(lambda c: c.agents.send_and_wait(OTHER_ID, "How?", timeout=0.2))
    assert len(server.received) == 1


async def test_a_pause_longer_than_the_time(caller: Caller, server: Server) -> None:
    """Nobody sleeps over the end of the time, only to say that it is up."""
    server.will(refuse(503, "saturated", {"retry-after": "60"}))
    with pytest.raises(ReplyTimeoutError):
        await caller(lambda c: c.agents.send_and_wait(OTHER_ID, "How?", timeout=30))
    assert caller.naps == []


async def test_a_service_that_waited_long_enough(make_caller: MakeCaller, server: Server) -> None:
    """v0's own end of waiting is a timeout too: the reply is still being made."""
    server.will(refuse(503, "reply_delayed", {"retry-after": "5"}))
    with pytest.raises(ReplyTimeoutError):
        await make_caller(max_retries=0)(lambda c: c.agents.send_and_wait(OTHER_ID, "How?"))


async def test_a_connection_that_fails_in_time(make_caller: MakeCaller) -> None:
    """A service that isn't there is said to be that, as long as there is time."""
    caller = make_caller(base_url="http://127.0.0.1:1")
    with pytest.raises(APIConnectionError) as caught:
        await caller(lambda c: c.agents.send_and_wait(OTHER_ID, "How?", timeout=30))
    assert not isinstance(caught.value, APITimeoutError)


async def test_a_message_waits_for_a_long_reply(caller: Caller, server: Server) -> None:
    """A message of v0 waits for its reply longer than other operations do for theirs."""
    server.will(slowly(0.3, json_answer(SENT_CHAT)))
    hasty = caller.client.with_options(timeout=0.1)
    answer = await caller(lambda _: hasty.copilots.send_message(OTHER_ID, "How?"))
    assert str(answer.send_chat_result.message_id) == JOB_ID
