"""The search log: who searched for what, how it went, and what people thought of it."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from time import monotonic, sleep
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import event
from structlog.testing import capture_logs

from service.platform.identifiers import uuid7
from tests.harness.documents import uploaded
from tests.harness.services import RunningService
from tests.service.directory import a_user, another_organization, code, done, organization_id, walk

ADA = "ada@example.test"


def search(service: RunningService, query: str, **body: Any) -> str:
    """Search the catalog; the search's id."""
    return done(service.call("search/searchDocumentCatalog", {"searchQuery": query, **body}))["searchId"]


def feedback(service: RunningService, search_id: str, what: str, **body: Any) -> None:
    """Say what one thinks of a search."""
    done(service.call("search/submitSearchFeedback", {"searchId": search_id, "feedback": what, **body}))


def logged(service: RunningService, page_size: int = 1000, **body: Any) -> list[dict[str, Any]]:
    """The log, newest first."""
    return walk(service, "admin/searchLog/query", body, page_size=page_size)


def words(found: list[dict[str, Any]]) -> list[str]:
    """What was searched for."""
    return [one["query"] for one in found]


@pytest.fixture
def searched(service: RunningService) -> RunningService:
    """A service with one document, and four searches of it."""
    a_user(service, ADA, name="Ada")
    uploaded(service, "ferry", "Dogs may travel on the ferry.", file_name="a.md", internalPublic="true")
    search(service, "may I bring my dog")
    search(service, "ferry dogs", userEmail=ADA, searchOptions={"mode": "LEXICAL"})
    search(service, "zeppelin", searchOptions={"mode": "LEXICAL"})
    search(service, "ferry", searchOptions={"mode": "SEMANTIC"})
    return service


def test_a_search_is_logged_with_who_and_what_and_how(searched: RunningService) -> None:
    """Newest first: the words, whom it was done as, mode, number of results; no feedback where none was given."""
    found = logged(searched)
    assert words(found) == ["ferry", "zeppelin", "ferry dogs", "may I bring my dog"]
    assert [one["mode"] for one in found] == ["SEMANTIC", "LEXICAL", "LEXICAL", "HYBRID"]
    assert [one["resultCount"] for one in found] == [1, 0, 1, 1]
    assert [one["actor"]["email"] for one in found] == [
        searched.admin_email,
        searched.admin_email,
        ADA,
        searched.admin_email,
    ]
    assert found[2]["actor"]["name"] == "Ada"
    assert "documentCollectionId" not in found[0]
    assert all("feedback" not in one for one in found)
    assert found[0].keys() == {"searchId", "at", "actor", "query", "mode", "resultCount"}
    assert found[1].keys() == found[0].keys() | {"hasWords"}


def test_a_search_of_a_collection_names_it(searched: RunningService) -> None:
    """`documentCollectionId` tells it from a search of the catalog."""
    made = done(searched.call("documentCollections/createDocumentCollection", {"collectionName": "Rules"}))
    body = {"searchQuery": "leash", "documentCollectionId": made["documentCollectionId"]}
    done(searched.call("search/searchDocumentCollection", body))
    assert logged(searched)[0]["documentCollectionId"] == made["documentCollectionId"]


def test_the_log_is_narrowed(searched: RunningService) -> None:
    """To searches without results, to times (`from` included, `to` not), and to both."""
    whole = logged(searched)
    assert words(logged(searched, withoutResults=True)) == ["zeppelin"]
    middle = whole[1]["at"]
    assert logged(searched, to=middle) == whole[2:]
    assert logged(searched, **{"from": middle}) == whole[:2]
    assert words(logged(searched, withoutResults=True, **{"from": middle})) == ["zeppelin"]
    assert logged(searched, withoutResults=True, to=middle) == []
    assert logged(searched, ids=[whole[2]["searchId"], str(uuid7())]) == [whole[2]]


