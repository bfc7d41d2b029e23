"""The page Health and its alerts, and every page while the service is down."""

import asyncio
import json
import socket
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
import streamlit as st

from app import availability, health
from app.health import Level, findings_of, troubles
from app.loading import runs
from app.navigation import FOR_ADMINS, FOR_ALL, FOR_EDITORS
from app.settings import settings
from carrel.wire.alerts import AlertKind
from carrel.wire.oversight import AdminStatusGetResponse, IndexingState, JobsState, QuarantineState, SyncsState
from tests.app.conftest import NOBODY_LISTENS, House
from tests.app.loading.house import offered
from tests.app.prefect_api import PrefectServer
from tests.harness.cases import cases
from tests.harness.proxy import faulty
from tests.service.sources import Reporter, an_item
from tests.service.test_alerts import report

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def a_status(**changes) -> AdminStatusGetResponse:
    well: dict = {
        "version": "1.0",
        "document_count": 3,
        "collection_count": 1,
        "chunk_count": 9,
        "indexing": IndexingState(done=3, running=0, failed=0),
        "jobs": JobsState(waiting=0, running=0, failed=0),
        "syncs": SyncsState(running=0, failed=0),
        "quarantine": QuarantineState(item_count=0, source_count=0, sources=[]),
        "rebuilds_running": 0,
        "embedding_model": "small",
        "language_model": "built-in",
    }
    return AdminStatusGetResponse(**{**well, **changes})


CASES = json.loads(Path(__file__).with_name("health.json").read_text("utf-8"))
"""Changes of a status; the part, level and words of its finding. A disk expected to fill up is trouble."""


@pytest.mark.parametrize(("changes", "about", "level", "words"), CASES)
def test_what_is_at_work_or_wrong_is_told_apart(changes: dict, about: str, level: str, words: str) -> None:
    found = {one.about: one for one in findings_of(a_status(**changes), now=NOW)}
    assert found[about].level is Level[level]
    assert words in found[about].said
    assert bool(found[about].todo) == (level == "TROUBLE")
    if level == "TROUBLE":
        assert found[about].see, "nowhere to act"
    assert {one.level for name, one in found.items() if name != about} == {Level.FINE}


@pytest.mark.parametrize(("arithmetic", "said"), cases("the_arithmetic_is_said_and_why"))
def test_the_arithmetic_is_said_and_why(arithmetic: dict | None, said: str) -> None:
    assert f"embeddings by {said}" in findings_of(a_status(arithmetic=arithmetic), now=NOW)[0].said


def test_what_is_well_is_fine_and_asks_for_nothing() -> None:
    found = findings_of(a_status(), now=NOW)
    refusing = {"syncs": SyncsState(running=0, failed=0, refused_documents=1, refusing=1)}
    for changes in ({}, refusing, {"indexing": {"done": 0, "running": 0, "failed": 1}}, {"failed_run_count": 1}):
        said = {one.about: one.said for one in findings_of(a_status(**changes), now=NOW)}
        assert (said["Loading"] == "Every document was loaded.") is not bool(changes)
    assert {one.level for one in found} == {Level.FINE}
    assert not any(one.todo for one in found)
    assert troubles(found) == 0


def test_the_page_counts_what_there_is_and_says_that_prefect_is_away(own_house: House, monkeypatch) -> None:
    monkeypatch.setattr("app.formatting.browser_zone", lambda: ZoneInfo("Asia/Tokyo"))
    document, reporter = own_house.load("Ferries"), Reporter(own_house.service)
    reporter.report([an_item("torn.pdf")])
    page = own_house.open("health")
    assert page.metrics["Documents"] == "1"
    shown = page.shown
    assert "2 findings need attention." in shown
    assert " JST. This page refreshes itself." in shown
    assert "1 document could not be loaded." in shown
    assert "0 questions in seven days, 0 not answered." in shown
    assert "Prefect, which manages the runs, does not answer" in shown
    assert "python -m flows.server" in shown
    assert 'href="/help/operating#prefect" target="_blank"' in shown
    assert "No syncs running." in shown
    assert "0 running, 0 waiting." in shown
    assert "1 document can be found." in shown
    own_house.break_index(document, "It is torn.")
    shown = own_house.open("health").shown
    assert "1 document could not be indexed." in shown
    assert 'href="documents?of=all&amp;state=failed" target="_self">Open failed documents</a>' in shown


@pytest.mark.usefixtures("impatient")
def test_a_service_that_is_away_is_a_finding_and_not_the_end_of_the_page(own_service, make_house):
    with faulty(own_service.base_url) as proxy:
        page = make_house(own_service, CARREL_V1_BASE_URL=proxy.base_url).open("health")
        assert "The service and its database respond." in page.shown
        proxy.away = True
        page.run()
        assert "2 findings need attention." in page.shown
        assert '<section class="carrel-is-trouble"><h2>The service</h2>' in page.shown
        assert "See its log." in page.shown
        proxy.away = False
        assert "The service and its database respond." in page.run().shown


def test_flows_that_nobody_serves_are_told_from_those_that_somebody_does(prefect_api, service, make_house):
    with closing(PrefectServer(prefect_api)) as prefect, offered(prefect):
        shown = make_house(service, prefect=prefect_api).open("health").shown
    assert "no flow server is running" in shown
    assert "python -m flows serve" in shown
    assert '<a href="ingestion?part=runs" target="_self">Open runs</a>' in shown


@pytest.mark.usefixtures("house")
def test_connections_to_prefect_are_closed_when_their_client_is_dropped() -> None:
    """The garbage collector could leave the sockets open for a long time."""
    kept = [health._runs(NOBODY_LISTENS), runs._runs()]
    st.cache_resource.clear()
    assert [one._http.is_closed for one in kept] == [True, True]


