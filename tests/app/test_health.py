"""The page of health in its states, and what it says of each."""

from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import streamlit as st

from app import health
from app.health import Finding, Level, findings_of, troubles
from app.loading import runs
from carrel.wire.oversight import (
    AdminStatusGetResponse,
    ConnectionsState,
    IndexingState,
    JobsState,
    StorageArea,
    StorageLevel,
    StorageState,
    SyncsState,
)
from carrel.wire.reranking import RerankingState
from carrel.wire.servers import ArchiveState, PrimaryState, StandbyState, StandbyStatus
from tests.app.conftest import NOBODY_LISTENS, House
from tests.app.loading.house import offered
from tests.app.prefect_api import PrefectServer
from tests.harness.proxy import faulty
from tests.service.sources import Reporter, an_item

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def a_status(**changes: Any) -> AdminStatusGetResponse:
    well: dict[str, Any] = {
        "version": "1.0",
        "document_count": 3,
        "collection_count": 1,
        "chunk_count": 9,
        "indexing": IndexingState(done=3, running=0, failed=0),
        "jobs": JobsState(waiting=0, running=0, failed=0),
        "syncs": SyncsState(running=0, failed=0),
        "rebuilds_running": 0,
        "embedding_model": "small",
        "language_model": "built-in",
    }
    return AdminStatusGetResponse(**{**well, **changes})


def finding(about: str, **changes: Any) -> Finding:
    [one] = [one for one in findings_of(a_status(**changes), now=NOW) if one.about == about]
    return one


def index(**state: Any) -> dict[str, Any]:
    return {"indexing": IndexingState(**({"done": 3, "running": 0, "failed": 0} | state))}


def jobs(**state: Any) -> dict[str, Any]:
    return {"jobs": JobsState(**({"waiting": 0, "running": 0, "failed": 0} | state))}


def reranking(**state: Any) -> dict[str, Any]:
    return {"reranking": RerankingState(**state)}


def disk(free: int, level: StorageLevel) -> dict[str, Any]:
    """So many GiB of a disk of a hundred are free."""
    areas = [StorageArea.DATABASE, StorageArea.FILES]
    room = {"free_bytes": free << 30, "total_bytes": 100 << 30, "low_below_bytes": 8 << 30}
    return {"storage": [StorageState(areas=areas, level=level, **room)]}


def pressed(ago: timedelta | None) -> dict[str, Any]:
    """Connections were turned away so long ago."""
    at = None if ago is None else NOW - ago
    return {"connections": ConnectionsState(open=90, most=100, refused=2, evicted=1300, pressed_at=at)}


def standby(state: StandbyState) -> dict[str, Any]:
    return {"standbys": [StandbyStatus(number=2, state=state, since=NOW, lag_bytes=3 << 20)]}


def archive(late: timedelta | None, *, has_backup: bool = True) -> dict[str, Any]:
    backed_up_at = NOW - timedelta(days=1) if has_backup else None
    return {"archive": ArchiveState(archived_at=None if late is None else NOW - late, backed_up_at=backed_up_at)}


INDEX, JOBS, DISK = "The index", "Replies and sync runs", "The disk of the database and files"
STANDBY, ARCHIVE = "Standby 2 of the database", "The archive"
HOUR, MINUTES, SECONDS = timedelta(hours=1), timedelta(minutes=6), timedelta(seconds=2)