def test_a_search_whose_words_nothing_has_is_told_from_others(searched: RunningService) -> None:
    """By any way that looks for words: what it found is near in meaning alone. Words that one may not read don't count.

    A search by meaning looks for none, and neither does one of words that every text has.
    """
    uploaded(searched, "kite", "Kites are put away in a storm.", file_name="b.md")
    search(searched, "quixotic windmills")
    search(searched, "kites", userEmail=ADA)
    search(searched, "the")
    found = {one["query"]: (one.get("hasWords"), one["resultCount"] > 0) for one in logged(searched)}
    assert found == {
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
    """Whoever gave it, on the search or one of its results; the audit log keeps all of it."""
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


def test_feedback_that_is_refused_changes_nothing(searched: RunningService) -> None:
    """Feedback on another organization's search, or on none, is a 404 and is kept nowhere."""
    other = another_organization(searched)
    body = {"searchId": logged(searched)[0]["searchId"], "feedback": "THUMBS_UP"}
    assert code(searched.call("search/submitSearchFeedback", body, api_key=other))[0] == 404
    assert code(searched.call("search/submitSearchFeedback", body | {"searchId": str(uuid7())}))[0] == 404
    assert logged(searched, feedback="THUMBS_UP") == []


def test_every_search_is_on_one_page_of_a_walk(searched: RunningService) -> None:
    """Each once, though others are logged meanwhile and many share a moment."""
    organization = organization_id(searched)
    fill(searched, organization, count=100, at=datetime.now(UTC) - timedelta(days=1))
    before = logged(searched)
    assert len(before) == 104
    first = done(searched.call("admin/searchLog/query", {"pageSize": 30}))
    search(searched, "later")
    body = {"pageSize": 30, "pageToken": first["nextPageToken"]}
    second = done(searched.call("admin/searchLog/query", body))
    assert first["searches"] + second["searches"] == before[:60]
    assert logged(searched, page_size=7)[1:] == before


def test_another_organizations_searches_are_its_own(searched: RunningService) -> None:
    """Its admin sees none of them; nobody but an admin sees any."""
    other = another_organization(searched)
    assert done(searched.call("admin/searchLog/query", api_key=other))["searches"] == []
    ids = {"ids": [logged(searched)[0]["searchId"]]}
    assert done(searched.call("admin/searchLog/query", ids, api_key=other))["searches"] == []
    member = searched.new_user("member@example.test")
    assert code(searched.call("admin/searchLog/query", api_key=member)) == (403, "admin_only")


def test_words_are_in_no_log_line(searched: RunningService) -> None:
    """Neither what was searched for, nor comments, nor the reading of them."""
    with capture_logs() as entries:
        feedback(searched, search(searched, "Quetzalcoatl"), "THUMBS_UP", comments="Huitzilopochtli")
        assert words(logged(searched))[0] == "Quetzalcoatl"
        # A request is logged when its answer has been sent, which may be after the answer was read here.
        deadline = monotonic() + 10
        while "searchLog/query" not in str(entries) and monotonic() < deadline:
            sleep(0.01)
    lines = str(entries)
    assert lines.count("searchLog/query") == 1
    assert "Quetzalcoatl" not in lines
    assert "Huitzilopochtli" not in lines


def fill(service: RunningService, organization: UUID, *, count: int, at: datetime, **columns: Any) -> None:
    """Log searches by the admin at one moment, with their words."""
    values = {"mode": "HYBRID", "result_count": 3, "has_words": True, "feedback": None, **columns}
    with service.owner_connection() as connection:
        connection.execute(
            """
            WITH made AS (
                INSERT INTO searches (search_id, organization_id, at, principal_id, mode, result_count, has_words,
                                      feedback)
                SELECT gen_random_uuid(), %(organization)s, %(at)s - n * interval '1 ms' * %(spread)s, principal_id,
                       %(mode)s, %(result_count)s, %(has_words)s, %(feedback)s
                FROM generate_series(1, %(count)s) n, principals
                WHERE email = %(email)s AND organization_id = %(organization)s
                RETURNING search_id
            )
            INSERT INTO free_texts SELECT search_id, %(organization)s, 'words' FROM made
            """,
            {
                "spread": 0,
                **values,
                "organization": organization,
                "at": at,
                "count": count,
                "email": service.admin_email,
            },
        )


@contextmanager
def statements(service: RunningService) -> Iterator[list[tuple[str, Any]]]:
    """What the service asks its database meanwhile, with the parameters."""
    engine = service.runtime.database._engine.sync_engine
    asked: list[tuple[str, Any]] = []

    def note(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_rest: Any) -> None:
        asked.append((statement, parameters))

    event.listen(engine, "before_cursor_execute", note)
    yield asked
    event.remove(engine, "before_cursor_execute", note)


def test_a_page_is_one_query_by_an_index(searched: RunningService) -> None:
    """However many rows there are, how rare the wanted ones, and how long the page."""
    organization = organization_id(searched)
    now = datetime.now(UTC)
    fill(searched, organization, count=50_000, at=now - timedelta(days=1), spread=1000)
    fill(searched, organization, count=5, at=now - timedelta(days=300), feedback="THUMBS_DOWN")
    fill(searched, organization, count=5, at=now - timedelta(days=300), result_count=0)
    fill(searched, organization, count=4, at=now - timedelta(days=300), has_words=False)
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
