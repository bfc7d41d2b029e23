"""Tests search for garbage without walking, again and again, what all of them together have imported."""

from collections.abc import Generator

import pytest

from service.__main__ import without_collecting


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Leave what is imported while tests are found out of every later search for garbage.

    Those are 900,000 objects: to search them once takes half a second, and every test of flows asks for it.
    """
    with without_collecting():
        return (yield)
