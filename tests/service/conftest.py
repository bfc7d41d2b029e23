"""What tests of agents, conversations and logs begin with."""

import io
import logging
import sys
from collections.abc import Iterator
from typing import cast

import pytest
import structlog

from service.platform.logs import configure
from tests.harness.services import RunningService
from tests.service.conversations import Desk, Script, a_desk


@pytest.fixture
def desk(service: RunningService) -> Desk:
    """An agent that everybody may use, over a document that everybody may read."""
    return a_desk(service)


@pytest.fixture
def script(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Script:
    """The model, as the test has it; what it tells is written at once, and watched for often."""
    monkeypatch.setattr("service.domains.conversations.drafts.PAUSE_SECONDS", 0)
    monkeypatch.setattr("service.domains.conversations.streaming.LOOK_SECONDS", 0.02)
    script = Script(desk.service)
    monkeypatch.setattr("service.domains.answering.answer", script)
    return script


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
