"""Fixtures for tests of agents, conversations, syncs, rebuilds and logs."""

import io
import logging
import sys
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import cast
from unittest.mock import AsyncMock

import pytest
import structlog

from service.platform.logs import configure
from tests.harness.corpus import Corpus
from tests.harness.mongo.processes import MongoServer
from tests.harness.services import SWEEP_SECONDS, RunningService, ServiceHarness
from tests.service.conversations import Desk, Script, Visitor, a_desk, a_visitor, take_answers
from tests.service.docstore import LOOPBACK, Syncing
from tests.service.races import Race
from tests.service.rebuilds import TEXTS, Shelf, a_shelf


@pytest.fixture
async def corpus(service: RunningService) -> AsyncIterator[Corpus]:
    corpus = await Corpus.open(service)
    yield corpus
    await corpus.close()


@pytest.fixture
def desk(service: RunningService) -> Desk:
    return a_desk(service)


@pytest.fixture
def visitor(desk: Desk) -> Visitor:
    return a_visitor(desk)


@pytest.fixture
def script(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Script:
    return take_answers(desk.service, monkeypatch)


@pytest.fixture(scope="session")
def syncing_service(service_harness: ServiceHarness) -> Iterator[RunningService]:
    """A service with permission to connect to document databases on loopback."""
    with service_harness.running(docstore_allowed_hosts=LOOPBACK) as service:
        yield service


@pytest.fixture(scope="session")
def waiting_service(service_harness: ServiceHarness) -> Iterator[RunningService]:
    """A service for syncs with runs that wait for a second replica."""
    with service_harness.running(docstore_allowed_hosts=LOOPBACK, docstore_workers=0) as service:
        yield service


@pytest.fixture
def syncing(syncing_service: RunningService, mongo: MongoServer) -> Iterator[Syncing]:
    with syncing_service.new_organization() as organization:
        yield Syncing(organization, mongo)


@pytest.fixture
def quiet(waiting_service: RunningService, mongo: MongoServer) -> Iterator[Syncing]:
    with waiting_service.new_organization() as organization:
        yield Syncing(organization, mongo)


@pytest.fixture(scope="module")
def rebuilding_service(service_harness: ServiceHarness) -> Iterator[RunningService]:
    with service_harness.running(sweep_seconds=SWEEP_SECONDS, database_pool_size=10) as service:
        yield service


@pytest.fixture
def paused(rebuilding_service, embeddings, monkeypatch) -> Iterator[RunningService]:
    monkeypatch.setattr("service.domains.documents.rebuilds.service._run_now", AsyncMock())
    with rebuilding_service.new_organization() as organization:
        yield organization
        embeddings.behave()
    rebuilding_service.execute("UPDATE index_rebuilds SET status = 'CANCELLED' WHERE status = 'RUNNING'")


@pytest.fixture(params=["collection", "catalog"])
def shelf(request: pytest.FixtureRequest, paused: RunningService) -> Shelf:
    shelf = a_shelf(paused) if request.param == "collection" else Shelf(paused, None)
    for name in TEXTS:
        shelf.add(name)
    return shelf


@pytest.fixture
def race(monkeypatch: pytest.MonkeyPatch) -> Iterator[Race]:
    with ThreadPoolExecutor(6) as pool:
        race = Race(pool, monkeypatch)
        yield race
        race.release()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Try an unreachable document database only once."""
    monkeypatch.setattr("service.domains.documents.docstore.asking.MOST_ATTEMPTS", 1)


@pytest.fixture
def service_logs() -> Iterator[io.StringIO]:
    names = ("", "pymongo", "alembic.runtime.plugins", "procrastinate", "psycopg.pool")
    levels = {name: logging.getLogger(name).level for name in names}
    handlers = logging.getLogger().handlers[:]
    structured = structlog.get_config()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stderr", io.StringIO())
        configure("DEBUG")
        logged = cast("io.StringIO", sys.stderr)
    yield logged
    logging.getLogger().handlers[:] = handlers
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)
    structlog.configure(**structured)


@pytest.fixture
def elsewhere(shared_service: RunningService) -> Iterator[RunningService]:
    with shared_service.new_organization() as organization:
        yield organization
