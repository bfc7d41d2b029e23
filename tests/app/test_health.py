"""The page of health in its states, and what it says of each."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import streamlit as st

from app.health import findings as health
from app.health.findings import findings_of, troubles
from app.health.models import Level
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
from tests.app.conftest import NOBODY_LISTENS, House, SetUp, draw, html_of, sign_in
from tests.app.prefect_api import PrefectServer
from tests.harness.proxy import faulty
from tests.harness.services import RunningService

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def a_status(**changes: Any) -> AdminStatusGetResponse:
    """How an organization that is well does, but for the changes."""
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


def levels(**changes: Any) -> dict[str, Level]:
    """How well each thing is."""
    return {one.about: one.level for one in findings_of(a_status(**changes), now=NOW)}


def test_what_is_well_is_fine_and_asks_for_nothing() -> None:
    """No finding says what to do where there is nothing to do."""
    found = findings_of(a_status(), now=NOW)
    assert {one.level for one in found} == {Level.FINE}
    assert not any(one.todo for one in found)
    assert troubles(found) == 0


@pytest.mark.parametrize(
    ("changes", "about", "level"),
    [
        ({"indexing": IndexingState(done=3, running=2, failed=0, oldest_waiting_at=NOW)}, "The index", Level.BUSY),
        ({"indexing": IndexingState(done=3, running=0, failed=1)}, "The index", Level.TROUBLE),
        (
            {"indexing": IndexingState(done=3, running=2, failed=0, oldest_waiting_at=NOW - timedelta(hours=1))},
            "The index",
            Level.TROUBLE,
        ),
        (
            {"jobs": JobsState(waiting=1, running=2, failed=0, oldest_waiting_at=NOW)},
            "Replies and sync runs",
            Level.BUSY,
        ),
        ({"jobs": JobsState(waiting=0, running=0, failed=1)}, "Replies and sync runs", Level.TROUBLE),
        ({"primary": PrimaryState(unconfirmed_at=NOW)}, "Changes wait for a standby", Level.TROUBLE),
        ({"primary": PrimaryState(older_refused_at=NOW)}, "An older primary answers", Level.TROUBLE),
        ({"reranking": RerankingState()}, "Reranking", Level.FINE),
        ({"reranking": RerankingState(answered_at=NOW)}, "Reranking", Level.FINE),
        ({"reranking": RerankingState(failed_at=NOW)}, "Reranking", Level.TROUBLE),
        ({"reranking": RerankingState(answered_at=NOW, failed_at=NOW - timedelta(hours=1))}, "Reranking", Level.FINE),
        ({"reranking": RerankingState(answered_at=NOW, failed_at=NOW + timedelta(1))}, "Reranking", Level.TROUBLE),
        (
            {"jobs": JobsState(waiting=9, running=2, failed=0, oldest_waiting_at=NOW - timedelta(minutes=6))},
            "Replies and sync runs",
            Level.TROUBLE,
        ),
        (
            {"indexing": IndexingState(done=3, running=2, failed=0, oldest_waiting_at=NOW, uploads_refused_seconds=9)},
            "The index",
            Level.TROUBLE,
        ),
        ({"syncs": SyncsState(running=1, failed=0)}, "Syncs", Level.BUSY),
        ({"syncs": SyncsState(running=0, failed=2)}, "Syncs", Level.TROUBLE),
        ({"rebuilds_running": 2}, "Rebuilding", Level.BUSY),
        ({"pages_waiting": 12}, "Text recognition", Level.BUSY),
    ],
)
def test_what_is_at_work_or_wrong_is_told_apart(changes: dict[str, Any], about: str, level: Level) -> None:
    """Only what somebody should look at is trouble, and then the finding says what to do; the rest stays fine."""
    found = {one.about: one for one in findings_of(a_status(**changes), now=NOW)}
    assert found[about].level is level
    assert bool(found[about].todo) == (level is Level.TROUBLE)
    if level is Level.TROUBLE:
        assert found[about].see, "nowhere to act"
    assert {one.level for name, one in found.items() if name != about} == {Level.FINE}


@pytest.mark.parametrize(
    ("free", "storage_level", "level", "words"),
    [
        (50, StorageLevel.OK, Level.FINE, "50 GiB of 100 GiB are free."),
        (15, StorageLevel.OK, Level.TROUBLE, "Below 8.0 GiB, nothing more is added."),
        (7, StorageLevel.LOW, Level.TROUBLE, "Nothing is added or indexed until there is more room"),
        (1, StorageLevel.FULL, Level.TROUBLE, "the database itself is running out of room"),
    ],
)
def test_a_disk_is_told_before_it_is_full(free: int, storage_level: StorageLevel, level: Level, words: str) -> None:
    """A disk that will soon be too small is trouble while everything still works, and the finding says what to do."""
    disk = StorageState(
        areas=[StorageArea.DATABASE, StorageArea.FILES],
        free_bytes=free << 30,
        total_bytes=100 << 30,
        low_below_bytes=8 << 30,
        level=storage_level,
    )
    found = {one.about: one for one in findings_of(a_status(storage=[disk]), now=NOW)}
    one = found["The disk of the database and files"]
    assert (one.level, bool(one.todo), bool(one.see)) == (level, *[level is Level.TROUBLE] * 2)
    assert words in one.said.replace("50.0", "50").replace("100.0", "100")


@pytest.mark.parametrize(
    ("pressed", "level"),
    [(None, Level.FINE), (timedelta(hours=1), Level.FINE), (timedelta(minutes=1), Level.TROUBLE)],
)
def test_too_many_connections_are_told_while_it_is_so(pressed: timedelta | None, level: Level) -> None:
    """The finding names both counts and what to do while connections were turned away lately; afterwards it is fine."""
    connections = ConnectionsState(
        open=90, most=100, refused=2, evicted=1300, pressed_at=None if pressed is None else NOW - pressed
    )
    [one] = [one for one in findings_of(a_status(connections=connections), now=NOW) if one.about == "Connections"]
    assert (one.level, bool(one.todo), bool(one.see)) == (level, *[level is Level.TROUBLE] * 2)
    assert "90 of at most 100 are open." in one.said
    assert ("2 were refused, and 1,300 were closed" in one.said) == (level is Level.TROUBLE)


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (StandbyState.SERVING, "Searches are read from it."),
        (StandbyState.LATE, "it is behind the primary by 3.0 MiB, since"),
        (StandbyState.AWAY, "it does not answer, since"),
        (StandbyState.NOT_A_STANDBY, "follows another primary, or none, since"),
    ],
)
def test_a_standby_that_is_not_read_from_is_told(state: StandbyState, words: str) -> None:
    """The finding says why, since when, and what to do."""
    standby = StandbyStatus(number=2, state=state, since=NOW, lag_bytes=3 << 20)
    found = {one.about: one for one in findings_of(a_status(standbys=[standby]), now=NOW)}
    one = found["Standby 2 of the database"]
    is_trouble = state is not StandbyState.SERVING
    assert (one.level is Level.TROUBLE, bool(one.todo), bool(one.see)) == (is_trouble,) * 3
    assert words in one.said


@pytest.mark.parametrize(
    ("late", "has_backup", "is_trouble", "words"),
    [
        (timedelta(seconds=2), True, False, "All that was written until"),
        (timedelta(seconds=2), False, True, "No backup in it leads to now"),
        (timedelta(minutes=6), True, True, "All that was written until"),
        (None, False, True, "Nothing was archived since the service was started."),
    ],
)
def test_an_archive_that_is_behind_is_told(
    late: timedelta | None, has_backup: bool, is_trouble: bool, words: str
) -> None:
    """The finding says up to when all is archived, and what to do when that is long ago, or no backup leads there."""
    archive = ArchiveState(
        archived_at=None if late is None else NOW - late, backed_up_at=NOW - timedelta(days=1) if has_backup else None
    )
    [found] = [one for one in findings_of(a_status(archive=archive), now=NOW) if one.about == "The archive"]
    assert (found.level is Level.TROUBLE, bool(found.todo), words in found.said) == (is_trouble, is_trouble, True)


def test_a_document_that_failed_does_not_hide_that_uploads_are_refused() -> None:
    """What keeps everybody out is said first, with all that waits, in the catalog or not."""
    index = IndexingState(done=3, running=0, failed=1, waiting_documents=2400, uploads_refused_seconds=9)
    [found] = [one for one in findings_of(a_status(indexing=index), now=NOW) if one.about == "The index"]
    assert "2,400 documents wait for an index" in found.said
    assert "uploads are refused" in found.said


def test_the_page_counts_what_there_is_and_says_that_prefect_is_away(house: House) -> None:
    """The service's figures are there, and without Prefect the page says how to start it."""
    house.client.catalog.upload_file(
        b"The ferry leaves at nine.",
        file_name="ferry.txt",
        document_external_id="ferry",
        await_vector_store_sync=True,
    )
    sources = house.client.sources
    source = sources.report_source("a" * 24, "/srv/handbook")
    assert source.report_no is not None
    item = {"place": "torn.pdf", "code": "file_unreadable", "message": "Torn.", "fingerprint": "1", "since": NOW}
    sources.report_source_items(source.source_id, source.report_no, [item])
    sources.end_source_report(source.source_id, source.report_no)
    page = house.open("health")
    assert not page.exception
    assert {metric.label: metric.value for metric in page.metric}["Documents"] == "1"
    shown = html_of(page)
    assert "2 findings need attention." in shown
    assert "1 document could not be loaded." in shown
    assert "0 questions in seven days, 0 of them not answered." in shown
    assert "Prefect, which has the runs, doesn&#x27;t answer" in shown
    assert "python -m flows.server" in shown
    assert 'href="/help/operating#prefect" target="_blank"' in shown
    assert "No syncs running." in shown
    assert "0 running, 0 waiting." in shown
    assert "1 document can be found." in shown


