"""Tests left by `make test` to `make test-all` (tests/slow.toml), and tests that CI never repeats."""

import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

SLOW: dict[str, dict[str, str]] = tomllib.loads(Path(__file__).parents[1].joinpath("slow.toml").read_text())


def mark_slow(items: list[pytest.Item]) -> None:
    for item in items:
        path, _, name = item.nodeid.partition("::")
        if any(re.fullmatch(rf"(?:{pattern})(\[.*)?", name, re.DOTALL) for pattern in SLOW.get(path, ())):
            item.add_marker(pytest.mark.slow)


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


def mark_never_run_again(items: list[pytest.Item]) -> None:
    for item in items:
        if any(fnmatch(item.nodeid, pattern) for pattern in NEVER_RUN_AGAIN):
            item.add_marker(pytest.mark.flaky(reruns=0))
