"""What tests of agents and conversations begin with."""

import pytest

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