def test_a_webhook_is_set_and_its_secret_shown_once(house) -> None:
    page = house.open("health")
    assert "No alert rules yet." in page.shown
    page = page.press("New alert rule")
    page.segmented_control(key="alert_rule.target").set_value("Email").run()
    assert "CARREL_SMTP_URL" in page.shown
    page.segmented_control(key="alert_rule.target").set_value("Webhook").run().press_key("alert_rule.submit")
    assert "Enter the webhook URL." in page.shown
    page.text_input(key="alert_rule.url").set_value("https://hooks.example.test/carrel").run()
    page.press_key("alert_rule.submit")
    value = page.secret
    assert value.startswith("whsec_")
    page.press_key("secret.done")
    assert value not in page.kept + page.shown
    assert "All alerts → https://hooks.example.test/carrel" in page.shown
    [rule] = list(house.client.admin.alert_rules.list())
    page = page.press("Send test")
    assert [one.type for one in house.client.admin.alert_rules.list_deliveries()] == ["alert.test"]
    page = page.press_key(f"alert_rule.{rule.alert_rule_id}.change")
    house.client.admin.alert_rules.update(rule.alert_rule_id, webhook_url="https://hooks.example.test/theirs")
    page.multiselect(key="alert_rule.names").set_value(["/srv/handbook"]).run()
    page.text_input(key="alert_rule.url").set_value("hooks.example.test").run().press_key("alert_rule.submit")
    assert "Webhook URL: must be an https address" in page.shown
    page.text_input(key="alert_rule.url").set_value("https://hooks.example.test/other").run()
    page.press_key("alert_rule.submit")
    page.radio(key="alert_rule.choice.webhook_url").set_value("Use mine").run().press_key("alert_rule.submit")
    assert "All alerts for /srv/handbook → https://hooks.example.test/other" in page.shown
    [entry, *_] = house.client.admin.audit_log.query(action="alertRule.update")
    assert "hooks.example.test/" not in entry.model_dump_json()
    [sent] = list(house.client.admin.alert_rules.list_deliveries())
    page.selectbox(key="delivery").set_value(str(sent.delivery_id)).run()
    assert "A test of Carrel" in page.json[0].value
    page.press("Send again")
    page = page.press("Pause")
    assert "· paused" in page.shown
    page.button(key=f"alert_rule.{rule.alert_rule_id}.delete").click().run()
    page.button(key="confirm.yes").click()
    page.button(key=f"alert_rule.{rule.alert_rule_id}.delete").click().run()
    assert list(house.client.admin.alert_rules.list()) == []


def test_what_is_wrong_is_shown(house) -> None:
    run, source = "0199f3c2-8b62-7f10-8c74-5a2d3e6f7c81", "/srv/<b>handbook</b>"
    report(house.service, "FAILED", source=source, code="source_unreadable", flowRunId=run, documentCount=7)
    house.client.admin.alert_rules.create(list(AlertKind), webhook_url="https://hooks.example.test/carrel")
    page = house.open("health")
    shown = page.shown
    assert "1 alert is open." in shown
    assert "<td>Still failing: /srv/&lt;b&gt;handbook&lt;/b&gt;</td>" in shown, "messages of several alerts differ"
    about = "/srv/&lt;b&gt;handbook&lt;/b&gt; · Upload · 7 documents"
    link = f'<a href="ingestion?run={run}" target="_self">A run failed or left work undone</a>'
    assert f"<td>{link}</td><td>{about}</td><td>The source can&#x27;t be read. It is missing" in shown
    [alert] = list(house.client.admin.alerts.list(only_open=True))
    page.selectbox(key="alert.end").set_value(str(alert.alert_id)).run()
    page = page.press("Acknowledge")
    assert "Acknowledged by " in page.shown
    assert "Snoozed until " in page.press("Snooze for 7 days").shown
    assert "No open alerts." in page.press("End").shown
    dropped = str(settings().uploads_dir / "note.md and 1 more-1f")
    report(house.service, "FAILED", source=dropped, code="source_unreadable")
    assert "<td>note.md and 1 more · Upload</td>" in house.open("health").shown


VIEWS = [name for pages in (FOR_ALL, FOR_EDITORS, FOR_ADMINS) for entries in pages.values() for name, *_ in entries]


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("view", VIEWS)
def test_a_page_says_that_nobody_answers_and_what_to_do(house, monkeypatch, view):
    house.sign_in()
    with monkeypatch.context() as environment:
        environment.setenv("CARREL_BASE_URL", NOBODY_LISTENS)
        settings.cache_clear()
        page = house.open(view, q="sheep")
    settings.cache_clear()
    assert f"The service at {NOBODY_LISTENS} does not answer." in page.shown
    assert ("continue automatically" in page.shown, "make up" in page.shown) == (True, False)
    assert not page.dataframe


def test_a_part_that_takes_connections_and_says_nothing_is_told_from_one_that_is_gone(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as silent, monkeypatch.context() as environment:
        here = f"http://127.0.0.1:{silent.getsockname()[1]}"
        for address, longest, said in (
            (here, 8, "It is slow or"),
            (here, 0.1, "but does not answer"),
            (NOBODY_LISTENS, 8, "not reachable"),
        ):
            environment.setenv("CARREL_BASE_URL", address)
            environment.setattr(availability, "LONGEST", longest)
            settings.cache_clear()
            assert said in asyncio.run(availability.look(0.1))
    settings.cache_clear()
