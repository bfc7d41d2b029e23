"""Times in words."""

from datetime import UTC, datetime, timedelta

import pytest

from app.formatting import ago

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
A_MOMENT = timedelta(seconds=9)


@pytest.mark.parametrize(
    ("apart", "said"),
    [
        (timedelta(days=30) - A_MOMENT, "in 30 days"),
        (timedelta(days=365) - A_MOMENT, "in 12 months"),
        (timedelta(hours=3) - A_MOMENT, "in 3 hours"),
        (-timedelta(days=30) + A_MOMENT, "29 days ago"),
        (-timedelta(days=1), "1 day ago"),
        (timedelta(0), "just now"),
        (-A_MOMENT, "just now"),
    ],
)
def test_what_will_be_is_rounded_and_what_was_is_not(apart: timedelta, said: str) -> None:
    """A token chosen to end in 30 days ends in 30 days, right after it was made; nothing is older than it is."""
    assert ago(NOW + apart, now=NOW) == said
