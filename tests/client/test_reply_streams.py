"""A growing reply is read completely over bad connections, without loss or repetition."""

import asyncio
import gc
import json
import pickle
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import StreamingResponse

from carrel import Reply, Restarted, TextDelta, errors
from tests.client.conftest import ACCESS_TOKEN, Caller, MakeCaller
from tests.client.samples import COMPLETED_JOB, CONVERSATION_ID, FAILED_JOB, JOB_ID, OTHER_ID, STARTED_JOB, WITHHELD_JOB
from tests.client.server import Answer, Server, event, json_answer, raw, refuse, resetting, streamed
from tests.client.test_access_tokens import Counting

TEXT = "Book the “night train” to Zürich; 夜行列車 runs daily. 🚆"
DONE = event("completed", COMPLETED_JOB, f"1-{len(TEXT)}")


def events_from(position: int, *, pace: int = 9) -> bytes:
    pieces = [(TEXT[start : start + pace], min(start + pace, len(TEXT))) for start in range(position, len(TEXT), pace)]
    return b"".join(event("delta", {"text": piece}, f"1-{end}") for piece, end in pieces) + DONE


def telling(*, cut_at: int | None = None, pace: int = 9) -> Answer:
    """Stream TEXT from the reader's position, as the service does; cut the connection at a byte."""

    def answer(request: Request) -> StreamingResponse:
        told = events_from(int(request.headers.get("last-event-id", "1-0").partition("-")[2]), pace=pace)
        response = streamed(told[:cut_at], cut=True) if cut_at is not None else streamed(told)
        return response(request)  # type: ignore[return-value]

    return answer


def told(items: list[Any]) -> str:
    """Return a reader's text by the method of docs/sdk.md."""
    text = ""
    for item in items:
        if isinstance(item, Restarted):
            text = ""
        elif isinstance(item, TextDelta):
            text += item.text
    return text


async def read(caller: Caller) -> list[Any]:
    return await caller.walk(caller.client.agents.stream_response(JOB_ID))


def positions(server: Server) -> list[str | None]:
    return [request.headers.get("last-event-id") for request in server.received]


async def test_a_message_and_its_reply(person: Caller, server: Server) -> None:
    stream = person.client.agents.stream(OTHER_ID, "How?", conversation_id=CONVERSATION_ID)
    assert server.received == []
    server.will(STARTED_JOB, telling())
    items = await person.walk(stream)
    assert told(items) == TEXT
    assert len(items) > 5
    reply = items[-1]
    assert isinstance(reply, Reply)
    assert (str(reply.message_id), reply.sources[0].name) == (JOB_ID, "Travel")
    sent, watched = server.received
    assert (sent.path, sent.json["conversation"]["type"]) == ("/api/v1/agents/sendMessage", "existing")
    assert sent.headers["idempotency-key"]
    assert (watched.method, watched.path) == ("GET", "/api/v1/agents/streamAgentResponse")
    assert (watched.query, watched.headers["accept"]) == ({"jobId": JOB_ID}, "text/event-stream")
    assert watched.headers["authorization"] == f"Bearer {ACCESS_TOKEN}"
    assert positions(server) == [None, None]
    assert await person.walk(stream) == []


async def test_cut_at_any_byte(person: Caller, server: Server) -> None:
    cuts = range(0, len(events_from(0)), 11)
    for cut_at in cuts:
        server.received.clear()
        server.will(telling(cut_at=cut_at), telling())
        items = await read(person)
        assert told(items) == TEXT
        assert [type(item) for item in items].count(Reply) == 1
        assert len(server.received) == 2
        assert positions(server)[0] is None
    assert len(person.naps) == len(cuts)


async def test_a_stream_that_ends_too_early(person: Caller, server: Server) -> None:
    server.will(streamed(event("delta", {"text": TEXT[:9]}, "1-9")), refuse(503, "stopping", {"retry-after": "1"}))
    server.will(telling())
    assert told(await read(person)) == TEXT
    assert positions(server) == [None, "1-9", "1-9"]
    assert len(person.naps) == 2


async def test_a_reply_that_begins_anew(person: Caller, server: Server) -> None:
    anew = [event("restarted", {}, "2-0"), event("delta", {"text": "By ferry."}, "2-9")]
    server.will(streamed(event("delta", {"text": "By tr"}, "1-5"), cut=True), streamed(*anew, cut=True), streamed(DONE))
    items = await read(person)
    assert [type(item) for item in items] == [TextDelta, Restarted, TextDelta, Reply]
    assert told(items) == "By ferry."
    assert positions(server) == [None, "1-5", "2-9"]


def chunk(kind: str, **members: Any) -> bytes:
    return f"data: {json.dumps({'event': kind, **members})}\n\n".encode()


