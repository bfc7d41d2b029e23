"""Runs in words."""

import pytest

from app.loading.labels import duration_in_words, reason, times_in_words
from flows.schedules import Times


@pytest.mark.parametrize(
    ("cron", "words"),
    [("15 * * * *", "At 15 minutes past the hour (UTC)"), ("@daily", "@daily (UTC)"), ("0 2 * * *", "At 02:00 (UTC)")],
)
def test_cron_in_words(cron: str, words: str) -> None:
    """What has no words of its own is shown as it stands."""
    assert times_in_words(Times(cron, "UTC")) == words


def test_durations_in_words() -> None:
    """Seconds, minutes and hours, as far as they tell something."""
    said = [duration_in_words(seconds) for seconds in (None, 0.4, 59.4, 200, 7500)]
    assert said == ["", "0 s", "59 s", "3 min 20 s", "2 h 5 min"]


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("Flow run encountered an exception: SourceError: No folder /srv/x.", "No folder /srv/x."),
        ("flows.errors.SourceBusyError: Wait.", "Wait."),
        ("No file Error: here.md", "No file Error: here.md"),
        ("SourceError: The file Error: here.md is damaged", "The file Error: here.md is damaged"),
        ("", ""),
    ],
)
def test_a_message_loses_the_name_of_a_class_and_nothing_else(message: str, said: str) -> None:
    """What Prefect puts before an error's own words is left out, not what looks like it in them."""
    assert reason(message) == said
