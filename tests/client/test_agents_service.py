"""Agents of the real service through the SDK, with every credential, over an unreliable network."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass

import pytest

from carrel import AsyncCarrel, Reply, TextDelta, errors
from carrel.wire.messages import RunningJob
from service.domains.agents.answering.models import ModelFailure
from tests.client.conftest import Caller, MakeCaller
from tests.client.test_reply_streams import told
from tests.harness.cutting import Network, cutting
from tests.harness.jobs import until
from tests.harness.services import RunningService, ServiceHarness
from tests.service import conversations
from tests.service.conversations import ADA, BEN, Desk, Script, a_desk, a_reply, a_visitor, in_background, passage
from tests.service.directory import done

PACE = 0.1
ASKED = "When does the ferry to Northlight leave?"
TEXT = "The ferry leaves at noon, says the timetable: “midi” in French, 正午 in Japanese. 🚢 Dogs travel free."


@dataclass(frozen=True)
class Standing:
    """A service per module, with Ada's access token; each test has its own agent."""

    service: RunningService
    token: str
    network: Network


@pytest.fixture(scope="module")
def standing(service_harness: ServiceHarness) -> Iterator[Standing]:
    with service_harness.running(rate_limit_requests=0) as service, cutting(service.base_url) as network:
        yield Standing(service, a_visitor(a_desk(service, "Lobby")).token, network)


@pytest.fixture
def desk(standing: Standing, request: pytest.FixtureRequest) -> Desk:
    return a_desk(standing.service, request.node.name)


