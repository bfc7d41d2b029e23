"""The tests that CI never runs once more when they fail."""

from fnmatch import fnmatch

import pytest

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
