"""People's texts can be erased, by age or for a person; the entries stay."""

from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import AsyncMock
from uuid import UUID

import psycopg
import pytest

from service.domains.oversight.audit_log import erasure
from service.platform.errors import NotFound
from service.platform.identifiers import first_uuid7_at
from tests.harness.jobs import until
from tests.harness.services import RunningService
from tests.service.directory import a_key, a_user, another_organization, done, entries, on_rows, organization_id
from tests.service.test_search_log import feedback, logged, search

ADA, BEN = "ada@example.test", "ben@example.test"


def erase(service: RunningService, email: str) -> int:
    return service.run(erasure.erase_person(service.runtime.database, email=email))


def where(service: RunningService, word: str) -> set[str]:
    with service.owner_connection() as connection:
        tables = [name for (name,) in connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")]
        return {
            table
            for table in tables
            if connection.execute(f"SELECT FROM {table} WHERE {table}::text LIKE %s LIMIT 1", [f"%{word}%"]).rowcount
        }


@pytest.fixture
def wordy(own_service: RunningService) -> RunningService:
    service = own_service
    for email in (ADA, BEN):
        a_user(service, email)
    own = a_key(service, ownerEmail=ADA)["apiKey"]
    first = search(service, "xylophone", api_key=own)
    search(service, "xylograph", userEmail=ADA)
    done(service.call("search/saveSearch", {"searchQuery": "xylonite"}, api_key=own))
    done(service.call("search/saveSearch", {"searchQuery": "mallets"}))
    second = search(service, "marimba", userEmail=BEN)
    feedback(service, first, "THUMBS_DOWN", comments="xylitol", userEmail=ADA)
    feedback(service, second, "THUMBS_DOWN", comments="maracas", userEmail=BEN)
    feedback(service, first, "THUMBS_DOWN", comments="mandolin")
    return service


def test_one_persons_words_are_erased_and_nobody_elses(wordy: RunningService) -> None:
    other = another_organization(wordy)
    done(wordy.call("admin/users/upsert", {"users": [{"email": ADA}]}, api_key=other))
    key = done(wordy.call("admin/apiKeys/create", {"name": "hers", "ownerEmail": ADA}, api_key=other))["apiKey"]
    search(wordy, "xylem", api_key=key)
    with pytest.raises(NotFound, match="No person has this address"):
        erase(wordy, "adda@example.test")
    logs = logged(wordy), entries(wordy)
    assert where(wordy, "xylo") == {"free_texts", "saved_searches"}
    assert where(wordy, "xylitol") == {"free_texts"}
    assert erase(wordy, "Ada@example.test ") == 5
    assert where(wordy, "mallets") == {"saved_searches"}
    assert where(wordy, "xyl") == set()
    after = logged(wordy), entries(wordy)
    assert "xyl" not in str(after)
    assert after[0] == [{name: value for name, value in one.items() if "xylo" not in str(value)} for one in logs[0]]
    assert after[1][1:] == [{name: value for name, value in one.items() if value != "xylitol"} for one in logs[1]]
    assert [one.get("query") for one in after[0]] == ["marimba", None, None]
    assert [one["text"] for one in after[1] if "text" in one] == ["mandolin", "maracas"]
    [entry] = entries(wordy, action="texts.erase")
    assert entry["details"] == {"texts": 4}
    ada = next(one for one in done(wordy.call("admin/users/list"))["users"] if one["email"] == ADA)
    assert entry["target"] == {"type": "user", "id": ada["id"], "name": ada["name"]}
    assert erase(wordy, ADA) == 0
    assert len(entries(wordy, action="texts.erase")) == 1
    theirs = done(wordy.call("admin/auditLog/query", {"action": "texts.erase"}, api_key=other))["entries"]
    assert [one["details"] for one in theirs] == [{"texts": 1}]
    assert erase(wordy, wordy.admin_email) == 2
    assert where(wordy, "mandolin") == set()
    assert where(wordy, "maracas") == {"free_texts"}


def age(connection: psycopg.Connection[Any], organization: UUID, moment: datetime, count: int = 1) -> None:
    for number in range(count):
        search_id = UUID(int=first_uuid7_at(moment).int + number)
        connection.execute(
            "INSERT INTO searches (search_id, organization_id, at, principal_id, mode, result_count)"
            " VALUES (%s, %s, %s, %s, %s, %s)",
            [search_id, organization, moment, organization, "HYBRID", 0],
        )
        connection.execute("INSERT INTO free_texts VALUES (%s, %s, 'bygone')", [search_id, organization])


def test_old_texts_are_erased_to_the_moment(wordy: RunningService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(erasure, "AT_ONCE", 3)
    organization = organization_id(wordy)
    moment = datetime(2024, 5, 1, tzinfo=UTC)
    with wordy.owner_connection() as connection:
        age(connection, organization, moment - timedelta(milliseconds=1), count=10)
        age(connection, organization, moment, count=2)
    before = len(logged(wordy))
    assert wordy.run(erasure.erase_before(wordy.runtime.database, moment=moment)) == 10
    found = logged(wordy)
    assert len(found) == before
    assert [one.get("query") for one in found[-12:]] == ["bygone"] * 2 + [None] * 10
    assert where(wordy, "xylo") == {"free_texts", "saved_searches"}
    assert wordy.run(erasure.erase_before(wordy.runtime.database, moment=moment)) == 0


@pytest.mark.parametrize(("days", "left"), [(30, 0), (60, 1)])
def test_the_service_erases_at_its_start_what_is_older_than_its_setting(databases, make_service, days, left) -> None:
    database = databases.clone()
    with databases.connect(database) as connection:
        [organization] = connection.execute("SELECT organization_id FROM organizations").fetchone()
        for written in (45, 75):
            age(connection, organization, datetime.now(UTC) - timedelta(days=written))
    service = make_service(database=database, text_retention_days=days, sweep_seconds=3600)
    search(service, "xylophone")
    until(lambda: on_rows(service, "SELECT count(*) FROM free_texts") == [(left + 1,)])
    assert where(service, "xylophone") == {"free_texts"}


def test_the_service_erases_nothing_unless_its_setting_says_so(make_service, monkeypatch) -> None:
    erase_old = AsyncMock()
    monkeypatch.setattr(erasure, "erase_old", erase_old)
    search(make_service(sweep_seconds=3600), "xylophone")
    assert not erase_old.called