@pytest.fixture
def script(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Script:
    """The scripted model; progress is written at once, and polled often."""
    return conversations.take_answers(desk.service, monkeypatch)


@pytest.fixture
def network(standing: Standing) -> Network:
    """The network between client and service, at first intact."""
    standing.network.cut()
    standing.network.allowed.clear()
    standing.network.cuts = 0
    return standing.network


@pytest.fixture
def make(network: Network, open_client: MakeCaller) -> MakeCaller:
    """Make clients in the run's mode, over the network, with short pauses."""
    return lambda **options: open_client(base_url=network.base_url, pace=PACE, **options)


@pytest.fixture
def program(make: MakeCaller, standing: Standing) -> Caller:
    return make(api_key=standing.service.api_key)


@pytest.fixture
def person(make: MakeCaller, standing: Standing) -> Caller:
    return make(access_token=standing.token)


def said_to(desk: Desk) -> int:
    return sum(entry["details"]["agentId"] == desk.agent_id for entry in desk.entries())


def reading(caller: Caller, desk: Desk, heard: list) -> "Future[list]":
    async def read() -> None:
        async with Caller(AsyncCarrel(**_as(caller)), pace=PACE).client as client:
            async for item in client.agents.stream(desk.agent_id, ASKED):
                heard.append(item)  # noqa: PERF401 - the test looks on

    def work() -> list:
        if caller.is_async:
            asyncio.run(read())
        else:
            heard.extend(caller.client.agents.stream(desk.agent_id, ASKED))
        return heard

    return in_background(work)


def _as(caller: Caller) -> dict:
    connection = caller.client._session.connection
    bearer = connection.headers.get("Authorization", "").removeprefix("Bearer ")
    credential = {"api_key": bearer} if connection.tokens is None else {"tokens": connection.tokens}
    return {"base_url": connection.base_url, **credential}


async def test_a_conversation_by_every_credential(program: Caller, person: Caller, desk: Desk) -> None:
    for caller in (program, person):
        first: Reply = await caller(lambda c: c.agents.send_and_wait(desk.agent_id, ASKED))
        assert "leaves at noon" in first.text
        assert [(str(one.id), one.name) for one in first.sources] == [(desk.document_id, "Ferries")]
        assert all(one.quote in conversations.FERRY for one in first.sources)
        again: Reply = await caller(
            lambda c, first=first: c.agents.send_and_wait(
                desk.agent_id, "Do dogs travel free of charge?", conversation_id=first.conversation_id
            )
        )
        assert again.conversation_id == first.conversation_id
        assert "Dogs travel free" in again.text
        kept = await caller(
            lambda c, again=again: c.agents.provide_message_feedback(
                desk.agent_id, again.message_id, "POSITIVE", descriptive_feedback="Short"
            )
        )
        assert desk.entries("agent.feedback")[0]["auditLogId"] == str(kept.audit_log_id)
        assert again.audit_log_id
    assert said_to(desk) == 4


async def test_what_a_person_has(person: Caller, desk: Desk) -> None:
    me = await person(lambda c: c.me())
    assert (me.email, me.scopes) == (ADA, ["api:agent:message:*"])
    agents = await person.walk(person.client.agents.list(page_size=1))
    assert len(agents) > 1
    assert str(agents[-1].agent_id) == desk.agent_id
    assert (agents[-1].starter_questions, agents[-1].answers_searches) == (None, None)
    desk.update(starterQuestions=[ASKED], answersSearches=True)
    changed = await person.walk(person.client.agents.list())
    assert (changed[-1].starter_questions, changed[-1].answers_searches) == ([ASKED], True)
    first = await person(lambda c: c.agents.send_and_wait(desk.agent_id, ASKED))
    await person(lambda c: c.agents.send_and_wait(desk.agent_id, "And dogs?", conversation_id=first.conversation_id))
    await person(lambda c: c.agents.send_and_wait(desk.agent_id, "Where is Ben?"))
    rows = await person.walk(person.client.conversations.list(agent_id=desk.agent_id, page_size=1))
    assert [(row.title, row.message_count) for row in rows] == [("Where is Ben?", 1), (ASKED, 2)]
    said = await person.walk(person.client.conversations.get(first.conversation_id, page_size=1))
    assert [one.message for one in said] == [ASKED, "And dogs?"]
    assert (said[0].agent_response_text, said[0].referenced_sources) == (first.text, first.sources)


async def test_as_a_user(program: Caller, desk: Desk) -> None:
    done(desk.service.call("admin/users/upsert", {"users": [{"email": BEN}]}))
    desk.share()
    mine = await program(lambda c: c.agents.send_and_wait(desk.agent_id, ASKED))
    bens = await program(lambda c: c.agents.send_and_wait(desk.agent_id, ASKED, user_email=BEN))
    assert len(mine.sources) == 1
    assert bens.sources == []
    assert "noon" not in bens.text


async def test_who_may_not(program: Caller, person: Caller, desk: Desk) -> None:
    desk.update(apiAccessEnabled=False)
    with pytest.raises(errors.PermissionDeniedError) as caught:
        await program(lambda c: c.agents.send_and_wait(desk.agent_id, ASKED))
    assert caught.value.code == "api_access_off"
    assert await person(lambda c: c.agents.send_and_wait(desk.agent_id, ASKED))
    desk.deploy()
    for caller in (program, person):
        with pytest.raises(errors.NotFoundError) as gone:
            await caller(lambda c: c.agents.send_and_wait(desk.agent_id, ASKED))
        assert gone.value.code == "agent_not_found"
    assert desk.agent_id not in [str(one.agent_id) for one in await person.walk(person.client.agents.list())]


@pytest.mark.parametrize(
    "cut_every", [pytest.param(330, marks=pytest.mark.long), 400, pytest.param(700, marks=pytest.mark.long)]
)
async def test_the_text_over_a_network_that_breaks(person, desk, script, network, cut_every):
    heard: list = []
    network.allowed.extend([900, *[cut_every + number for number in range(4)]])
    finished = reading(person, desk, heard)
    for end in range(5, len(TEXT), 5):
        script.tell(TEXT[:end])
    script.end(a_reply(TEXT, passage(desk.document_id), cited=[0]))
    items = await asyncio.to_thread(finished.result, 120)
    assert told(items) == TEXT
    assert [type(item) for item in items].count(Reply) == 1
    assert items[-1].text == TEXT
    assert str(items[-1].sources[0].id) == desk.document_id
    assert network.cuts >= 2
    assert said_to(desk) == 1


async def test_cut_while_nothing_is_said(program, person, desk, script, network):
    for number, caller in enumerate((program, person)):
        heard: list = []
        finished = reading(caller, desk, heard)
        script.tell("The ferry", number=number)
        until(lambda heard=heard: told(heard) == "The ferry")
        network.cut()
        script.tell("The ferry leaves", number=number)
        until(lambda heard=heard: told(heard) == "The ferry leaves")
        network.cut()
        script.end(a_reply("The ferry leaves.", passage(desk.document_id), cited=[0]), number=number)
        *growth, reply = await asyncio.to_thread(finished.result, 120)
        assert {type(one) for one in growth} == {TextDelta}
        assert told(growth) == reply.text == "The ferry leaves."
        assert [str(one.id) for one in reply.sources] == [desk.document_id]
        assert str(reply.audit_log_id) == desk.entries("agent.message")[0]["auditLogId"]
        assert said_to(desk) == number + 1


async def test_a_message_whose_answer_was_lost(program: Caller, person: Caller, desk: Desk, network: Network) -> None:
    for number, caller in enumerate((program, person), 1):
        await caller(lambda c: c.agents.send_and_wait(desk.agent_id, ASKED))
        network.cut()
        network.allowed.append(10)
        await caller(lambda c: c.agents.send_and_wait(desk.agent_id, ASKED))
        assert network.allowed == type(network.allowed)()
        assert said_to(desk) == 2 * number


async def test_a_job_that_goes_on_by_itself(person: Caller, desk: Desk, script: Script) -> None:
    with pytest.raises(errors.ReplyTimeoutError) as caught:
        await person(lambda c: c.agents.send_and_wait(desk.agent_id, ASKED, timeout=0.5))
    job_id = caught.value.job_id
    script.tell("The ferry")
    assert await person(lambda c: c.agents.fetch_response(job_id)) == RunningJob(partial_text="The ferry")
    script.end(a_reply("The ferry leaves."))
    items = await person.walk(person.client.agents.stream_response(job_id))
    assert told(items) == items[-1].text == "The ferry leaves."


async def test_a_model_without_a_reply(make: MakeCaller, standing: Standing, desk: Desk, script: Script) -> None:
    said = ModelFailure("The model is away. Send it again.", retry_after=0)
    program = make(api_key=desk.service.api_key, max_retries=1)
    person = make(access_token=standing.token)
    numbers = iter(range(9))

    async def failing(operation) -> errors.ReplyFailedError:
        failure = in_background(lambda: script.end(said, number=next(numbers)))
        with pytest.raises(errors.ReplyFailedError) as caught:
            await operation
        await asyncio.to_thread(failure.result, 60)
        return caught.value

    ways = [
        program(lambda c: c.agents.send_and_wait(desk.agent_id, ASKED)),
        person(lambda c: c.agents.send_and_wait(desk.agent_id, ASKED)),
        person.walk(person.client.agents.stream(desk.agent_id, ASKED)),
        program.walk(program.client.agents.stream(desk.agent_id, ASKED)),
    ]
    for operation in ways:
        error = await failing(operation)
        assert (error.code, error.message) == ("model_unavailable", said.message)


async def test_a_reply_that_is_withheld(program: Caller, person: Caller, desk: Desk, script: Script) -> None:
    replies = in_background(
        lambda: [
            script.end(a_reply("At noon [1].", passage(desk.document_id), cited=[0]), number=number)
            for number in range(4)
        ]
    )
    desk.share()
    send = {"agent_id": desk.agent_id, "message": ASKED}
    for operation in (
        program(lambda c: c.agents.send_and_wait(**send, user_email=ADA)),
        person(lambda c: c.agents.send_and_wait(**send)),
        person.walk(person.client.agents.stream(**send)),
        program.walk(program.client.agents.stream(**send, user_email=ADA)),
    ):
        with pytest.raises(errors.ReplyWithheldError) as caught:
            await operation
        assert caught.value.code == "reply_withheld"
        assert "noon" not in str(caught.value)
    await asyncio.to_thread(replies.result, 60)


async def test_a_token_that_is_revoked_meanwhile(make: MakeCaller, desk: Desk, script: Script) -> None:
    visitor = a_visitor(desk)
    heard: list = []
    finished = reading(make(access_token=visitor.token), desk, heard)
    script.tell("The ferry")
    until(lambda: heard == [TextDelta(text="The ferry")])
    visitor.app.post("revoke", token=visitor.token)
    with pytest.raises(errors.AuthenticationError):
        await asyncio.to_thread(finished.result, 120)
    script.end(a_reply("The ferry leaves."))
