"""Schedules that people make, on a real Prefect server with `python -m flows serve`."""

import asyncio
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from prefect.server.schemas.schedules import CronSchedule

from flows.prefect_api import NotServedError
from flows.runs import Runs
from flows.schedule_changes import (
    ChangedMeanwhileError,
    Draft,
    InvalidScheduleError,
    add_schedule,
    change_schedule,
    delete_schedule,
    pause_schedule,
    resume_schedule,
    run_schedule,
)
from flows.schedules import Schedule, list_schedules, look_at
from flows.settings import FlowSettings
from flows.times import InvalidTimesError, Times, check_times, next_times
from tests.flows.processes import SERVE, running, said, until

pytestmark = pytest.mark.usefixtures("withdrawn")
EVERY_MINUTE = Times("* * * * *")
ADA, BEN = "ada@example.com", "ben@example.com"


@pytest.fixture
def runs(prefect_api: str) -> Iterator[Runs]:
    """The runs on that server, on which every schedule is deleted afterwards."""
    with Runs(prefect_api) as runs:
        yield runs
        for one in list_schedules(runs):
            if one.schedule_id:
                delete_schedule(runs, one)


@contextmanager
def serving(prefect_api: str, file: Path, **settings: str) -> Iterator["subprocess.Popen[str]"]:
    """`python -m flows serve` with a file of schedules, ready."""
    settings |= {
        "PREFECT_API_URL": prefect_api,
        "CARREL_FLOWS_DEPLOYMENTS": str(file),
        "PREFECT_RUNNER_POLL_FREQUENCY": "1",
    }
    with running(*SERVE, **settings) as process:
        said(process, "Serving the flows")
        yield process


