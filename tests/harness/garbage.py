"""Garbage searches of tests skip the objects of imports."""

from collections.abc import Generator

import pytest

from service.__main__ import without_collecting


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Freeze imports out of later garbage searches: 900,000 objects take half a second each, in every flow test."""
    with without_collecting():
        return (yield)
