"""Schedules in the workbench on a real Prefect server."""

import html
from collections.abc import Iterator

import pytest

from flows.runs import Runs
from flows.schedules import Draft, Schedule, Times, add_schedule, change_schedule, delete_schedule, list_schedules
from tests.app.loading.house import LoadingHouse, dropped, offered, run_of, start
from tests.app.pages import MARKUP, Page

NIGHTLY = Times("0 2 * * 1", "Europe/Berlin")


@pytest.fixture
def kept(house: LoadingHouse, deployment: str) -> Iterator[Runs]:
    assert deployment
    with Runs(house.prefect.url) as runs:
        yield runs
        for one in list_schedules(runs):
            if one.schedule_id:
                delete_schedule(runs, one)


def _one(runs: Runs) -> Schedule:
    (found,) = [one for one in list_schedules(runs) if one.schedule_id]
    return found


def _add(runs: Runs, name: str = "Handbook", *, person: str = "", **options: object) -> Schedule:
    parameters = {"source": "/srv/handbook", "options": options}
    add_schedule(runs, Draft(name, "bulk-upload", parameters, NIGHTLY), person=person)
    return _one(runs)


def _open(house: LoadingHouse, schedule: str, **address: str) -> Page:
    return house.open("ingestion", part="schedules", schedule=schedule, **address)


def _fill(page: Page, label: str, value: object) -> Page:
    return page.field(label).set_value(value).run()


def _rows(house: LoadingHouse) -> list[dict]:
    return house.open("ingestion", part="schedules").rows()


def test_an_entry_of_the_file_is_said_in_words_paused_and_run(house: LoadingHouse) -> None:
    cron = {"schedule": {"cron": "0 2 * * 1", "timezone": "Europe/Berlin"}, "active": True}
    prefect = house.prefect
    with offered(
        prefect, name="handbook-nightly", schedules=[cron], parameters={"source": f"/srv/{MARKUP}"}
    ) as nightly:
        last = prefect.start(nightly, {})
        prefect.move(last, "FAILED", "no")
        (row,) = [one for one in _rows(house) if one["Name"] == "handbook-nightly"]
        assert (row["When"], row["Last result"]) == ("At 02:00, only on Monday (Europe/Berlin)", "Failed")
        page = _open(house, nightly)
        assert "<img" not in page.shown
        assert "prefect.yaml" in page.shown
        assert not {"Save schedule", "Delete …"} & set(page.labels)
        page.press("Pause")
        assert prefect.deployment(nightly)["paused"]
        _open(house, nightly).press("Resume")
        assert not prefect.deployment(nightly)["paused"]
        page = _open(house, nightly).press_twice("Run now")
        started = {one["id"] for one in prefect.runs_of(nightly) if not one["auto_scheduled"]}
        assert started == {last, run_of(page)}
    with offered(prefect, name="by-hand", parameters={"source": "/srv/handbook"}) as by_hand:
        shown = _open(house, by_hand).shown
        assert "when someone starts it" in shown
        assert "not planned yet" not in shown
        assert "No runs yet" in shown
    page = house.open("ingestion", part="schedules")
    assert "No schedules yet." in page.shown
    assert page.find_button("New schedule")


def test_a_schedule_is_made_in_words(house: LoadingHouse, kept: Runs) -> None:
    page = house.open("ingestion", part="schedules").press("New schedule").press("Save schedule")
    assert "Nothing is selected to load." in page.shown
    page = _fill(page, "Folder, glob, manifest or object store", "/srv/handbook")
    page = _fill(_fill(page, "When", "week"), "Time zone", "Europe/Berlin")
    assert "At 02:00, only on Monday (Europe/Berlin)" in page.shown
    assert page.shown.count("Monday, ") == 5
    page = page.press_twice("Save schedule")
    made = _one(kept)
    assert (made.name, made.times, made.parameters["source"]) == ("Upload: /srv/handbook", [NIGHTLY], "/srv/handbook")
    assert made.parameters["options"]["upload_as_user_email"] == house.service.admin_email
    assert f"created by {house.service.admin_email}" in _open(house, made.key).shown
    (row,) = _rows(house)
    assert (row["Name"], row["Source"]) == ("Upload: /srv/handbook", "/srv/handbook")
    assert row["Next"].endswith("UTC")


def test_wrong_times_and_credentials_are_not_kept(house: LoadingHouse, kept: Runs) -> None:
    page = _fill(_open(house, "new"), "Folder, glob, manifest or object store", "s3://key:hush@bucket/p")
    assert "Remove the password or query" in page.press("Save schedule").shown
    page = _fill(_open(house, "new"), "When", "cron")
    page = _fill(page, "Folder, glob, manifest or object store", "/srv/handbook")
    page = _fill(page, "Minute, hour, day of month, month, day of week", "99 * * * *")
    assert "not a cron expression" in page.shown
    assert "Nothing was saved." in page.press("Save schedule").shown
    assert not list_schedules(kept)


