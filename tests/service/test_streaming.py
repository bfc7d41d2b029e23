"""agents/streamAgentResponse: server-sent events from wherever a client left off, and their end."""

import time

import pytest

from service.domains.answering import ModelFailure
from tests.harness.services import ServiceHarness
from tests.oauth.flow import later
from tests.service.conversations import (
    ADA,
    SECONDS,
    Desk,
    Event,
    Script,
    Visitor,
    Watch,
    a_desk,
    a_reply,
    a_visitor,
    in_background,
    passage,
    text_of,
)
from tests.service.directory import a_user, code, done
from tests.service.test_messages_v1 import answer_again


@pytest.fixture
def visitor(desk: Desk) -> Visitor:
    """Somebody with a token for messages."""
    return a_visitor(desk)


def job(visitor: Visitor) -> str:
    """A job that has begun."""
    return done(visitor.send())["jobId"]


def test_a_reply_is_watched_as_it_grows(visitor: Visitor, script: Script) -> None:
    """Deltas whose ids say how much there is, then what fetching gives; nobody on the way may keep them back."""
    job_id = job(visitor)
    with Watch(visitor, job_id) as watch:
        assert watch.response.headers["Content-Type"] == "text/event-stream; charset=utf-8"
        assert watch.response.headers["Cache-Control"] == "no-store"
        assert watch.response.headers["X-Accel-Buffering"] == "no"
        script.tell("At")
        assert watch.next() == Event("delta", {"text": "At"}, "1-2")
        script.tell("At noon\n\n→ or so 🚢")
        assert watch.next() == Event("delta", {"text": " noon\n\n→ or so 🚢"}, "1-18")
        script.end(a_reply("At noon\n\n→ or so 🚢."))
        delta, completed = list(watch)
    assert delta == Event("delta", {"text": "."}, "1-19")
    assert completed == Event("completed", visitor.fetch(job_id), "1-19")
    assert completed.data["status"] == "COMPLETED"


def test_a_finished_job_is_watched_in_one_go(visitor: Visitor, script: Script) -> None:
    """All of the text, and the end."""
    job_id = job(visitor)
    script.end(a_reply("At noon."))
    visitor.finished(job_id)
    with Watch(visitor, job_id) as watch:
        assert [(one.kind, one.id) for one in watch] == [("delta", "1-8"), ("completed", "1-8")]


def test_a_stream_goes_on_from_every_event(visitor: Visitor, script: Script) -> None:
    """Whoever comes again with the id of any event has exactly the same text in the end."""
    job_id = job(visitor)
    pieces = ["Zw", "Zwölf ", "Zwölf Uhr 🕛", "Zwölf Uhr 🕛, then"]
    with Watch(visitor, job_id) as watch:
        events: list[Event] = []
        for piece in pieces:
            script.tell(piece)
            events.append(watch.next())
        script.end(a_reply("Zwölf Uhr 🕛, then.\n"))
        events += watch
    whole = "Zwölf Uhr 🕛, then.\n"
    assert text_of(events) == whole
    assert len(events) == 6
    for number, event in enumerate(events):
        with Watch(visitor, job_id, last_event_id=event.id) as watch:
            rest = list(watch)
        assert text_of(rest, text_of(events[: number + 1])) == whole
        assert rest[-1].kind == "completed"
    for sent in range(len(whole) + 1):
        with Watch(visitor, job_id, last_event_id=f"1-{sent}") as watch:
            assert text_of(watch, whole[:sent]) == whole


def test_a_job_that_began_anew_says_so(visitor: Visitor, script: Script) -> None:
    """What was sent is void, for who watches and for who comes again."""
    job_id = job(visitor)
    with Watch(visitor, job_id) as watch:
        script.tell("First try")
        assert watch.next().id == "1-9"
        again = in_background(lambda: answer_again(visitor.desk))
        script.tell("Second", number=1)
        script.end(a_reply("Second try"), number=1)
        again.result()
        events = list(watch)
    assert events[0] == Event("restarted", {}, "2-0")
    assert text_of(events, "First try") == "Second try"
    with Watch(visitor, job_id, last_event_id="1-9") as watch:
        events = list(watch)
    assert [one.kind for one in events] == ["restarted", "delta", "completed"]
    assert text_of(events, "First try") == "Second try"
    with Watch(visitor, job_id, last_event_id="2-0") as watch:
        assert [one.kind for one in watch] == ["delta", "completed"]
    script.end(a_reply("Too late"))


def test_a_reply_that_becomes_another_text_says_so(visitor: Visitor, script: Script) -> None:
    """While it is made, and at its end: an attempt's text only grows."""
    job_id = job(visitor)
    with Watch(visitor, job_id) as watch:
        script.tell("At twelve")
        assert watch.next() == Event("delta", {"text": "At twelve"}, "1-9")
        script.tell("At noon [[1:")
        assert watch.next() == Event("restarted", {}, "2-0")
        assert watch.next() == Event("delta", {"text": "At noon [[1:"}, "2-12")
        script.end(a_reply("At noon [1]"))
        events = list(watch)
    assert [(one.kind, one.id) for one in events] == [("restarted", "3-0"), ("delta", "3-11"), ("completed", "3-11")]
    with Watch(visitor, job_id, last_event_id="2-12") as watch:
        assert text_of(watch, "At noon [[1:") == "At noon [1]"


