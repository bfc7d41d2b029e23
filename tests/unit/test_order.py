"""The order in which test files run."""

from types import SimpleNamespace
from typing import Any

from tests.harness.order import mix_files


def test_files_that_wait_are_spread_over_those_that_compute() -> None:
    """None is lost, each file stays whole and in its folder's order, and unit tests come last."""
    files = [
        *(f"tests/faults/test_{number}.py" for number in range(4)),
        *(f"tests/service/test_{number}.py" for number in range(8)),
        *(f"tests/unit/test_{number}.py" for number in range(2)),
    ]
    items: list[Any] = [SimpleNamespace(nodeid=f"{file}::test_{test}") for file in files for test in range(2)]
    found = list(items)
    mix_files(found)
    assert sorted(one.nodeid for one in found) == sorted(one.nodeid for one in items)
    folders = [one.nodeid.split("/")[1] for one in found[::2]]
    assert folders == ["faults", *["service", "service", "faults"] * 3, "service", "service", "unit", "unit"]
    assert [one.nodeid for one in found if "service" in one.nodeid] == [one.nodeid for one in items[8:24]]
