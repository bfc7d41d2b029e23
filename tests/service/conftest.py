"""What tests of agents, conversations, syncs and logs begin with."""

import io
import logging
import sys
from collections.abc import AsyncIterator, Iterator
from typing import cast

import pytest
import structlog

from service.platform.logs import configure
from tests.harness.corpus import Corpus
from tests.harness.mongo.processes import MongoServer
from tests.harness.services import RunningService, ServiceHarness
from tests.service.conversations import Desk, Script, Visitor, a_desk, a_visitor
from tests.service.docstore import LOOPBACK, Syncing


@pytest.fixture
async def corpus(service: RunningService) -> AsyncIterator[Corpus]:
    """An empty catalog to write documents into directly."""
    corpus = await Corpus.open(service)
    yield corpus
    await corpus.close()


@pytest.fixture
def desk(service: RunningService) -> Desk:
    """An agent that everybody may use, over a document that everybody may read."""
    return a_desk(service)


@pytest.fixture
def visitor(desk: Desk) -> Visitor:
    """A person with a token for messages."""
    return a_visitor(desk)


@pytest.fixture
def script(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Script:
    """The model, as the test has it; what it tells is written at once, and watched for often."""
    monkeypatch.setattr("service.domains.conversations.drafts.PAUSE_SECONDS", 0)
    monkeypatch.setattr("service.domains.conversations.streaming.LOOK_SECONDS", 0.02)
    script = Script(desk.service)
    monkeypatch.setattr("service.domains.answering.answer", script)
    return script


@pytest.fixture(scope="session")
def syncing_service(service_harness: ServiceHarness) -> Iterator[RunningService]:
    """A service that may connect to document databases on loopback."""
    service, stack = service_harness.start(docstore_allowed_hosts=LOOPBACK)
    yield service
    service_harness.stop(service, stack)


@pytest.fixture(scope="session")
def waiting_service(service_harness: ServiceHarness) -> Iterator[RunningService]:
    """The same, but its syncs wait for another replica."""
    service, stack = service_harness.start(docstore_allowed_hosts=LOOPBACK, docstore_workers=0)
    yield service
    service_harness.stop(service, stack)


@pytest.fixture
def syncing(syncing_service: RunningService, mongo: MongoServer) -> Iterator[Syncing]:
    """A collection in a new organization, to sync from a document database."""
    with syncing_service.new_organization() as organization:
        yield Syncing(organization, mongo)


@pytest.fixture
def quiet(waiting_service: RunningService, mongo: MongoServer) -> Iterator[Syncing]:
    """The same, but no sync is run."""
    with waiting_service.new_organization() as organization:
        yield Syncing(organization, mongo)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A document database that can't be reached is asked once."""
    monkeypatch.setattr("service.domains.docstore.asking.MOST_ATTEMPTS", 1)


@pytest.fixture
def service_logs() -> Iterator[io.StringIO]:
    """Everything that a service logs when it is asked to log all; afterwards logging is as it was."""
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
