"""A caller's recent and saved searches, hidden from others."""

from functools import partial

from carrel.wire.own_searches import MOST_SAVED
from service.domains.search.own import queries
from tests.harness.services import RunningService
from tests.service.conversations import at_once
from tests.service.directory import another_organization, code, done
from tests.service.test_text_erasure import erase

ADA, BEN = "ada@example.test", "ben@example.test"


def search(service: RunningService, query: str, key: str | None = None, **body) -> None:
    done(service.call("search/searchDocumentCatalog", {"searchQuery": query, **body}, api_key=key))


def recent(service: RunningService, key: str | None = None, **body) -> list[dict]:
    return done(service.call("search/listRecentSearches", body, api_key=key))["searches"]


def words(found: list[dict]) -> list[str]:
    return [one["searchQuery"] for one in found]


def save(service: RunningService, query: str, key: str | None = None, **body) -> str:
    return done(service.call("search/saveSearch", {"searchQuery": query, **body}, api_key=key))["savedSearchId"]


def saved(service: RunningService, key: str | None = None) -> list[dict]:
    return done(service.call("search/listSavedSearches", {}, api_key=key))["searches"]


def test_recent_searches_are_the_callers_own(service: RunningService, monkeypatch) -> None:
    ada, ben, other = service.new_user(ADA), service.new_user(BEN), another_organization(service)
    for query in ("ferry", "dogs", "ferry"):
        search(service, query, ada)
    search(service, "dogs", ada, searchOptions={"mode": "LEXICAL"})
    search(service, "type:pdf", ada)
    search(service, "harbour", userEmail=ADA)
    search(service, "secret of Ben", ben)
    found = recent(service, ada)
    assert [(one["searchQuery"], one["mode"]) for one in found] == [
        ("type:pdf", "HYBRID"),
        ("dogs", "LEXICAL"),
        ("ferry", "HYBRID"),
        ("dogs", "HYBRID"),
    ]
    assert found == sorted(found, key=lambda one: one["at"], reverse=True)
    assert words(recent(service, ada, maxSearches=3)) == ["type:pdf", "dogs", "ferry"]
    assert words(recent(service, ben)) == ["secret of Ben"]
    assert recent(service) == recent(service, other) == []
    assert code(service.call("search/listRecentSearches", {"maxSearches": 51}))[0] == 400
    monkeypatch.setattr(queries, "MOST_READ", 3)
    assert words(recent(service, ada)) == ["type:pdf", "dogs"]
    erase(service, ADA)
    assert recent(service, ada) == []
    assert words(recent(service, ben)) == ["secret of Ben"]


def test_saved_searches_are_the_callers_own(service: RunningService) -> None:
    ada, ben, other = service.new_user(ADA), service.new_user(BEN), another_organization(service)
    filters = [{"field": "team", "operator": "==", "value": "deck"}]
    first = save(service, "ferry", ada, mode="LEXICAL", metadataFilters=filters)
    assert save(service, "ferry", ada, mode="LEXICAL", metadataFilters=filters) == first
    second = save(service, "ferry", ada)
    assert [one["savedSearchId"] for one in saved(service, ada)] == [second, first]
    kept = {name: value for name, value in saved(service, ada)[1].items() if name not in {"savedSearchId", "savedAt"}}
    assert kept == {"searchQuery": "ferry", "mode": "LEXICAL", "metadataFilters": filters}
    assert saved(service) == saved(service, ben) == saved(service, other) == []
    assert save(service, "ferry", ben) not in {first, second}
    for key in (None, ben, other):
        refused = service.call("search/deleteSavedSearch", {"savedSearchId": first}, api_key=key)
        assert code(refused) == (404, "saved_search_not_found")
    done(service.call("search/deleteSavedSearch", {"savedSearchId": first}, api_key=ada))
    assert code(service.call("search/deleteSavedSearch", {"savedSearchId": first}, api_key=ada))[0] == 404
    assert words(saved(service, ada)) == words(saved(service, ben)) == ["ferry"]


def test_there_are_at_most_a_hundred_saved_searches(service: RunningService, monkeypatch) -> None:
    assert MOST_SAVED == 100
    monkeypatch.setattr("service.domains.search.own.service.MOST_SAVED", 5)
    ada = service.new_user(ADA)
    ids = [save(service, f"number {number}", ada) for number in range(4)]
    bodies = [{"searchQuery": f"last {number}"} for number in range(4)]
    answers = at_once(*(partial(service.call, "search/saveSearch", body, api_key=ada) for body in bodies))
    assert sorted(answer.status_code for answer in answers) == [200, 409, 409, 409]
    assert {code(answer)[1] for answer in answers if answer.status_code == 409} == {"too_many_saved_searches"}
    assert save(service, "number 0", ada) == ids[0]
    assert len(saved(service, ada)) == 5
    save(service, "ferry")
    done(service.call("search/deleteSavedSearch", {"savedSearchId": ids[0]}, api_key=ada))
    save(service, "there is room again", ada)
