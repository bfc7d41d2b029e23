"""The search log: searches with results and feedback, and statistics."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import event
from structlog.testing import capture_logs

from service.platform.identifiers import uuid7
from tests.harness.cases import statement
from tests.harness.documents import create_collection, uploaded
from tests.harness.jobs import until
from tests.harness.services import RunningService
from tests.service.directory import a_user, another_organization, code, done, organization_id, walk

ADA = "ada@example.test"
SUMMARIZE = "admin/searchLog/summarize"
# A Monday.
MONDAY = datetime(2026, 3, 2, tzinfo=UTC)


def search(service: RunningService, query: str, *, api_key: str | None = None, **body: Any) -> str:
    body = {"searchQuery": query, **body}
    return done(service.call("search/searchDocumentCatalog", body, api_key=api_key))["searchId"]


def feedback(service: RunningService, search_id: str, what: str, **body: Any) -> None:
    done(service.call("search/submitSearchFeedback", {"searchId": search_id, "feedback": what, **body}))


def logged(service: RunningService, page_size: int = 1000, **body: Any) -> list[dict[str, Any]]:
    return walk(service, "admin/searchLog/query", body, page_size=page_size)


def words(found: list[dict[str, Any]]) -> list[str]:
    return [one["query"] for one in found]


def a_log(service: RunningService) -> RunningService:
    a_user(service, ADA, name="Ada")
    uploaded(service, "ferry", "Dogs may travel on the ferry.", file_name="a.md", internalPublic="true")
    search(service, "may I bring my dog")
    search(service, "ferry dogs", userEmail=ADA, searchOptions={"mode": "LEXICAL"})
    search(service, "zeppelin", searchOptions={"mode": "LEXICAL"})
    search(service, "ferry", searchOptions={"mode": "SEMANTIC"})
    return service


@pytest.fixture(scope="module")
def kept(module_service: RunningService) -> RunningService:
    return a_log(module_service)


@pytest.fixture
def searched(service: RunningService) -> RunningService:
    return a_log(service)


def test_a_search_is_logged_with_who_and_what_and_how(kept: RunningService) -> None:
    found = logged(kept)
    assert words(found) == ["ferry", "zeppelin", "ferry dogs", "may I bring my dog"]
    assert [one["mode"] for one in found] == ["SEMANTIC", "LEXICAL", "LEXICAL", "HYBRID"]
    assert [one["resultCount"] for one in found] == [1, 0, 1, 1]
    admin = kept.admin_email
    assert [one["actor"]["email"] for one in found] == [admin, admin, ADA, admin]
    assert found[2]["actor"]["name"] == "Ada"
    assert found[0].keys() == {"searchId", "at", "actor", "query", "mode", "resultCount"}
    assert found[1].keys() == found[0].keys() | {"hasWords"}


def test_the_log_is_narrowed(kept: RunningService) -> None:
    whole = logged(kept)
    assert words(logged(kept, withoutResults=True)) == ["zeppelin"]
    middle = whole[1]["at"]
    assert logged(kept, to=middle) == whole[2:]
    assert logged(kept, **{"from": middle}) == whole[:2]
    assert words(logged(kept, withoutResults=True, **{"from": middle})) == ["zeppelin"]
    assert logged(kept, withoutResults=True, to=middle) == []
    assert logged(kept, ids=[whole[2]["searchId"], str(uuid7())]) == [whole[2]]


def test_a_search_of_a_collection_names_it(searched: RunningService) -> None:
    collection_id = create_collection(searched, "Rules")
    done(
        searched.call(
            "search/searchDocumentCollection", {"searchQuery": "leash", "documentCollectionId": collection_id}
        )
    )
    assert logged(searched)[0]["documentCollectionId"] == collection_id


def test_a_search_whose_words_nothing_has_is_told_from_others(searched: RunningService) -> None:
    """Unreadable words don't count; semantic searches, and words of every text, are exempt."""
    uploaded(searched, "kite", "Kites are put away in a storm.", file_name="b.md")
    search(searched, "quixotic windmills")
    search(searched, "kites", userEmail=ADA)
    search(searched, "the")
    assert {one["query"]: (one.get("hasWords"), one["resultCount"] > 0) for one in logged(searched)} == {
        "the": (None, True),
        "kites": (False, True),
        "quixotic windmills": (False, True),
        "ferry": (None, True),
        "zeppelin": (False, False),
        "ferry dogs": (True, True),
        "may I bring my dog": (True, True),
    }
    assert words(logged(searched, withoutWords=True)) == ["kites", "quixotic windmills", "zeppelin"]
    assert words(logged(searched, withoutWords=True, withoutResults=True)) == ["zeppelin"]


