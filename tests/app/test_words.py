"""Times and runs in words, and files for spreadsheets."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from app.formatting import ago, isolate, moment
from app.loading.runs import duration_in_words, reason, times_in_words
from app.ui.progress import csv_of_pages
from carrel.spreadsheets import as_text
from flows.schedules import Times
from tests.harness.cases import cases

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_a_moment_is_told_by_the_clock_of_the_browser(monkeypatch) -> None:
    assert moment(NOW) == "01 Mar 2026, 12:00 UTC"
    monkeypatch.setattr("app.formatting.browser_zone", lambda: ZoneInfo("Pacific/Auckland"))
    assert moment(NOW) == "02 Mar 2026, 01:00 NZDT"


@pytest.mark.parametrize(("seconds", "said"), cases("moments_in_words"))
def test_what_will_be_is_rounded_and_what_was_is_not(seconds: int, said: str) -> None:
    assert ago(NOW + timedelta(seconds=seconds), now=NOW) == said


@pytest.mark.parametrize(
    ("cron", "words"),
    [("15 * * * *", "At 15 minutes past the hour (UTC)"), ("@daily", "@daily (UTC)"), ("0 2 * * *", "At 02:00 (UTC)")],
)
def test_cron_in_words(cron: str, words: str) -> None:
    assert times_in_words(Times(cron, "UTC")) == words


def test_durations_in_words() -> None:
    said = [duration_in_words(seconds) for seconds in (None, 0.4, 59.4, 200, 7500)]
    assert said == ["", "0 s", "59 s", "3 min 20 s", "2 h 5 min"]


@pytest.mark.parametrize(("message", "said"), cases("a_message_loses_the_name_of_a_class_and_nothing_else"))
def test_a_message_loses_the_name_of_a_class_and_nothing_else(message: str, said: str) -> None:
    assert reason(message) == said


def test_a_name_turns_round_nothing_that_stands_beside_it():
    assert [isolate("a\u202egnp.<b>\u2066"), isolate("שלום · 3")] == ["agnp.&lt;b&gt;", "<bdi>שלום · 3</bdi>"]


@pytest.mark.parametrize("first", ["=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠"])  # noqa: RUF001
def test_what_begins_like_a_formula_stays_text(first: str) -> None:
    """Full-width characters too: spreadsheets of some languages accept full-width formulas."""
    assert as_text(f"{first}1+1") == f"'{first}1+1"
    assert as_text(f"a{first}1") == f"a{first}1"


@pytest.mark.parametrize(
    ("most", "rows", "told"), [(1, "a", [1]), (2, "ab", [2]), (3, "abc", [2, 3]), (9, "abcd", [2, 4])]
)
def test_a_file_ends_where_it_is_told_to(most: int, rows: str, told: list[int]) -> None:
    counts: list[int] = []
    pages = ([[letter] for letter in name] for name in ("ab", "cd"))
    written = csv_of_pages(["x"], pages, count=counts.append, most=most)
    assert written.decode("utf-8-sig").split() == ["x", *rows]
    assert counts == told
    assert len(list(pages)) == 2 - len(told)
