"""The order of test files: those that wait for processes among those that compute, so that no core is idle."""

import pytest

# Tests of these kill, restart and await processes, half of their time; three of their files at a time need one core.
WAITING = ("tests/app/loading/", "tests/browser/", "tests/faults/", "tests/flows/", "tests/notebooks/")
# They take seconds a file: none is left to one process at the end.
LAST = "tests/unit/"


def mix_files(items: list[pytest.Item]) -> None:
    """Spread the files that wait evenly over the others, in their own order; the shortest files stay at the end."""
    tests = dict[str, list[pytest.Item]]()
    for item in items:
        tests.setdefault(item.nodeid.partition("::")[0], []).append(item)
    last = [file for file in tests if file.startswith(LAST)]
    waiting = [file for file in tests if file.startswith(WAITING)]
    computing = [file for file in tests if not file.startswith((*WAITING, LAST))]
    places = [(place / len(part), file) for part in (waiting, computing) for place, file in enumerate(part)]
    items[:] = [item for file in [*(file for _, file in sorted(places)), *last] for item in tests[file]]
