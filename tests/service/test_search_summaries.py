"""The search log in numbers: what is counted, where one day or week ends, and that empty ones are there."""

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from service.platform.identifiers import uuid7
from tests.harness.services import RunningService
from tests.service.directory import another_organization, code, done, organization_id

OPERATION = "admin/searchLog/summarize"
# A Monday.
MONDAY = datetime(2026, 3, 2, tzinfo=UTC)


def logged(
    service: RunningService, at: datetime, *, results: int = 1, feedback: str | None = None, api_key: str | None = None
) -> None:
    """Put a search of that moment into the log."""
    row = (uuid7(), organization_id(service, api_key=api_key), at, uuid7(), results, feedback)
    with service.owner_connection() as connection:
        insert(connection, row)


def insert(connection: psycopg.Connection[Any], row: tuple[Any, ...]) -> None:
    """Add a row of the log."""
    connection.execute(
        "INSERT INTO searches (search_id, organization_id, at, principal_id, mode, result_count, feedback)"
        " VALUES (%s, %s, %s, %s, 'HYBRID', %s, %s)",
        row,
    )


def summary(
    service: RunningService, since: datetime, until: datetime, bucket: str = "day", **options: Any
) -> list[dict[str, Any]]:
    """The buckets from one moment to another."""
    body = {"from": since.isoformat(), "to": until.isoformat(), "bucket": bucket}
    return done(service.call(OPERATION, body, **options))["buckets"]


def numbers(buckets: list[dict[str, Any]]) -> list[tuple[int, ...]]:
    """Searches, without results, thumbs up, thumbs down."""
    return [tuple(one[name] for name in ("searches", "withoutResults", "thumbsUp", "thumbsDown")) for one in buckets]


def test_every_day_is_counted_and_the_empty_ones_are_there(service: RunningService) -> None:
    """All, those without results, and each kind of feedback; a day begins at midnight in UTC, `to` is not included."""
    logged(service, MONDAY, feedback="THUMBS_UP")
    logged(service, MONDAY + timedelta(hours=24) - timedelta(microseconds=1), results=0, feedback="THUMBS_DOWN")
    logged(service, MONDAY + timedelta(days=2), results=0)
    logged(service, MONDAY + timedelta(days=2, hours=3), feedback="THUMBS_UP")
    logged(service, MONDAY + timedelta(days=4))
    logged(service, MONDAY - timedelta(microseconds=1))
    found = summary(service, MONDAY, MONDAY + timedelta(days=4))
    assert [one["from"] for one in found] == [f"2026-03-0{day}T00:00:00Z" for day in (2, 3, 4, 5)]
    assert numbers(found) == [(2, 1, 1, 1), (0, 0, 0, 0), (2, 1, 1, 0), (0, 0, 0, 0)]
    until_it = summary(service, MONDAY, MONDAY + timedelta(days=2, hours=3))
    assert numbers(until_it) == [(2, 1, 1, 1), (0, 0, 0, 0), (1, 1, 0, 0)]


def test_a_week_begins_on_monday(service: RunningService) -> None:
    """Wherever in it one asks from; the first and the last hold only what was asked for."""
    for days in (-7, 0, 1, 6, 7, 8):
        logged(service, MONDAY + timedelta(days=days, hours=1))
    found = summary(service, MONDAY + timedelta(days=1), MONDAY + timedelta(days=8), "week")
    assert [one["from"] for one in found] == ["2026-03-02T00:00:00Z", "2026-03-09T00:00:00Z"]
    assert [one["searches"] for one in found] == [2, 1]
    assert numbers(summary(service, MONDAY - timedelta(days=7), MONDAY + timedelta(days=9), "week")) == [
        (1, 0, 0, 0),
        (3, 0, 0, 0),
        (2, 0, 0, 0),
    ]


def test_no_more_buckets_than_a_page_can_show(service: RunningService) -> None:
    """400 are given, one more is refused with what to do; so is a time that ends before it begins."""
    end = MONDAY + timedelta(days=400)
    assert len(summary(service, MONDAY, end)) == 400
    body = {"from": MONDAY.isoformat(), "to": (end + timedelta(microseconds=1)).isoformat(), "bucket": "day"}
    refused = service.call(OPERATION, body)
    assert code(refused) == (400, "too_many_buckets")
    assert "Ask for weeks" in refused.json()["error"]["message"]
    assert len(done(service.call(OPERATION, {**body, "bucket": "week"}))["buckets"]) == 58
    for until in (MONDAY, MONDAY - timedelta(days=1)):
        refused = service.call(OPERATION, {**body, "to": until.isoformat()})
        assert refused.status_code == 400
        assert refused.json()["error"]["details"][0]["field"] == "to"


@pytest.mark.parametrize("bucket", ["day", "week"])
def test_the_ends_of_the_calendar(service: RunningService, bucket: str) -> None:
    """Its first and its last day can be asked for."""
    first, last = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)
    assert numbers(summary(service, first, first + timedelta(days=1), bucket)) == [(0, 0, 0, 0)]
    assert numbers(summary(service, last, last + timedelta(hours=23), bucket)) == [(0, 0, 0, 0)]
    whole = {"from": first.isoformat(), "to": last.isoformat(), "bucket": bucket}
    assert code(service.call(OPERATION, whole)) == (400, "too_many_buckets")


def test_it_is_for_admins_and_counts_their_organization_alone(service: RunningService) -> None:
    """A member is refused; another organization's searches are counted by nobody here."""
    stranger, member = another_organization(service), service.new_user("member@example.test")
    logged(service, MONDAY)
    logged(service, MONDAY, api_key=stranger)
    logged(service, MONDAY, api_key=stranger)
    until = MONDAY + timedelta(days=1)
    assert [summary(service, MONDAY, until, api_key=key)[0]["searches"] for key in (None, stranger)] == [1, 2]
    body = {"from": MONDAY.isoformat(), "to": until.isoformat(), "bucket": "day"}
    assert code(service.call(OPERATION, body, api_key=member)) == (403, "admin_only")
    for missing in body:
        assert service.call(OPERATION, {key: value for key, value in body.items() if key != missing}).status_code == 400
    assert service.call(OPERATION, {**body, "bucket": "month"}).status_code == 400