def test_a_change_keeps_what_the_form_does_not_show(house: LoadingHouse, kept: Runs) -> None:
    options = {"upload_as_user_email": "ada@example.com", "include": ["*.log"], "hidden": True}
    read = _add(kept, MARKUP, person="ada@example.com", **options)
    page = _open(house, read.key)
    assert "<img" not in page.shown + page.as_markdown
    page = _fill(page, "When", "month").press("Save schedule")
    assert [one.value for one in page.toast] == ["Schedule saved."]
    changed = _one(kept)
    assert (changed.key, changed.name, changed.times) == (read.key, MARKUP, [Times("0 2 1 * *", "Europe/Berlin")])
    assert {name: changed.parameters["options"][name] for name in options} == options
    page = _open(house, read.key)
    assert f"last changed by {house.service.admin_email}" in page.shown
    theirs = Draft("Theirs", "bulk-upload", changed.parameters, NIGHTLY)
    change_schedule(kept, changed, theirs, person="ben@example.com")
    assert "ben@example.com changed this schedule" in _fill(page, "Name", "Mine").press("Save schedule").shown
    assert _one(kept).name == "Theirs", "a form that was opened before another's change changes nothing"


def test_it_is_paused_run_and_deleted(house: LoadingHouse, kept: Runs) -> None:
    read = _add(kept, internal_public=True)
    page = _open(house, read.key).press("Pause")
    paused = _one(kept)
    assert (paused.paused, paused.parameters) == (True, read.parameters)
    assert [row["Next"] for row in _rows(house)] == ["paused"]
    _open(house, read.key).press("Resume")
    assert not _one(kept).paused
    page = _open(house, read.key).press_twice("Run now")
    (run,) = [one for one in house.prefect.runs_of(str(read.deployment_id)) if one["id"] == run_of(page)]
    assert run["parameters"] == read.parameters
    assert f"carrel-person:{house.service.admin_email}" in run["tags"]
    page = _open(house, read.key)
    assert page.find_button("Show last run")
    assert 'href="ingestion?part=runs&amp;by=Handbook"' in page.shown
    _open(house, read.key).press("Delete …").answer("Delete …", "Delete")
    assert not list_schedules(kept)
    assert "This schedule does not exist." in _open(house, read.key).shown


def test_a_run_and_a_plan_become_a_schedule(house: LoadingHouse, kept: Runs) -> None:
    page = _fill(_open(house, "new"), "Folder, glob, manifest or object store", "/srv/reports")
    page = _fill(_fill(page, "Name", "Reports"), "When", "hour")
    planned = run_of(page.press("Show plan first"))
    house.prefect.move(planned, "COMPLETED")
    page.query_params.update({"run": planned})
    page = page.run().press("Schedule this …").press("Save schedule")
    made = _one(kept)
    assert (made.name, made.times[0].cron, made.parameters["source"]) == ("Reports", "0 * * * *", "/srv/reports")
    assert "dry_run" not in made.parameters
    uploaded = start(dropped(house))
    house.prefect.move(run_of(uploaded), "COMPLETED")
    assert "Schedule this …" not in set(house.open("ingestion", run=run_of(uploaded)).labels)


def test_every_kind_of_run_can_be_scheduled(house: LoadingHouse, kept: Runs) -> None:
    page = _open(house, "new")
    for kind in page.field("Action").options:
        page = _open(house, "new")
        page = page.field("Action").select(kind).run()
        assert "Save schedule" in page.labels or "carrel-empty" in page.shown, (kind, html.unescape(page.shown))
    with offered(house.prefect, "permission-snapshot"):
        page = _open(house, "new").field("Action")
        page = page.select("Take a permission snapshot").run().press("Save schedule")
        made = _one(kept)
        assert (made.flow, made.parameters, made.name) == ("permission-snapshot", {}, "Permission snapshot")
        delete_schedule(kept, made)
    agent = house.client.admin.agents.create("Help desk")
    answers = house.client.admin.evaluation_sets.create("Answers", agent_id=agent.agent_id)
    with offered(house.prefect, "agent-evaluation"):
        page = _open(house, "new").field("Action")
        page = page.select("Evaluate an agent").run()
        page.field("Recall").set_value(0.9)
        page.press("Save schedule")
        made = _one(kept)
        expected = {"source": answers.name, "options": {"at_least": {"recall": 0.9}}}
        assert (made.flow, made.parameters) == ("agent-evaluation", expected)
        assert "Answers" in made.name
        delete_schedule(kept, made)
