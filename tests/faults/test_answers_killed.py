"""A service killed while answering or sending an alert."""

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from uuid import uuid4

import httpx
import pytest

from tests.faults.points import KILLS, share_points
from tests.harness.databases import connect
from tests.harness.jobs import until
from tests.harness.model_server import KEY, MODEL, ModelServer, calls, passages_in, repeats_slowly, says, serving_model
from tests.harness.processes import ServiceProcess
from tests.harness.receivers import receiving
from tests.oauth.flow import a_person, an_app
from tests.service.conversations import MESSAGES, Desk, Visitor, a_desk, in_background
from tests.service.directory import done

SEARCH = calls("search_passages", query="ferry to Northlight")
REPLY = says('It leaves at noon [[1: "leaves at noon"]].')
TEXT = "It leaves at noon [1]."
SECONDS = 120
Kill = Callable[[ServiceProcess], None]


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with serving_model() as model:
        yield model


@pytest.fixture
def process(model: ModelServer) -> Iterator[ServiceProcess]:
    with closing(
        ServiceProcess(CARREL_MODEL_URL=model.url, CARREL_MODEL_API_KEY=KEY, CARREL_MODEL_NAMES=MODEL)
    ) as process:
        process.start()
        yield process


@pytest.fixture
def never() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def stored(process: ServiceProcess) -> tuple[list, int]:
    with connect(process.database_server().url(user="postgres")) as connection:
        turns = connection.execute("SELECT status, attempt > 1, reply FROM turns").fetchall()
        jobs = connection.execute("SELECT count(*) FROM procrastinate_jobs").fetchone()
    assert jobs is not None
    return turns, jobs[0]


def signed_in(desk: Desk) -> Visitor:
    app, person = an_app(desk.service), a_person(desk.service)
    with person.http:
        return Visitor(desk, person.tokens(app, scope=MESSAGES)["access_token"], app)


def test_a_message_on_v1_is_answered_once(process: ServiceProcess, model: ModelServer, never: threading.Event) -> None:
    """kill -9 while its job is RUNNING with half the reply shown: a single reply and audit entry result."""
    desk: Desk = a_desk(process)
    visitor = signed_in(desk)
    model.in_turn(SEARCH, repeats_slowly("It leaves at dawn. ", until=never))
    sent = done(visitor.send())
    until(lambda: "dawn" in visitor.fetch(sent["jobId"]).get("partialText", ""))
    process.kill()
    model.in_turn(SEARCH, REPLY)
    process.start()
    job = visitor.finished(sent["jobId"])
    assert job["status"] == "COMPLETED"
    assert job["result"]["agentResponseText"] == TEXT
    assert job["result"]["messageId"] == sent["jobId"]
    assert [source["quote"] for source in job["result"]["referencedSources"]] == ["leaves at noon"]
    until(lambda: stored(process) == ([("COMPLETED", True, TEXT)], 0))
    assert len(model.requests) == 4
    [entry] = desk.entries()
    assert entry["auditLogId"] == job["result"]["auditLogId"]
    # The next one of the conversation, whose turns are answered one after the other, isn't held up.
    model.in_turn(SEARCH, REPLY)
    assert visitor.ask("And back?", conversation_id=sent["conversationId"])["status"] == "COMPLETED"


@pytest.mark.long
def test_a_message_on_v0_is_answered_once(process: ServiceProcess, model: ModelServer, never: threading.Event) -> None:
    """After a lost connection the sender repeats the Idempotency-Key, and gets the same reply."""
    desk: Desk = a_desk(process)
    model.in_turn(SEARCH, repeats_slowly("It leaves at dawn. ", until=never))
    body = {"agentId": desk.agent_id, "message": "When does the ferry leave?"}

    def send() -> httpx.Response:
        return process.http.post(
            "/api/v0/copilots/sendMessage", json=body, headers={"Idempotency-Key": "asked-once"}, timeout=60
        )

    lost = in_background(send)
    until(lambda: len(model.requests) == 2)
    process.kill()
    with pytest.raises(httpx.TransportError):
        lost.result(60)
    model.in_turn(SEARCH, REPLY)
    process.start()
    assert done(send())["sendChatResult"]["response"]["message"] == TEXT
    until(lambda: stored(process) == ([("COMPLETED", True, TEXT)], 0))
    assert len(model.requests) == 4
    assert len(desk.entries()) == 1


def finish(visitor: Visitor, job_id: str) -> dict:
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        with suppress(httpx.TransportError):
            answer = visitor.get("agents/fetchAgentResponse", jobId=job_id)
            if answer.status_code == 200 and answer.json()["status"] != "RUNNING":
                return answer.json()
        time.sleep(0.1)
    raise AssertionError(job_id)


def reply_and_kill(process: ServiceProcess, model: ModelServer, kills: Sequence[Kill], *, dice: random.Random) -> None:
    """Kill a part at a random moment of each reply; each message gets a single reply and audit log entry."""
    desk: Desk = a_desk(process)
    visitor = signed_in(desk)
    for number, kill in enumerate(kills, 1):
        going_on = threading.Event()
        begins = repeats_slowly("It leaves at dawn. ", until=going_on)
        model.script = lambda request, begins=begins: begins if passages_in(request) else SEARCH
        sent = done(visitor.send())
        time.sleep(dice.uniform(0, 1))
        kill(process)
        model.script = lambda request: REPLY if passages_in(request) else SEARCH
        going_on.set()
        job = finish(visitor, sent["jobId"])
        assert (job["status"], job["result"]["agentResponseText"]) == ("COMPLETED", TEXT), (number, job)
        until(lambda number=number: len(desk.entries()) == number)
    until(lambda: stored(process)[1] == 0)
    assert [(status, reply) for status, _, reply in stored(process)[0]] == [("COMPLETED", TEXT)] * len(kills)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_the_same_at_many_more_moments(process: ServiceProcess, model: ModelServer) -> None:
    kills = [kill for kill, points in share_points(KILLS).items() for _ in range(points)]
    reply_and_kill(process, model, kills, dice=random.Random(3))  # noqa: S311 - no secret


@pytest.mark.long
@pytest.mark.timeout(120)
def test_a_message_survives_the_death_of_its_sender(service_process) -> None:
    service = service_process(CARREL_WEBHOOK_ALLOWED_HOSTS="127.0.0.1", CARREL_WORKERS="1")
    with receiving() as receiver:
        receiver.open.clear()
        done(service.call("admin/alertRules/create", {"kinds": ["RUN_FAILED"], "webhookUrl": receiver.url}))
        run = {"runId": str(uuid4()), "subject": "x", "flow": "bulk-upload", "source": "/srv/x", "outcome": "FAILED"}
        done(service.call("alerts/reportRun", run))
        until(lambda: len(receiver.posts) == 1)
        service.kill()
        receiver.open.set()
        service.start()
        until(lambda: len(receiver.posts) == 2)
        (first, body), (second, again) = receiver.posts
        assert body == again
        assert first["webhook-id"] == second["webhook-id"]
        until(lambda: done(service.call("admin/alertRules/listDeliveries"))["deliveries"][0]["status"] == "DELIVERED")