def test_the_newest_feedback_counts(searched: RunningService) -> None:
    first = logged(searched)[-1]["searchId"]
    feedback(searched, first, "THUMBS_UP")
    assert words(logged(searched, feedback="THUMBS_UP")) == ["may I bring my dog"]
    feedback(searched, first, "THUMBS_DOWN", userEmail=ADA, comments="too long")
    assert logged(searched, feedback="THUMBS_UP") == []
    [down] = logged(searched, feedback="THUMBS_DOWN")
    assert (down["searchId"], down["feedback"]) == (first, "THUMBS_DOWN")
    assert logged(searched)[-1] == down
    entries = walk(searched, "admin/auditLog/query", {"targetId": first}, page_size=10)
    assert [one["details"]["feedback"] for one in entries] == ["THUMBS_DOWN", "THUMBS_UP"]


def test_every_search_is_on_one_page_of_a_walk(searched: RunningService) -> None:
    fill(searched, datetime.now(UTC) - timedelta(days=1), count=100)
    before = logged(searched)
    assert len(before) == 104
    first = done(searched.call("admin/searchLog/query", {"pageSize": 30}))
    search(searched, "later")
    second = done(searched.call("admin/searchLog/query", {"pageSize": 30, "pageToken": first["nextPageToken"]}))
    assert first["searches"] + second["searches"] == before[:60]
    assert logged(searched, page_size=7)[1:] == before


def test_words_are_in_no_log_line(service: RunningService) -> None:
    with capture_logs() as entries:
        feedback(service, search(service, "Quetzalcoatl"), "THUMBS_UP", comments="Huitzilopochtli")
        assert words(logged(service)) == ["Quetzalcoatl"]
        # A request is logged when its answer has been sent, which may be after the answer was read here.
        until(lambda: "searchLog/query" in str(entries))
    lines = str(entries)
    assert lines.count("searchLog/query") == 1
    assert "Quetzalcoatl" not in lines
    assert "Huitzilopochtli" not in lines


FILL = statement("many_searches")
USUAL = {"count": 1, "step": timedelta(0), "result_count": 3, "has_words": True, "feedback": None}


def fill(service: RunningService, at: datetime, *, api_key: str | None = None, **values: Any) -> None:
    where = {"at": at, "organization": organization_id(service, api_key=api_key)}
    service.execute(FILL, USUAL | where | values)


@contextmanager
def statements(service: RunningService) -> Iterator[list[tuple[str, Any]]]:
    engine = service.runtime.database._engine.sync_engine
    asked: list[tuple[str, Any]] = []

    def note(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_rest: Any) -> None:
        asked.append((statement, parameters))

    event.listen(engine, "before_cursor_execute", note)
    yield asked
    event.remove(engine, "before_cursor_execute", note)


def test_a_page_is_one_query_by_an_index(own_service: RunningService) -> None:
    """For any number of rows, rare matches, and long pages."""
    searched, now = a_log(own_service), datetime.now(UTC)
    fill(searched, now - timedelta(days=1), count=50_000, step=timedelta(seconds=1))
    long_ago = now - timedelta(days=300)
    fill(searched, long_ago, count=5, feedback="THUMBS_DOWN")
    fill(searched, long_ago, count=5, result_count=0)
    fill(searched, long_ago, count=4, has_words=False)
    expected = {
        "ix_searches_at": {},
        "ix_searches_feedback": {"feedback": "THUMBS_DOWN"},
        "ix_searches_without_results": {"withoutResults": True},
        "ix_searches_without_words": {"withoutWords": True},
    }
    with searched.owner_connection() as connection:
        connection.execute("ANALYZE searches, free_texts, principals")
        for index, body in expected.items():
            with statements(searched) as asked:
                page = done(searched.call("admin/searchLog/query", {"pageSize": 500, **body}))["searches"]
            assert len(page) == (500 if not body else 5 + ("withoutResults" in body))  # "zeppelin" is one more
            reads = [one for one in asked if "FROM searches" in one[0]]
            assert len(reads) == 1
            assert len(asked) < 10
            plan = "\n".join(line for (line,) in connection.execute(f"EXPLAIN {reads[0][0]}", reads[0][1]))
            assert index in plan, plan
            assert "Seq Scan on searches" not in plan, plan


def summary(
    service: RunningService, since: datetime, until: datetime, bucket: str = "day", **options: Any
) -> list[dict[str, Any]]:
    body = {"from": since.isoformat(), "to": until.isoformat(), "bucket": bucket}
    return done(service.call(SUMMARIZE, body, **options))["buckets"]


def numbers(buckets: list[dict[str, Any]]) -> list[tuple[int, ...]]:
    return [tuple(one[name] for name in ("searches", "withoutResults", "thumbsUp", "thumbsDown")) for one in buckets]