@pytest.mark.parametrize(
    ("changes", "about", "level", "words"),
    [
        (index(running=2, oldest_waiting_at=NOW), INDEX, Level.BUSY, ""),
        (index(failed=1), INDEX, Level.TROUBLE, ""),
        (index(running=2, oldest_waiting_at=NOW - HOUR), INDEX, Level.TROUBLE, ""),
        (index(running=2, oldest_waiting_at=NOW, uploads_refused_seconds=9), INDEX, Level.TROUBLE, ""),
        (jobs(waiting=1, running=2, oldest_waiting_at=NOW), JOBS, Level.BUSY, ""),
        (jobs(waiting=9, running=2, oldest_waiting_at=NOW - MINUTES), JOBS, Level.TROUBLE, ""),
        (jobs(failed=1), JOBS, Level.TROUBLE, "1 reply of an agent failed"),
        ({"primary": PrimaryState(unconfirmed_at=NOW)}, "Changes wait for a standby", Level.TROUBLE, ""),
        ({"primary": PrimaryState(older_refused_at=NOW)}, "An older primary answers", Level.TROUBLE, ""),
        (reranking(), "Reranking", Level.FINE, ""),
        (reranking(answered_at=NOW), "Reranking", Level.FINE, ""),
        (reranking(failed_at=NOW), "Reranking", Level.TROUBLE, ""),
        (reranking(answered_at=NOW, failed_at=NOW - HOUR), "Reranking", Level.FINE, ""),
        (reranking(answered_at=NOW, failed_at=NOW + HOUR), "Reranking", Level.TROUBLE, ""),
        ({"syncs": SyncsState(running=1, failed=0)}, "Syncs", Level.BUSY, ""),
        ({"syncs": SyncsState(running=0, failed=2)}, "Syncs", Level.TROUBLE, ""),
        ({"rebuilds_running": 2}, "Rebuilding", Level.BUSY, ""),
        ({"pages_waiting": 12}, "Text recognition", Level.BUSY, ""),
        # A disk that will soon be too small is trouble while everything still works.
        (disk(50, StorageLevel.OK), DISK, Level.FINE, "50.0 GiB of 100.0 GiB are free."),
        (disk(15, StorageLevel.OK), DISK, Level.TROUBLE, "Below 8.0 GiB, nothing more is added."),
        (disk(7, StorageLevel.LOW), DISK, Level.TROUBLE, "Nothing is added or indexed until there is more room"),
        (disk(1, StorageLevel.FULL), DISK, Level.TROUBLE, "the database itself is running out of room"),
        (pressed(None), "Connections", Level.FINE, "90 of at most 100 are open."),
        (pressed(HOUR), "Connections", Level.FINE, "90 of at most 100 are open."),
        (pressed(SECONDS), "Connections", Level.TROUBLE, "2 were refused, and 1,300 were closed"),
        (standby(StandbyState.SERVING), STANDBY, Level.FINE, "Searches are read from it."),
        (standby(StandbyState.LATE), STANDBY, Level.TROUBLE, "it is behind the primary by 3.0 MiB, since"),
        (standby(StandbyState.AWAY), STANDBY, Level.TROUBLE, "it does not answer, since"),
        (standby(StandbyState.NOT_A_STANDBY), STANDBY, Level.TROUBLE, "follows another primary, or none, since"),
        (archive(SECONDS), ARCHIVE, Level.FINE, "All that was written until"),
        (archive(SECONDS, has_backup=False), ARCHIVE, Level.TROUBLE, "No backup in it leads to now"),
        (archive(MINUTES), ARCHIVE, Level.TROUBLE, "All that was written until"),
        (archive(None), ARCHIVE, Level.TROUBLE, "Nothing was archived since the service was started."),
    ],
)
def test_what_is_at_work_or_wrong_is_told_apart(changes: dict[str, Any], about: str, level: Level, words: str) -> None:
    """Only what somebody should look at is trouble, and then the finding says what to do; the rest stays fine."""
    found = {one.about: one for one in findings_of(a_status(**changes), now=NOW)}
    assert found[about].level is level
    assert words in found[about].said
    assert bool(found[about].todo) == (level is Level.TROUBLE)
    if level is Level.TROUBLE:
        assert found[about].see, "nowhere to act"
    assert {one.level for name, one in found.items() if name != about} == {Level.FINE}


def test_what_is_well_is_fine_and_asks_for_nothing() -> None:
    found = findings_of(a_status(), now=NOW)
    assert {one.level for one in found} == {Level.FINE}
    assert not any(one.todo for one in found)
    assert troubles(found) == 0
    # Nor does what was wrong an hour ago.
    assert "were refused" not in finding("Connections", **pressed(HOUR)).said


def test_a_document_that_failed_does_not_hide_that_uploads_are_refused() -> None:
    """What keeps everybody out is said first, with all that waits, in the catalog or not."""
    said = finding(INDEX, **index(failed=1, waiting_documents=2400, uploads_refused_seconds=9)).said
    assert "2,400 documents wait for an index" in said
    assert "uploads are refused" in said


def test_one_that_failed_is_told_once() -> None:
    """A sync's last run, and a reply of an agent: each is one thing that somebody should look at."""
    for changes in ({"syncs": SyncsState(running=0, failed=1)}, jobs(failed=1)):
        assert troubles(findings_of(a_status(**changes), now=NOW)) == 1


def test_the_page_counts_what_there_is_and_says_that_prefect_is_away(own_house: House) -> None:
    document, reporter = own_house.load("Ferries"), Reporter(own_house.service)
    reporter.report([an_item("torn.pdf")])
    page = own_house.open("health")
    assert page.metrics["Documents"] == "1"
    shown = page.shown
    assert "2 findings need attention." in shown
    assert "1 document could not be loaded." in shown
    assert "0 questions in seven days, 0 of them not answered." in shown
    assert "Prefect, which has the runs, doesn&#x27;t answer" in shown
    assert "python -m flows.server" in shown
    assert 'href="/help/operating#prefect" target="_blank"' in shown
    assert "No syncs running." in shown
    assert "0 running, 0 waiting." in shown
    assert "1 document can be found." in shown
    own_house.break_index(document, "It is torn.")
    shown = own_house.open("health").shown
    assert "1 document could not be indexed." in shown
    assert 'href="documents?of=all&amp;state=failed" target="_self">Open the documents that failed</a>' in shown


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
    """An offered flow that nobody asks work for waits; the page says what to start."""
    with closing(PrefectServer(prefect_api)) as prefect, offered(prefect):
        shown = make_house(service, prefect=prefect_api).open("health").shown
    assert "no process carries out runs" in shown
    assert "python -m flows serve" in shown
    assert '<a href="ingestion?part=runs" target="_self">Open the runs</a>' in shown


@pytest.mark.usefixtures("house")
def test_connections_to_prefect_are_closed_when_their_client_is_dropped() -> None:
    """Left to the garbage collector, their sockets would stay open for as long as it likes."""
    kept = [health._runs(NOBODY_LISTENS), runs._runs()]
    st.cache_resource.clear()
    assert [one._http.is_closed for one in kept] == [True, True]
