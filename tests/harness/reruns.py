"""Rules for tests that CI runs once more when they fail: which never are, and what the first failure was."""

from fnmatch import fnmatch

import pytest
from _pytest.terminal import TerminalReporter

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
    """Mark the tests whose first failure counts."""
    for item in items:
        if any(fnmatch(item.nodeid, pattern) for pattern in NEVER_RUN_AGAIN):
            item.add_marker(pytest.mark.flaky(reruns=0))


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """Show why each test failed that was run once more: a test that passed only then has to be mended."""
    for report in terminalreporter.stats.get("rerun", []):
        terminalreporter.write_sep("_", f"first run of {report.nodeid}")
        report.toterminal(terminalreporter._tw)
