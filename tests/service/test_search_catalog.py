"""search/searchDocumentCatalog over HTTP, on uploaded documents."""

import json

import pytest

from tests.harness.documents import add_users, ok, refused, upload, uploaded
from tests.harness.services import RunningService

ANN, BEN = "ann@example.test", "ben@example.test"
MODES = ("HYBRID", "LEXICAL", "SEMANTIC")
# The admin's alone.
DOCUMENTS = {
    "ferry": ("Ferry rules", "Dogs may travel on the ferry when they are on a leash. Cats need a box."),
    "holiday": ("Holiday policy", "Every employee has thirty days of vacation each year."),
    "invoice": ("Invoices", "Invoices are paid within fourteen days. Invoice INV-2291 is late."),
    "harbour": ("Harbour handbook", "The harbour master opens the gate at nine and closes it at dusk."),
}
# Ann's alone.
REPORTS = range(30)


def found(service: RunningService, query: str, *, as_user: str | None = None, **options) -> list[dict]:
    body: dict = {"searchQuery": query, "searchOptions": options}
    if as_user:
        body["userEmail"] = as_user
    return ok(service.call("search/searchDocumentCatalog", body))["results"]


def ids(results: list[dict]) -> list[str]:
    return [result["documentExternalId"] for result in results]


@pytest.fixture(scope="module")
def library(module_service: RunningService) -> RunningService:
    service = module_service
    add_users(service, ANN, BEN)
    for external_id, (name, contents) in DOCUMENTS.items():
        uploaded(service, external_id, f"# {name}\n\n{contents}", file_name="a.md", documentName=name)
    for number in REPORTS:
        team = ("blue", "red")[number % 2]
        metadata = {"number": str(number), "day": f"2026-01-{number + 1:02}", "team": f"{team} team"}
        resource = {"resourceId": f"r{number}", "resourceType": "NOTION_PAGE" if number < 3 else "JIRA_TICKET"}
        text = f"zebra zebra zebra report {number}"
        uploaded(service, f"{number}", text, as_user=ANN, customMetadata=json.dumps(metadata), **resource)
    uploaded(service, "note", "A note on lunch, and one zebra.", as_user=BEN)
    return service


def test_a_question_finds_its_document(library: RunningService) -> None:
    results = found(library, "may I bring my puppy aboard?")
    assert results[0].keys() >= {"documentId", "documentName", "documentExternalId", "resource", "score", "snippet"}
    assert results[0]["documentExternalId"] == "ferry"
    assert results[0]["documentName"] == "Ferry rules"
    assert results[0]["resource"] == {"resourceType": "UPLOADED_DOCUMENT", "resourceId": results[0]["documentId"]}
    scores = [result["score"] for result in results]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)


def test_a_snippet_shows_the_words_of_the_query_in_any_inflection(library: RunningService) -> None:
    snippet = found(library, "dog on ferries")[0]["snippet"]
    words = [snippet["text"][match["start"] : match["end"]] for match in snippet["matches"]]
    assert {"Dogs", "ferry"} <= set(words)


def test_the_modes_differ(library: RunningService) -> None:
    """LEXICAL finds only the exact identifier, SEMANTIC ranks everything by meaning, HYBRID does both."""
    assert ids(found(library, "INV-2291", mode="LEXICAL")) == ["invoice"]
    assert ids(found(library, "INV-2291", mode="HYBRID"))[0] == "invoice"
    assert found(library, "puppy", mode="LEXICAL") == []
    semantic = found(library, "time off work", mode="SEMANTIC")
    assert ids(semantic)[0] == "holiday"
    assert len(semantic) == len(DOCUMENTS)


def test_max_results_cuts_the_list(library: RunningService) -> None:
    everything = ids(found(library, "ferry", maxResults=100))
    assert ids(found(library, "ferry", maxResults=2)) == everything[:2]
    assert len(everything) == len(DOCUMENTS)


@pytest.mark.parametrize("query", ["the and of", "who are you", "?!", "🚢", "a" * 8000, "w " * 4000])
def test_any_query_is_answered(library: RunningService, query: str) -> None:
    assert len(found(library, query)) == len(DOCUMENTS)


@pytest.mark.parametrize("query", [" ", "\n\t", ""])
def test_an_empty_query_is_refused(library: RunningService, query: str) -> None:
    assert library.call("search/searchDocumentCatalog", {"searchQuery": query}).status_code == 400