async def test_a_message_on_v0_is_sent_again_until_its_reply_is_whole(caller: Caller, server: Server) -> None:
    begun = chunk("initial", conversationId=CONVERSATION_ID, warnings=[], webSearchResults=[])
    void = chunk("error_chunk", error={"code": "reply_restarted", "message": "It has changed."})
    final = chunk("final_chunk", sources=[], warnings=["w"], messageId=JOB_ID, auditLogId=OTHER_ID)
    server.will(
        streamed(begun, chunk("data_chunk", chunk="By tr"), cut=True),
        streamed(begun, chunk("data_chunk", chunk="By"), chunk("data_chunk", chunk=" train"), void),
        streamed(begun, chunk("data_chunk", chunk="By ferry."), chunk("end_of_message"), final),
    )
    *items, reply = await caller.walk(caller.client.agents.stream(OTHER_ID, "How?", user_email="ada@example.com"))
    assert items == [TextDelta(text="By tr"), TextDelta(text="ain"), Restarted(), TextDelta(text="By ferry.")]
    assert (reply.text, reply.warnings, str(reply.conversation_id)) == ("By ferry.", ["w"], CONVERSATION_ID)
    assert (str(reply.message_id), str(reply.audit_log_id)) == (JOB_ID, OTHER_ID)
    assert {one.path for one in server.received} == {"/api/v0/copilots/streamMessage"}
    assert len({one.headers["idempotency-key"] for one in server.received}) == 1
    assert {one.json["userEmail"] for one in server.received} == {"ada@example.com"}


async def test_connections_that_bring_nothing(person: Caller, server: Server) -> None:
    nothing = [streamed(cut=True)] * 6
    server.will(*nothing, streamed(event("delta", {"text": "By"}, "1-2"), cut=True), *nothing, telling())
    with pytest.raises(errors.APIConnectionError):
        await read(person)
    assert len(server.received) == 13
    assert len(person.naps) == 12
    assert person.naps[0] < person.naps[5] > person.naps[6]
    assert 10 < sum(person.naps[:6]) < 25


async def test_going_on_after_giving_up(person: Caller, server: Server) -> None:
    server.will(STARTED_JOB, *[streamed(cut=True)] * 7, telling())
    with pytest.raises(errors.ReplyConnectionError, match=JOB_ID) as caught:
        await person.walk(person.client.agents.stream(OTHER_ID, "How?"))
    error = caught.value
    assert (str(error.job_id), str(error.conversation_id)) == (JOB_ID, CONVERSATION_ID)
    assert isinstance(error.__cause__, httpx.RemoteProtocolError)
    assert not isinstance(error, errors.APITimeoutError)
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))
    assert told(await person.walk(person.client.agents.stream_response(error.job_id))) == TEXT


async def test_a_message_that_never_arrived(make_caller: MakeCaller) -> None:
    caller = make_caller(api_key=None, access_token=ACCESS_TOKEN, base_url="http://127.0.0.1:1")
    with pytest.raises(errors.APIConnectionError) as caught:
        await caller.walk(caller.client.agents.stream(OTHER_ID, "How?"))
    assert not isinstance(caught.value, errors.ReplyConnectionError)


async def test_a_service_that_falls_silent(make_caller, server, monkeypatch):
    monkeypatch.setattr("carrel._replies.SILENCE", 0.2)
    hasty = make_caller(api_key=None, access_token=ACCESS_TOKEN, max_retries=0, timeout=0.2)
    server.will(Endless())
    with pytest.raises(errors.ReplyTimeoutError, match="in time") as caught:
        await read(hasty)
    assert (str(caught.value.job_id), caught.value.conversation_id) == (JOB_ID, None)


async def test_who_wants_no_second_attempt(make_caller: MakeCaller, server: Server) -> None:
    hasty = make_caller(api_key=None, access_token=ACCESS_TOKEN, max_retries=0)
    server.will(telling(cut_at=200), telling())
    with pytest.raises(errors.APIConnectionError) as caught:
        await read(hasty)
    assert isinstance(caught.value.__cause__, httpx.RemoteProtocolError)
    assert len(server.received) == 1


async def test_a_service_that_is_away_for_a_while(make_caller: MakeCaller) -> None:
    with resetting() as address:
        caller = make_caller(api_key=None, access_token=ACCESS_TOKEN, base_url=address)
        with pytest.raises(errors.ReplyConnectionError, match=JOB_ID):
            await read(caller)
    assert len(caller.naps) == 6


@pytest.mark.parametrize(("job", "kind"), [(FAILED_JOB, "ReplyFailedError"), (WITHHELD_JOB, "ReplyWithheldError")])
async def test_no_reply(person: Caller, server: Server, job: dict[str, Any], kind: str) -> None:
    server.will(STARTED_JOB, streamed(event("failed", job, "1-0")))
    with pytest.raises(getattr(errors, kind)) as caught:
        await person.walk(person.client.agents.stream(OTHER_ID, "How?"))
    error = caught.value
    assert type(error).__name__ == kind
    assert (error.code, error.message) == (job["errorCode"], job["errorMessage"])
    assert (str(error.conversation_id), str(error.message_id)) == (CONVERSATION_ID, JOB_ID)


