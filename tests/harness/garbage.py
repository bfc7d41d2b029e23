"""Tests search for garbage without walking, again and again, what all of them together have imported."""

from collections.abc import Generator

import pytest

from service.__main__ import without_collecting


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep imports out of later garbage searches: 900,000 objects take half a second each, and every flow test asks."""
    with without_collecting():
        return (yield)
