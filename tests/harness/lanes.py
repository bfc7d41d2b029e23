"""Tests left by `make test` to `make test-all` (tests/slow.toml), and how CI repeats a test that failed."""

import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

SLOW: dict[str, dict[str, str]] = tomllib.loads(Path(__file__).parents[1].joinpath("slow.toml").read_text())


# What these find depends on chance, and is a leak or a loss: passing the second time says nothing.
NEVER_RUN_AGAIN = (
    "tests/properties/*",
    "tests/faults/test_secrets_stay_secret.py*",
    "tests/faults/test_soak.py*",
    "tests/service/test_permissions_*",
    "tests/service/test_reach.py*",
    "tests/service/test_revocation.py*",
    "tests/service/test_tenancy.py*",
)


def mark_lanes(items: list[pytest.Item]) -> None:
    """Mark tests that are not repeated after a failure, and tests left out by `make test`."""
    for item in items:
        path, _, name = item.nodeid.partition("::")
        if any(re.fullmatch(rf"(?:{pattern})(\[.*)?", name, re.DOTALL) for pattern in SLOW.get(path, ())):
            item.add_marker(pytest.mark.slow)
        if any(fnmatch(item.nodeid, pattern) for pattern in NEVER_RUN_AGAIN):
            item.add_marker(pytest.mark.flaky(reruns=0))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Start every fixture anew for a test that is repeated: a shared service holds what the first run left."""
    if getattr(item, "execution_count", 1) > 1:
        item.session._setupstate.teardown_exact(None)
