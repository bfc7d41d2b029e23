"""The tests that `make test` leaves to `make test-all`, as another test holds their guarantee (tests/slow.toml)."""

import re
import tomllib
from pathlib import Path

import pytest

SLOW: dict[str, dict[str, str]] = tomllib.loads(Path(__file__).parents[1].joinpath("slow.toml").read_text())


def mark_slow(items: list[pytest.Item]) -> None:
    for item in items:
        path, _, name = item.nodeid.partition("::")
        if any(re.fullmatch(rf"(?:{pattern})(\[.*)?", name, re.DOTALL) for pattern in SLOW.get(path, ())):
            item.add_marker(pytest.mark.slow)