def test_documents_that_failed_lead_to_their_list(house: House) -> None:
    """The index is in trouble, and the link is to the documents that failed."""
    done = house.client.catalog.upload_file(
        b"Broken.", file_name="broken.txt", document_external_id="broken", await_vector_store_sync=True
    )
    with house.service.owner_connection() as connection:
        connection.execute(
            "UPDATE space_documents SET indexed_version = NULL, attempts = 9, error = 'x',"
            " claimed_until = now() + interval '1 day' WHERE document_id = %s",
            (done.document_id,),
        )
    shown = html_of(house.open("health"))
    assert "1 document could not be indexed." in shown
    assert 'href="documents?of=all&amp;state=failed" target="_self">Open the documents that failed</a>' in shown


def test_one_that_failed_is_told_once() -> None:
    """A sync's last run, and a reply of an agent: each is one thing that somebody should look at."""
    for changes in ({"syncs": SyncsState(running=0, failed=1)}, {"jobs": JobsState(waiting=0, running=0, failed=1)}):
        assert troubles(findings_of(a_status(**changes), now=NOW)) == 1
    found = findings_of(a_status(jobs=JobsState(waiting=0, running=0, failed=1)), now=NOW)
    assert any("1 reply of an agent failed" in one.said for one in found)


def test_a_service_that_is_away_is_a_finding_and_not_the_end_of_the_page(
    service: RunningService, workbench: SetUp
) -> None:
    """The page goes on looking, says how to start the service, and still tells about the flows."""
    with faulty(service.base_url) as proxy:
        workbench(service, CARREL_V1_BASE_URL=proxy.base_url)
        page = draw("health", session=sign_in(service))
        assert "The service and its database respond." in html_of(page)
        proxy.away = True
        page.run()
        assert not page.exception
        assert "2 findings need attention." in html_of(page)
        assert '<section class="carrel-is-trouble"><h2>The service</h2>' in html_of(page)
        assert "See its log." in html_of(page)
        proxy.away = False
        assert "The service and its database respond." in html_of(page.run())


@pytest.fixture
def prefect(
    prefect_api: str,
    workbench: SetUp,
    service: RunningService,
) -> Iterator[PrefectServer]:
    """A workbench on the running service and a Prefect server that nobody serves flows on."""
    workbench(service, prefect=prefect_api)
    server = PrefectServer(prefect_api)
    yield server
    server.close()


def test_flows_that_nobody_serves_are_told_from_those_that_somebody_does(
    prefect: PrefectServer, service: RunningService
) -> None:
    """An offered flow that nobody asks work for waits; the page says what to start."""
    session = sign_in(service)
    offered = prefect.deploy()
    try:
        shown = html_of(draw("health", session=session))
    finally:
        prefect.withdraw(offered)
    assert "no process carries out runs" in shown
    assert "python -m flows serve" in shown
    assert '<a href="ingestion?part=runs" target="_self">Open the runs</a>' in shown


def test_connections_to_prefect_are_closed_when_their_client_is_dropped(workbench: SetUp) -> None:
    """Left to the garbage collector, their sockets would stay open for as long as it likes."""
    workbench(None)
    kept = [health._runs(NOBODY_LISTENS), runs._runs()]
    st.cache_resource.clear()
    assert [one._http.is_closed for one in kept] == [True, True]