def test_an_empty_catalog_is_no_error(service: RunningService) -> None:
    answer = ok(service.call("search/searchDocumentCatalog", {"searchQuery": "anything"}))
    assert answer["results"] == []
    assert answer["searchId"]


@pytest.mark.parametrize("mode", MODES)
def test_what_others_have_is_not_found_and_does_not_fill_the_list(library: RunningService, mode: str) -> None:
    """Thirty better matches that Ben may not read take no place of his match; an admin reads no more."""
    assert ids(found(library, "zebra report", as_user=BEN, mode=mode, maxResults=1)) == ["note"]
    assert ids(found(library, "zebra report", as_user=BEN, mode=mode, maxResults=100)) == ["note"]
    assert set(ids(found(library, "zebra report", as_user=ANN, mode=mode, maxResults=100))) == set(map(str, REPORTS))
    assert set(ids(found(library, "zebra report", mode=mode, maxResults=100))) <= DOCUMENTS.keys()


def test_filters_narrow_inside_the_search(library: RunningService) -> None:
    """Filters restrict the ranked set, not the result of a ranking."""

    def numbers(*filters: tuple[str, str, str], **options) -> set[int]:
        conditions = [{"field": field, "operator": operator, "value": value} for field, operator, value in filters]
        options = {"metadataFilters": conditions, "maxResults": 100, **options}
        return set(map(int, ids(found(library, "zebra report", as_user=ANN, **options))))

    everything = set(REPORTS)
    assert numbers() == everything
    assert numbers(("number", ">=", "9")) == everything - set(range(9))
    assert numbers(("number", "<", "2")) == {0, 1}
    assert numbers(("number", "==", "10")) == {10}
    assert numbers(("number", "!=", "10")) == everything - {10}
    assert numbers(("day", "<=", "2026-01-02T00:00:00Z")) == {0, 1}
    assert numbers(("day", ">", "2026-01-29")) == {29}
    assert numbers(("team", "contains", "red")) == set(range(1, 30, 2))
    assert numbers(("team", "==", "red")) == set()
    assert numbers(("number", ">", "3"), ("team", "contains", "blue"), ("day", "<", "2026-01-08")) == {4, 6}
    assert numbers(("missing", "==", "x")) == set()
    assert numbers(("missing", "!=", "x")) == everything
    assert numbers(resourceTypes=["NOTION_PAGE"]) == {0, 1, 2}
    assert numbers(("number", ">", "0"), resourceTypes=["NOTION_PAGE", "BOX_FILE"]) == {1, 2}
    assert numbers(("number", "==", "5"), resourceTypes=["NOTION_PAGE"], mode="LEXICAL") == set()
    assert numbers(("number'; DROP TABLE documents; --", "==", "'")) == set()
    assert numbers(("number", "==", "29"), maxResults=1) == {29}


def test_a_search_is_kept_in_the_log_and_its_feedback_on_the_audit_log(library: RunningService) -> None:
    search = ok(library.call("search/searchDocumentCatalog", {"searchQuery": "dogs on ferries"}))
    search_id, document_id = search["searchId"], search["results"][0]["documentId"]
    kept = "SELECT mode, result_count, text FROM searches JOIN free_texts ON subject_id = search_id"
    assert library.execute(f"{kept} WHERE search_id = %s", [search_id]) == [
        ("HYBRID", len(search["results"]), "dogs on ferries")
    ]
    body = {"searchId": search_id, "feedback": "THUMBS_UP", "userEmail": ANN, "documentId": document_id}
    audit_log_id = ok(library.call("search/submitSearchFeedback", {**body, "comments": "Just it"}))["auditLogId"]
    [entry] = ok(library.call("admin/auditLog/query", {"action": "search.feedback"}))["entries"]
    assert entry["auditLogId"] == audit_log_id
    assert entry["details"] == {"feedback": "THUMBS_UP", "documentId": document_id}
    refused(library.call("search/submitSearchFeedback", {**body, "searchId": document_id}), 404, "search_not_found")


def test_a_search_follows_an_update_and_a_deletion_at_once(service: RunningService) -> None:
    document_id = uploaded(service, "ferry", "Dogs need a leash.")["documentId"]
    ok(upload(service, "ferry", "The submarine dives at noon."))
    assert ids(found(service, "submarine", mode="LEXICAL")) == ["ferry"]
    assert found(service, "leash", mode="LEXICAL") == []
    ok(service.call("catalog/deleteDocument", {"documentId": document_id}))
    assert found(service, "submarine") == []
