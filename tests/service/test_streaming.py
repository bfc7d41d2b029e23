"""agents/streamAgentResponse: server-sent events from any position, and the end."""

import pytest

from service.domains.agents.answering.models import ModelFailure
from tests.harness.jobs import until
from tests.service import conversations
from tests.service.conversations import Event, Script, Visitor, Watch, a_reply, in_flight, passage, text_of
from tests.service.directory import a_user, code, done, on_rows
from tests.service.test_messages_v1 import answer_again


def job(visitor: Visitor) -> str:
    return done(visitor.send())["jobId"]


def watched(visitor: Visitor, job_id: str, last_event_id: str | None = None) -> list[Event]:
    with Watch(visitor, job_id, last_event_id=last_event_id) as watch:
        return list(watch)


def test_a_reply_is_watched_as_it_grows(visitor: Visitor, script: Script) -> None:
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


def test_a_stream_goes_on_from_every_event(visitor: Visitor, script: Script) -> None:
    job_id = job(visitor)
    with Watch(visitor, job_id) as watch:
        events: list[Event] = []
        for piece in ("Zw", "Zwölf ", "Zwölf Uhr 🕛", "Zwölf Uhr 🕛, then"):
            script.tell(piece)
            events.append(watch.next())
        watches = [Watch(visitor, job_id, last_event_id=event.id) for event in events]
        script.end(a_reply("Zwölf Uhr 🕛, then.\n"))
        events += watch
    whole = "Zwölf Uhr 🕛, then.\n"
    assert text_of(events) == whole
    assert len(events) == 6
    watches += [Watch(visitor, job_id, last_event_id=event.id) for event in events]
    for number, again in zip((0, 1, 2, 3, *range(6)), watches, strict=True):
        with again:
            rest = list(again)
        assert text_of(rest, text_of(events[: number + 1])) == whole
        assert rest[-1].kind == "completed"
    for sent in range(len(whole) + 1):
        assert text_of(watched(visitor, job_id, f"1-{sent}"), whole[:sent]) == whole


def test_a_job_that_began_anew_says_so(visitor: Visitor, script: Script) -> None:
    job_id = job(visitor)
    with Watch(visitor, job_id) as watch:
        script.tell("First try")
        assert watch.next().id == "1-9"
        again = conversations.in_background(lambda: answer_again(visitor.desk))
        script.tell("Second", number=1)
        script.end(a_reply("Second try"), number=1)
        again.result()
        events = list(watch)
    assert events[0] == Event("restarted", {}, "2-0")
    assert text_of(events, "First try") == "Second try"
    events = watched(visitor, job_id, "1-9")
    assert [one.kind for one in events] == ["restarted", "delta", "completed"]
    assert text_of(events, "First try") == "Second try"
    assert [one.kind for one in watched(visitor, job_id, "2-0")] == ["delta", "completed"]
    script.end(a_reply("Too late"))


def test_a_reply_that_becomes_another_text_says_so(visitor: Visitor, script: Script) -> None:
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
    assert text_of(watched(visitor, job_id, "2-12"), "At noon [[1:") == "At noon [1]"


def test_a_finished_job_is_watched_in_one_go(visitor: Visitor, script: Script) -> None:
    job_id = job(visitor)
    script.end(a_reply("At noon."))
    visitor.finished(job_id)
    assert [(one.kind, one.id) for one in watched(visitor, job_id)] == [("delta", "1-8"), ("completed", "1-8")]
    for forged in ("1-9999", "7-3", "0-1", "999999999-999999999"):
        assert text_of(watched(visitor, job_id, forged), "whatever") == "At noon.", forged
    for nonsense in ("x", "1", "1-", "-1", "1-2-3", "1-9999999999", "¹-2", "1 -2"):
        headers = {"Last-Event-ID": nonsense.encode()}
        refused = visitor.get("agents/streamAgentResponse", headers=headers, jobId=job_id)
        assert code(refused) == (400, "invalid_last_event_id"), nonsense


def test_a_job_that_fails_ends_its_stream(visitor: Visitor, script: Script) -> None:
    job_id = job(visitor)
    with Watch(visitor, job_id) as watch:
        script.tell("At")
        watch.next()
        script.end(ModelFailure("The model is away.", code="model_unavailable"))
        [failed] = list(watch)
    expected = {"status": "FAILED", "errorCode": "model_unavailable", "errorMessage": "The model is away."}
    assert (failed.kind, failed.data) == ("failed", expected)
    assert [(one.kind, one.data) for one in watched(visitor, job_id, failed.id)] == [("failed", expected)]
    assert visitor.fetch(job_id) == expected


@pytest.mark.parametrize("how", ["revoked", "expired", "deactivated"])
def test_a_token_that_stops_ends_the_stream(visitor: Visitor, script: Script, how: str) -> None:
    job_id = job(visitor)
    with Watch(visitor, job_id) as watch:
        script.tell("At")
        assert watch.next().kind == "delta"
        if how == "revoked":
            assert visitor.app.revoke(visitor.token).status_code == 200
        elif how == "expired":
            on_rows(visitor.desk.service, "UPDATE oauth_access_tokens SET expires_at = now() - interval '1 hour'")
        else:
            a_user(visitor.desk.service, conversations.ADA, active=False)
        assert list(watch) == []
    assert visitor.get("agents/streamAgentResponse", jobId=job_id).status_code == 401
    script.end(a_reply("At noon."))


def test_words_of_a_document_that_is_taken_away_are_not_sent(visitor: Visitor, script: Script) -> None:
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
    assert [one.kind for one in watched(visitor, job_id)] == ["failed"]
    assert desk.entries()[0]["details"]["status"] == "withheld"


def test_a_quiet_stream_shows_that_it_lives(visitor: Visitor, script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.domains.agents.conversations.streaming.HEARTBEAT_SECONDS", 0)
    with Watch(visitor, job(visitor)) as watch:
        assert next(watch.lines) == ": ping"
        script.end(a_reply("At noon."))
        assert [one.kind for one in watch] == ["delta", "completed"]


def test_who_hangs_up_leaves_nothing_behind(visitor: Visitor, script: Script) -> None:
    before = in_flight(visitor.desk.service)
    with Watch(visitor, job(visitor)) as watch:
        script.tell("At")
        watch.next()
    until(lambda: in_flight(visitor.desk.service) <= before)
    script.end(a_reply("At noon."))


def test_a_stopping_service_ends_streams_and_tells_who_waits(service_harness, monkeypatch) -> None:
    monkeypatch.setattr("service.domains.agents.conversations.streaming.STOPPING_SECONDS", 0)
    service, stack = service_harness.start()
    script = Script(service)
    monkeypatch.setattr("service.domains.agents.answering.answer", script)
    desk = conversations.a_desk(service)
    visitor = conversations.a_visitor(desk)
    with Watch(visitor, job(visitor)) as watch:
        script.tell("At")
        assert watch.next().kind == "delta"
        waiting = conversations.in_background(desk.send)
        script.scene(1)
        ending = service.loop.submit(stack.aclose())
        assert code(waiting.result()) == (503, "reply_delayed")
        assert list(watch) == []
    for number in range(2):
        script.end(a_reply("At noon."), number=number)
    ending.result(conversations.SECONDS)
