"""Fixtures for tests of answers."""

from collections.abc import Iterator

import pytest

from tests.answering.asking import Library, a_library
from tests.harness.model_server import ModelServer, serving_model
from tests.harness.services import RunningService


@pytest.fixture
def library(service: RunningService) -> Library:
    return a_library(service)


@pytest.fixture(scope="module")
def endpoint() -> Iterator[ModelServer]:
    with serving_model() as server:
        yield server


@pytest.fixture
def model(endpoint: ModelServer) -> ModelServer:
    """Return the endpoint without earlier requests."""
    endpoint.requests.clear()
    endpoint.keys.clear()
    return endpoint