def test_every_day_is_counted_and_the_empty_ones_are_there(service: RunningService) -> None:
    fill(service, MONDAY, feedback="THUMBS_UP")
    fill(service, MONDAY + timedelta(hours=24) - timedelta(microseconds=1), result_count=0, feedback="THUMBS_DOWN")
    fill(service, MONDAY + timedelta(days=2), result_count=0)
    fill(service, MONDAY + timedelta(days=2, hours=3), feedback="THUMBS_UP")
    fill(service, MONDAY + timedelta(days=4))
    fill(service, MONDAY - timedelta(microseconds=1))
    found = summary(service, MONDAY, MONDAY + timedelta(days=4))
    assert [one["from"] for one in found] == [f"2026-03-0{day}T00:00:00Z" for day in (2, 3, 4, 5)]
    assert numbers(found) == [(2, 1, 1, 1), (0, 0, 0, 0), (2, 1, 1, 0), (0, 0, 0, 0)]
    until_it = summary(service, MONDAY, MONDAY + timedelta(days=2, hours=3))
    assert numbers(until_it) == [(2, 1, 1, 1), (0, 0, 0, 0), (1, 1, 0, 0)]


def test_a_week_begins_on_monday(service: RunningService) -> None:
    for days in (-7, 0, 1, 6, 7, 8):
        fill(service, MONDAY + timedelta(days=days, hours=1))
    found = summary(service, MONDAY + timedelta(days=1), MONDAY + timedelta(days=8), "week")
    assert [one["from"] for one in found] == ["2026-03-02T00:00:00Z", "2026-03-09T00:00:00Z"]
    assert [one["searches"] for one in found] == [2, 1]
    assert numbers(summary(service, MONDAY - timedelta(days=7), MONDAY + timedelta(days=9), "week")) == [
        (1, 0, 0, 0),
        (3, 0, 0, 0),
        (2, 0, 0, 0),
    ]


def test_a_day_in_which_clocks_go_forward_has_23_hours(service: RunningService) -> None:
    starts = ["2026-03-28T00:00:00Z", "2026-03-29T00:00:00Z", "2026-03-29T23:00:00Z"]
    for start in starts:
        fill(service, datetime.fromisoformat(start))
    body = {"from": starts[0], "to": "2026-03-30T00:00:00Z", "bucket": "day", "timeZone": "Europe/London"}
    found = done(service.call(SUMMARIZE, body))["buckets"]
    assert [(one["from"], one["searches"]) for one in found] == [(start, 1) for start in starts]


def test_no_more_buckets_than_a_page_can_show(service: RunningService) -> None:
    end = MONDAY + timedelta(days=400)
    assert len(summary(service, MONDAY, end)) == 400
    body = {"from": MONDAY.isoformat(), "to": (end + timedelta(microseconds=1)).isoformat(), "bucket": "day"}
    refused = service.call(SUMMARIZE, body)
    assert code(refused) == (400, "too_many_buckets")
    assert "Choose weeks" in refused.json()["error"]["message"]
    assert len(done(service.call(SUMMARIZE, {**body, "bucket": "week"}))["buckets"]) == 58
    for end in (MONDAY, MONDAY - timedelta(days=1)):
        refused = service.call(SUMMARIZE, {**body, "to": end.isoformat()})
        assert refused.status_code == 400
        assert refused.json()["error"]["details"][0]["field"] == "to"


@pytest.mark.parametrize("bucket", ["day", "week"])
def test_the_ends_of_the_calendar_can_be_asked_for(module_service: RunningService, bucket: str) -> None:
    first, last = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)
    assert numbers(summary(module_service, first, first + timedelta(days=1), bucket)) == [(0, 0, 0, 0)]
    assert numbers(summary(module_service, last, last + timedelta(hours=23), bucket)) == [(0, 0, 0, 0)]
    whole = {"from": first.isoformat(), "to": last.isoformat(), "bucket": bucket}
    assert code(module_service.call(SUMMARIZE, whole)) == (400, "too_many_buckets")


def test_it_counts_the_searches_of_its_organization_alone(service: RunningService) -> None:
    stranger, until = another_organization(service), MONDAY + timedelta(days=1)
    for key in (None, stranger, stranger):
        fill(service, MONDAY, api_key=key)
    assert [summary(service, MONDAY, until, api_key=key)[0]["searches"] for key in (None, stranger)] == [1, 2]


def test_a_summary_is_of_a_time_by_days_or_weeks(module_service: RunningService) -> None:
    body = {"from": MONDAY.isoformat(), "to": (MONDAY + timedelta(days=1)).isoformat(), "bucket": "day"}
    wrong = [{**body, name: "month"} for name in ("bucket", "timeZone")]
    wrong += [{name: body[name] for name in body.keys() - {each}} for each in body]
    wrong += [{**body, "timeZone": name} for name in ("", "Europe", "../UTC", "zone.tab", "\0")]
    assert [module_service.call(SUMMARIZE, each).status_code for each in wrong] == [400] * 10
