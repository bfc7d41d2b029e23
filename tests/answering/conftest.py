"""What tests of answers begin with."""

from collections.abc import Callable, Iterator

import pytest

from tests.answering.asking import Library, a_library
from tests.harness.model_server import ModelServer, serving_model
from tests.harness.services import RunningService


@pytest.fixture
def library(service: RunningService) -> Library:
    """A library whose questions the built-in model answers."""
    return a_library(service)


@pytest.fixture
def model() -> Iterator[ModelServer]:
    """The stand-in endpoint."""
    with serving_model() as server:
        yield server


@pytest.fixture
def asked_library(make_service: Callable[..., RunningService], model: ModelServer) -> Library:
    """A library whose questions the stand-in endpoint's model answers."""
    return a_library(make_service(**model.settings, model_seconds=20.0))