@pytest.fixture(scope="module")
def served(prefect_api: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The flows were served once, so that schedules can be kept; nothing carries them out now."""
    folder = tmp_path_factory.mktemp("served")
    (folder / "none.yaml").write_text("deployments: []\n")
    with serving(prefect_api, folder / "none.yaml", CARREL_DATA_DIR=str(folder)):
        pass


def _draft(source: str, times: Times = EVERY_MINUTE, *, name: str = "Handbook", **options: object) -> Draft:
    return Draft(name, "bulk-upload", {"source": source, "options": options}, times)


def _one(runs: Runs, name: str = "Handbook") -> Schedule:
    (found,) = [one for one in list_schedules(runs) if one.name == name]
    return found


def _created(runs: Runs, schedule: Schedule) -> int:
    """Return how many documents the runs of a schedule have created; another minute's run finds them unchanged."""
    made = runs.rows("/flow_runs/filter", {"flow_runs": {"created_by": {"id_": [schedule.key]}}})
    return sum(one.counts.created for one in runs.statuses(made) if one.state == "COMPLETED")


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_a_schedule_fires_with_its_parameters_and_survives_serve_and_the_file(
    runs: Runs, prefect_api: str, library: Path, flow_settings: FlowSettings, tmp_path: Path
) -> None:
    """A schedule runs by itself with what it was made with; another file and another `serve` leave it as it is.

    A paused one has no next runs and keeps its parameters; it has some again when it is resumed.
    """
    assert flow_settings.base_url
    file = tmp_path / "schedules.yaml"
    file.write_text("deployments: []\n")
    with serving(prefect_api, file) as process:
        add_schedule(runs, _draft(str(library), include=["*.md"]), person=ADA)
        made = _one(runs)
        assert await until(lambda: _created(runs, made), seconds=240) == 12
        last = look_at(runs, [made])[made.key].last
        assert last is not None
        assert (last.by_schedule, last.schedule_name, last.source) == (True, "Handbook", str(library))
        entry = f"  - {{name: other, entrypoint: flows.bulk_upload.bulk_upload, parameters: {{source: '{library}'}}}}\n"
        await asyncio.to_thread(file.write_text, f"deployments:\n{entry}")
        await asyncio.to_thread(said, process, "bulk-upload/other")
        assert _one(runs) == made
        pause_schedule(runs, made, person=BEN)
        paused = _one(runs)
        assert (paused.paused, paused.parameters) == (True, made.parameters)
        assert paused.label is not None
        assert (paused.label.made_by, paused.label.changed_by) == (ADA, BEN)
        await until(lambda: not _waiting(runs, paused))  # one that was due already is carried out
    with serving(prefect_api, file):
        assert _one(runs) == paused
        runs.call("POST", f"/deployments/{paused.deployment_id}/schedule", {})  # what Prefect's scheduler does
        assert not _waiting(runs, paused)
        resume_schedule(runs, paused, person=BEN)
        assert _waiting(runs, paused)
        assert _one(runs).parameters == made.parameters


def _waiting(runs: Runs, schedule: Schedule) -> list[object]:
    states = {"state": {"type": {"any_": ["SCHEDULED", "PENDING", "RUNNING"]}}}
    chosen = {"created_by": {"id_": [schedule.key]}, **states}
    return list(runs.rows("/flow_runs/filter", {"flow_runs": chosen}))


@pytest.mark.usefixtures("served")
def test_it_is_changed_and_started_by_hand(runs: Runs) -> None:
    """A change keeps what was paused and who made it; a run by hand has the parameters, and counts as the last one."""
    add_schedule(runs, _draft("/srv/one"), person=ADA)
    pause_schedule(runs, _one(runs))
    change_schedule(runs, _one(runs), _draft("/srv/two", Times("0 2 * * 1", "Europe/Berlin")), person=BEN)
    changed = _one(runs)
    assert changed.parameters == {"source": "/srv/two", "options": {}}
    assert (changed.times, changed.paused) == ([Times("0 2 * * 1", "Europe/Berlin")], True)
    assert changed.label is not None
    assert (changed.label.made_by, changed.label.changed_by) == (ADA, BEN)
    run = run_schedule(runs, changed, person=BEN, key="once")
    assert run_schedule(runs, changed, person=BEN, key="once") == run
    last = look_at(runs, [changed])[changed.key].last
    assert last is not None
    assert (last.flow_run_id, last.person, last.source) == (run, BEN, "/srv/two")


@pytest.mark.usefixtures("served")
def test_of_two_who_change_it_at_once_the_last_is_told(runs: Runs) -> None:
    """Nothing of the first change is lost, by a change or a deletion of what was read before it."""
    add_schedule(runs, _draft("/srv/one"), person=ADA)
    read = _one(runs)
    change_schedule(runs, read, _draft("/srv/two"), person=BEN)
    with pytest.raises(ChangedMeanwhileError, match=BEN):
        change_schedule(runs, read, _draft("/srv/three"), person=ADA)
    with pytest.raises(ChangedMeanwhileError, match=BEN):
        delete_schedule(runs, read)
    assert _one(runs).parameters["source"] == "/srv/two"
    delete_schedule(runs, _one(runs))
    for change in (pause_schedule, resume_schedule):
        with pytest.raises(ChangedMeanwhileError, match="deleted"):
            change(runs, read)
    assert not list_schedules(runs)


@pytest.mark.usefixtures("served")
def test_one_made_twice_is_one_and_a_deletion_leaves_others(runs: Runs) -> None:
    """A form that is sent twice makes one schedule; deleting one leaves the next runs of another."""
    first = add_schedule(runs, _draft("/srv/one"), key="form")
    assert add_schedule(runs, _draft("/srv/one"), key="form") == first
    add_schedule(runs, _draft("/srv/two", name="Reports"))
    assert len(list_schedules(runs)) == 2
    delete_schedule(runs, _one(runs))
    reports = _one(runs, "Reports")
    assert _waiting(runs, reports)


@pytest.mark.usefixtures("served")
@pytest.mark.parametrize("source", ["s3://key:hush@bucket/p", "https://host/p?token=hush"])
def test_what_prefect_would_show_is_refused(runs: Runs, source: str) -> None:
    """An address with a credential is not kept, nor repeated by the message; so is a schedule without a name."""
    with pytest.raises(InvalidScheduleError) as raised:
        add_schedule(runs, _draft(source))
    assert "hush" not in str(raised.value)
    with pytest.raises(InvalidScheduleError, match="name"):
        add_schedule(runs, _draft("/srv/one", name=" "))
    assert not list_schedules(runs)


def test_nothing_is_kept_where_nobody_serves(prefect_api: str) -> None:
    """A flow that was never served has nothing that a schedule could be kept on, which is said."""
    with Runs(prefect_api) as runs, pytest.raises(NotServedError, match="flows serve"):
        add_schedule(runs, Draft("x", "no-such-flow", {}, EVERY_MINUTE))


@pytest.mark.parametrize(
    ("cron", "timezone", "words"),
    [
        ("99 * * * *", "UTC", "no cron expression"),
        ("", "UTC", "five parts"),
        ("* * * * * *", "UTC", "five parts"),
        ("R * * * *", "UTC", "no cron expression"),
        ("0 0 30 2 *", "UTC", "never comes"),
        ("0 2 * * *", "Mars/Base", "no time zone"),
        ("0 2 * * *", "../../etc/passwd", "no time zone"),
    ],
)
def test_times_that_are_none_are_said(cron: str, timezone: str, words: str) -> None:
    """Each mistake has its own words, before anything is asked of Prefect."""
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
