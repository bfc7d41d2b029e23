"""Schedules that people make, on a real Prefect server."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from prefect.server.schemas.schedules import CronSchedule

from flows.deployments import TAG
from flows.runs import NotServedError, Runs
from flows.schedules import (
    ChangedMeanwhileError,
    Draft,
    InvalidScheduleError,
    InvalidTimesError,
    Times,
    add_schedule,
    change_schedule,
    check_times,
    delete_schedule,
    list_schedules,
    look_at,
    next_times,
    pause_schedule,
    resume_schedule,
    run_schedule,
)
from tests.flows.serving import deploy, schedule_named, waiting_runs
from tests.harness.cases import cases

EVERY_MINUTE = Times("* * * * *")
ADA, BEN = "ada@example.com", "ben@example.com"


@pytest.fixture(scope="module")
async def served(withdrawn: None) -> None:
    """The upload flow is offered, so that schedules can be kept; nothing carries them out."""
    del withdrawn
    await deploy("carrel", tags=[TAG])


def _draft(source: str, times: Times = EVERY_MINUTE, *, name: str = "Handbook") -> Draft:
    return Draft(name, "bulk-upload", {"source": source, "options": {}}, times)


@pytest.mark.usefixtures("served")
def test_it_is_changed_and_started_by_hand(schedules: Runs) -> None:
    """A change keeps what was paused and who made it; a run by hand has the parameters, and counts as the last one."""
    mondays, tuesdays = Times("0 2 * * 1", "Europe/Berlin"), Times("0 2 * * 2", "Europe/Berlin")
    add_schedule(schedules, _draft("/srv/one", tuesdays), person=ADA)
    pause_schedule(schedules, schedule_named(schedules))
    change_schedule(schedules, schedule_named(schedules), _draft("/srv/two", mondays), person=BEN)
    changed = schedule_named(schedules)
    assert changed.parameters == {"source": "/srv/two", "options": {}}
    assert (changed.times, changed.paused) == ([mondays], True)
    assert changed.label is not None
    assert (changed.label.made_by, changed.label.changed_by) == (ADA, BEN)
    run = run_schedule(schedules, changed, person=BEN, key="once")
    assert run_schedule(schedules, changed, person=BEN, key="once") == run
    last = look_at(schedules, [changed])[changed.key].last
    assert last is not None
    assert (last.flow_run_id, last.person, last.source) == (run, BEN, "/srv/two")


@pytest.mark.usefixtures("served")
def test_of_two_who_change_it_at_once_the_last_is_told(schedules: Runs) -> None:
    """Nothing of the first change is lost, by a change or a deletion of what was read before it."""
    add_schedule(schedules, _draft("/srv/one"), person=ADA)
    read = schedule_named(schedules)
    change_schedule(schedules, read, _draft("/srv/two"), person=BEN)
    with pytest.raises(ChangedMeanwhileError, match=BEN):
        change_schedule(schedules, read, _draft("/srv/three"), person=ADA)
    with pytest.raises(ChangedMeanwhileError, match=BEN):
        delete_schedule(schedules, read)
    assert schedule_named(schedules).parameters["source"] == "/srv/two"
    delete_schedule(schedules, schedule_named(schedules))
    for change in (pause_schedule, resume_schedule):
        with pytest.raises(ChangedMeanwhileError, match="deleted"):
            change(schedules, read)
    assert not list_schedules(schedules)


@pytest.mark.usefixtures("served")
def test_one_made_twice_is_one_and_a_deletion_leaves_others(schedules: Runs) -> None:
    """A form that is sent twice makes one schedule; deleting one leaves the next runs of another."""
    first = add_schedule(schedules, _draft("/srv/one"), key="form")
    assert add_schedule(schedules, _draft("/srv/one"), key="form") == first
    add_schedule(schedules, _draft("/srv/two", name="Reports"))
    assert len(list_schedules(schedules)) == 2
    delete_schedule(schedules, schedule_named(schedules))
    assert waiting_runs(schedules, schedule_named(schedules, "Reports"))


@pytest.mark.usefixtures("served")
@pytest.mark.parametrize("source", ["s3://key:hush@bucket/p", "https://host/p?token=hush"])
def test_what_prefect_would_show_is_refused(schedules: Runs, source: str) -> None:
    """An address with a credential is not kept, nor repeated by the message; so is a schedule without a name."""
    with pytest.raises(InvalidScheduleError) as raised:
        add_schedule(schedules, _draft(source))
    assert "hush" not in str(raised.value)
    with pytest.raises(InvalidScheduleError, match="name"):
        add_schedule(schedules, _draft("/srv/one", name=" "))
    assert not list_schedules(schedules)


def test_nothing_is_kept_or_started_where_nobody_serves(prefect_api: str) -> None:
    with Runs(prefect_api) as runs:
        with pytest.raises(NotServedError, match="flows serve"):
            add_schedule(runs, Draft("x", "no-such-flow", {}, EVERY_MINUTE))
        with pytest.raises(NotServedError, match="python -m flows serve"):
            runs.start("no-such-flow", {})


@pytest.mark.parametrize(("cron", "timezone", "words"), cases("times_that_are_none_are_said"))
def test_times_that_are_none_are_said(cron: str, timezone: str, words: str) -> None:
    with pytest.raises(InvalidTimesError, match=words):
        check_times(Times(cron, timezone))


@pytest.mark.parametrize("cron", ["*/15 * * * *", "0 2 * * *", "30 6 * * 1-5", "0 4 1 * *", "@daily", "0 0 13 * 5"])
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata"])
async def test_the_times_shown_are_those_that_prefect_runs(cron: str, zone: str) -> None:
    """What the form tells of a schedule before it is kept is what Prefect makes of it, when the clocks go back too."""
    after = datetime(2026, 10, 24, 12, 7, 30, tzinfo=UTC)
    theirs = await CronSchedule(cron=cron, timezone=zone).get_dates(5, start=after)
    ours = next_times([Times(cron, zone)], 5, after=after)
    assert [f"{at.astimezone(ZoneInfo(zone)):%c}" for at in ours] == [f"{at:%c}" for at in theirs]
    assert timedelta(0) < ours[0] - after