def test_an_id_that_was_never_given(visitor: Visitor, script: Script) -> None:
    """What fits nothing begins anew, since whatever the client has is void; what is no id is 400."""
    job_id = job(visitor)
    script.end(a_reply("At noon."))
    visitor.finished(job_id)
    for forged in ("1-9999", "7-3", "0-1", "999999999-999999999"):
        with Watch(visitor, job_id, last_event_id=forged) as watch:
            assert text_of(watch, "whatever") == "At noon.", forged
    for nonsense in ("x", "1", "1-", "-1", "1-2-3", "1-9999999999", "¹-2", "1 -2"):
        headers = {"Last-Event-ID": nonsense.encode()}
        refused = visitor.get("agents/streamAgentResponse", headers=headers, jobId=job_id)
        assert code(refused) == (400, "invalid_last_event_id"), nonsense


def test_a_job_that_fails_ends_its_stream(visitor: Visitor, script: Script) -> None:
    """With why, also for who comes later."""
    job_id = job(visitor)
    with Watch(visitor, job_id) as watch:
        script.tell("At")
        watch.next()
        script.end(ModelFailure("The model is away.", code="model_unavailable"))
        [failed] = list(watch)
    expected = {"status": "FAILED", "errorCode": "model_unavailable", "errorMessage": "The model is away."}
    assert (failed.kind, failed.data) == ("failed", expected)
    with Watch(visitor, job_id, last_event_id=failed.id) as watch:
        assert [(one.kind, one.data) for one in watch] == [("failed", expected)]


@pytest.mark.parametrize("how", ["revoked", "expired", "deactivated"])
def test_a_token_that_stops_ends_the_stream(visitor: Visitor, script: Script, how: str) -> None:
    """Nothing more is sent; coming again is 401. The job goes on."""
    job_id = job(visitor)
    with Watch(visitor, job_id) as watch:
        script.tell("At")
        assert watch.next().kind == "delta"
        if how == "revoked":
            assert visitor.app.revoke(visitor.token).status_code == 200
        elif how == "expired":
            later(visitor.desk.service, hours=2)
        else:
            a_user(visitor.desk.service, ADA, active=False)
        assert list(watch) == []
    assert visitor.get("agents/streamAgentResponse", jobId=job_id).status_code == 401
    script.end(a_reply("At noon."))


def test_words_of_a_document_that_is_taken_away_are_not_sent(visitor: Visitor, script: Script) -> None:
    """Neither what is new nor, to who comes later, what was sent; the end is that the reply is withheld."""
    desk = visitor.desk
    job_id = job(visitor)
    with Watch(visitor, job_id) as watch:
        script.tell("At", passage(desk.document_id))
        assert watch.next() == Event("delta", {"text": "At"}, "1-2")
        desk.share()
        script.tell("At noon", passage(desk.document_id))
        assert visitor.fetch(job_id) == {"status": "RUNNING"}
        script.end(a_reply("At noon.", passage(desk.document_id)))
        [failed] = list(watch)
    assert (failed.kind, failed.data["errorCode"]) == ("failed", "reply_withheld")
    with Watch(visitor, job_id) as watch:
        assert [one.kind for one in watch] == ["failed"]
    assert desk.entries()[0]["details"]["status"] == "withheld"


def test_a_quiet_stream_shows_that_it_lives(visitor: Visitor, script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    """By comments, which no client takes for events."""
    monkeypatch.setattr("service.domains.conversations.streaming.HEARTBEAT_SECONDS", 0)
    with Watch(visitor, job(visitor)) as watch:
        assert next(watch.lines) == ": ping"
        script.end(a_reply("At noon."))
        assert [one.kind for one in watch] == ["delta", "completed"]


def test_who_hangs_up_leaves_nothing_behind(visitor: Visitor, script: Script) -> None:
    """The stream's work ends with its connection, however quiet it is."""
    with Watch(visitor, job(visitor)) as watch:
        script.tell("At")
        watch.next()
        assert in_flight(visitor) == 2
    deadline = time.monotonic() + SECONDS
    while in_flight(visitor) > 1:
        assert time.monotonic() < deadline
    script.end(a_reply("At noon."))


def in_flight(visitor: Visitor) -> float:
    """How many requests are being answered, this question among them."""
    lines = visitor.desk.service.http.get("/metrics").text.splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("carrel_requests_in_flight "))


def test_a_stopping_service_does_not_wait_for_streams(
    service_harness: ServiceHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They end in good order, without an end of the job; whoever watches comes again, here or elsewhere."""
    service, stack = service_harness.start()
    script = Script(service)
    monkeypatch.setattr("service.domains.answering.answer", script)
    visitor = a_visitor(a_desk(service))
    with Watch(visitor, job(visitor)) as watch:
        script.tell("At")
        assert watch.next().kind == "delta"
        service_harness.stop(service, stack)
        assert list(watch) == []


def test_a_stopping_service_tells_who_waits(service_harness: ServiceHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """On v0: the reply is not there yet, and how to go on waiting for it."""
    monkeypatch.setattr("service.domains.conversations.waiting.STOPPING_SECONDS", 0)
    service, stack = service_harness.start()
    script = Script(service)
    monkeypatch.setattr("service.domains.answering.answer", script)
    desk = a_desk(service)
    waiting = in_background(desk.send)
    script.scene()
    ending = service.loop.submit(stack.aclose())
    assert code(waiting.result()) == (503, "reply_delayed")
    ending.result(SECONDS)


def test_everybody_in_a_crowd_gets_the_same(visitor: Visitor, script: Script) -> None:
    """Several who watch one job, each from another point."""
    job_id = job(visitor)
    script.tell("At noon")
    watches = [Watch(visitor, job_id, last_event_id=last) for last in (None, "1-0", "1-3", "1-7")]
    script.end(a_reply("At noon."))
    known = ["", "", "At ", "At noon"]
    assert [text_of(watch, had) for watch, had in zip(watches, known, strict=True)] == ["At noon."] * 4
    for watch in watches:
        watch.__exit__()