async def test_a_job_that_is_gone(person: Caller, server: Server) -> None:
    server.will(refuse(404, "job_not_found"), telling(cut_at=200), refuse(404, "job_not_found"))
    for _ in range(2):
        with pytest.raises(errors.NotFoundError):
            await read(person)
    assert len(server.received) == 3


async def test_signs_of_life_and_news(person: Caller, server: Server) -> None:
    oddities = [
        b": ping\n\n",
        b"event: weather\ndata: fine\n\n",
        b"retry: 5\n\n",
        b"data: {}\n\n",
        b'event: delta\r\ndata: {"te',
        b'xt":\r',
        b'\ndata: "By", "planet": "Mars"}\r\nid: 1-2\r\n',
        b"\r\n: ping\n\n\n\n",
        DONE,
    ]
    server.will(streamed(*oddities))
    items = await read(person)
    assert items[0] == TextDelta(text="By")
    assert [type(item) for item in items] == [TextDelta, Reply]


@pytest.mark.parametrize(
    "answer",
    [
        json_answer(COMPLETED_JOB),
        raw(b"<html>login</html>", headers={"content-type": "text/html"}),
        streamed(b"event: delta\ndata: nonsense\n\n"),
        streamed(b"event: completed\ndata: {}\n\n"),
        streamed(b"event: failed\n\n"),
    ],
)
async def test_what_is_no_stream_of_a_reply(person: Caller, server: Server, answer: Answer) -> None:
    server.will(answer)
    with pytest.raises(errors.UnexpectedResponseError, match="base_url"):
        await read(person)
    assert len(server.received) == 1


async def test_a_token_that_ends_meanwhile(make_caller: MakeCaller, server: Server) -> None:
    caller = make_caller(api_key=None, tokens=Counting())
    server.will(streamed(event("delta", {"text": TEXT[:9]}, "1-9")), refuse(401, "credential_expired"), telling())
    assert told(await read(caller)) == TEXT
    used = [request.headers["authorization"].removeprefix("Bearer ") for request in server.received]
    assert used == ["token-0", "token-0", "token-1"]
    assert positions(server) == [None, "1-9", "1-9"]


class Endless:
    """Sends a single event, then waits until the listener leaves."""

    def __init__(self, said: bytes = event("delta", {"text": "By"}, "1-2")) -> None:
        self.said = said
        self.left = threading.Event()

    def __call__(self, request: Request) -> StreamingResponse:
        return StreamingResponse(self._body(request), media_type="text/event-stream")

    async def _body(self, request: Request) -> AsyncIterator[bytes]:
        yield self.said
        try:
            while not await request.is_disconnected():  # noqa: ASYNC110 - nothing tells but asking
                await asyncio.sleep(0.01)
        finally:
            self.left.set()


@pytest.mark.parametrize(
    "leave",
    [lambda caller, stream: caller(lambda _: stream.close()), lambda caller, stream: caller.enter(stream)],
    ids=["close", "with"],
)
async def test_leaving_early(person: Caller, server: Server, leave: Callable[[Caller, Any], Any]) -> None:
    endless = Endless()
    server.will(endless)
    stream = person.client.agents.stream_response(JOB_ID)
    first = await anext(stream) if person.is_async else next(stream)
    assert first == TextDelta(text="By")
    assert not endless.left.is_set()
    assert await leave(person, stream) in {None, stream}
    assert await asyncio.to_thread(endless.left.wait, 10)
    assert await person.walk(stream) == []


async def test_breaking_off(person: Caller, server: Server) -> None:
    """A `break` is enough unless the stream is referenced elsewhere."""
    endless = Endless()
    server.will(endless)
    if person.is_async:
        async for _ in person.client.agents.stream_response(JOB_ID):
            break
    else:
        for _ in person.client.agents.stream_response(JOB_ID):
            break
    gc.collect()
    assert await asyncio.to_thread(endless.left.wait, 10)


async def test_being_cancelled(person: Caller, server: Server) -> None:
    if not person.is_async:
        pytest.skip("about tasks")
    endless = Endless()
    server.will(endless)
    heard = asyncio.Event()

    async def listen() -> None:
        async for _ in person.client.agents.stream_response(JOB_ID):
            heard.set()

    task = asyncio.create_task(listen())
    await asyncio.wait_for(heard.wait(), 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(endless.left.wait, 10)


async def test_the_reply_is_the_end(person: Caller, server: Server) -> None:
    endless = Endless(DONE)
    server.will(endless)
    stream = person.client.agents.stream_response(JOB_ID)
    reading = person.walk(stream) if person.is_async else asyncio.to_thread(list, stream)
    assert [type(item) for item in await asyncio.wait_for(reading, 10)] == [Reply]
    assert await asyncio.to_thread(endless.left.wait, 10)


async def test_two_readers_at_once(person: Caller, server: Server) -> None:
    server.will(*[telling(pace=1)] * 4)
    streams = [person.client.agents.stream_response(JOB_ID) for _ in range(4)]
    readings = await asyncio.gather(
        *(person.walk(stream) if person.is_async else asyncio.to_thread(list, stream) for stream in streams)
    )
    assert [told(items) for items in readings] == [TEXT] * 4
