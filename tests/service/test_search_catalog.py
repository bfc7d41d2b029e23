"""search/searchDocumentCatalog over HTTP, on documents that were really uploaded."""

import json
from typing import Any

import pytest

from tests.harness.documents import add_group, add_users, ok, refused, upload, uploaded
from tests.harness.services import RunningService

ANN, BEN = "ann@example.test", "ben@example.test"

DOCUMENTS = {
    "ferry": ("Ferry rules", "Dogs may travel on the ferry when they are on a leash. Cats need a box."),
    "holiday": ("Holiday policy", "Every employee has thirty days of vacation each year."),
    "invoice": ("Invoices", "Invoices are paid within fourteen days. Invoice INV-2291 is late."),
    "harbour": ("Harbour handbook", "The harbour master opens the gate at nine and closes it at dusk."),
}


def found(service: RunningService, query: str, *, as_user: str | None = None, **options: Any) -> list[dict[str, Any]]:
    """What a search of the catalog finds."""
    body: dict[str, Any] = {"searchQuery": query, "searchOptions": options}
    if as_user:
        body["userEmail"] = as_user
    return ok(service.call("search/searchDocumentCatalog", body))["results"]


def ids(results: list[dict[str, Any]]) -> list[str]:
    """The external ids of results."""
    return [result["documentExternalId"] for result in results]


@pytest.fixture
def library(service: RunningService) -> RunningService:
    """A service with a few documents that everybody may read."""
    for external_id, (name, contents) in DOCUMENTS.items():
        uploaded(
            service, external_id, f"# {name}\n\n{contents}", file_name="a.md", documentName=name, internalPublic="true"
        )
    return service  # fmt: skip


def test_a_question_finds_its_document(library: RunningService) -> None:
    """Asked in other words, the right document comes first, with all that the contract names, scores falling."""
    results = found(library, "may I bring my puppy aboard?")
    assert results[0].keys() >= {"documentId", "documentName", "documentExternalId", "resource", "score", "snippet"}
    assert results[0]["documentExternalId"] == "ferry"
    assert results[0]["documentName"] == "Ferry rules"
    assert results[0]["resource"] == {"resourceType": "UPLOADED_DOCUMENT", "resourceId": results[0]["documentId"]}
    scores = [result["score"] for result in results]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)


def test_a_snippet_shows_what_matched(library: RunningService) -> None:
    """Its offsets are those of the query's words, inflected as they may be, in the snippet's text."""
    snippet = found(library, "dog on ferries")[0]["snippet"]
    words = [snippet["text"][match["start"] : match["end"]] for match in snippet["matches"]]
    assert {"Dogs", "ferry"} <= set(words)


def test_the_modes_differ(library: RunningService) -> None:
    """LEXICAL finds the exact identifier and only it, SEMANTIC ranks everything by meaning, HYBRID puts both first."""
    assert ids(found(library, "INV-2291", mode="LEXICAL")) == ["invoice"]
    assert ids(found(library, "INV-2291", mode="HYBRID"))[0] == "invoice"
    assert found(library, "puppy", mode="LEXICAL") == []
    semantic = found(library, "time off work", mode="SEMANTIC")
    assert ids(semantic)[0] == "holiday"
    assert len(semantic) == len(DOCUMENTS)


def test_at_most_max_results(library: RunningService) -> None:
    """No more than asked for, and then the first ones."""
    everything = ids(found(library, "ferry", maxResults=100))
    assert ids(found(library, "ferry", maxResults=2)) == everything[:2]
    assert len(everything) == len(DOCUMENTS)


@pytest.mark.parametrize("query", ["the and of", "who are you", "?!", "🚢", "a" * 8000, "w " * 4000])
def test_any_query_is_answered(library: RunningService, query: str) -> None:
    """Stop words alone, punctuation, an emoji, one endless word, thousands of words: an answer, never an error."""
    assert len(found(library, query)) == len(DOCUMENTS)


@pytest.mark.parametrize("query", [" ", "\n\t", ""])
def test_an_empty_query_is_refused(library: RunningService, query: str) -> None:
    """A query without a character in it is 400."""
    answer = library.call("search/searchDocumentCatalog", {"searchQuery": query})
    assert answer.status_code == 400


def test_an_empty_catalog_is_no_error(service: RunningService) -> None:
    """Before the first upload a search finds nothing, and has an id."""
    answer = ok(service.call("search/searchDocumentCatalog", {"searchQuery": "anything"}))
    assert answer["results"] == []
    assert answer["searchId"]


def test_nobody_sees_what_they_may_not_read(service: RunningService) -> None:
    """In every mode, a document of others is neither found nor does it show in what is."""
    add_users(service, ANN, BEN)
    uploaded(service, "secret", "The zebra merger closes in May.", as_user=ANN)
    uploaded(service, "public", "The zebra enclosure opens in May.", internalPublic="true")
    for mode in ("HYBRID", "LEXICAL", "SEMANTIC"):
        assert set(ids(found(service, "zebra merger", as_user=ANN, mode=mode))) == {"secret", "public"}
        assert ids(found(service, "zebra merger", as_user=BEN, mode=mode)) == ["public"]
        assert ids(found(service, "zebra merger", mode=mode)) == ["public"]  # an admin reads only what access says


def test_a_grant_counts_at_once_and_so_does_its_end(service: RunningService) -> None:
    """Granted through a nested group, found by the next search; taken away, not found by the next."""
    add_users(service, ANN, BEN)
    group = add_group(service, "readers", BEN)
    document = uploaded(service, "plan", "The zebra merger closes in May.", as_user=ANN)
    resource = {"resourceId": document["documentId"], "resourceType": "UPLOADED_DOCUMENT"}
    grant = [{"principal": {"type": "group", "id": group}, "role": "VIEWER"}]
    for grants, expected in ((grant, ["plan"]), ([], []), (grant, ["plan"])):
        ok(service.call("admin/grants/set", {"resource": resource, "grants": grants}))
        assert ids(found(service, "zebra", as_user=BEN)) == expected
    body = {"groupId": group, "members": [{"type": "user", "email": BEN}]}
    ok(service.call("admin/groups/removeMembers", body))
    assert found(service, "zebra", as_user=BEN) == []


def test_what_others_have_does_not_fill_the_list(service: RunningService) -> None:
    """Forty better matches that may not be read take no place of the one that may: access comes before any limit."""
    add_users(service, ANN, BEN)
    for number in range(40):
        uploaded(service, f"zebra-{number}", f"zebra zebra zebra {number}", as_user=ANN)
    uploaded(service, "mine", "A note on lunch, and one zebra.", as_user=BEN)
    assert ids(found(service, "zebra", as_user=BEN, maxResults=1)) == ["mine"]


def test_filters_narrow_inside_the_search(service: RunningService) -> None:
    """Metadata filters of every operator and kinds of resource decide what is ranked, not what is left of a ranking."""
    for number in range(12):
        uploaded(
            service,
            f"doc-{number}",
            f"The zebra report number {number}",
            customMetadata=json.dumps(
                {
                    "number": str(number),
                    "day": f"2026-01-{number + 1:02}",
                    "team": ("blue", "red")[number % 2] + " team",
                }
            ),
            resourceId=f"r{number}",
            resourceType="NOTION_PAGE" if number < 3 else "JIRA_TICKET",
            internalPublic="true",
        )

    def numbers(*filters: tuple[str, str, str], **options: Any) -> set[int]:
        conditions = [{"field": field, "operator": operator, "value": value} for field, operator, value in filters]
        results = found(service, "zebra report", metadataFilters=conditions, maxResults=100, **options)
        return {int(external_id.removeprefix("doc-")) for external_id in ids(results)}

    everything = set(range(12))
    assert numbers() == everything
    assert numbers(("number", ">=", "9")) == {9, 10, 11}
    assert numbers(("number", "<", "2")) == {0, 1}
    assert numbers(("number", "==", "10")) == {10}
    assert numbers(("number", "!=", "10")) == everything - {10}
    assert numbers(("day", "<=", "2026-01-02T00:00:00Z")) == {0, 1}
    assert numbers(("day", ">", "2026-01-11")) == {11}
    assert numbers(("team", "contains", "red")) == {1, 3, 5, 7, 9, 11}
    assert numbers(("team", "==", "red")) == set()
    assert numbers(("number", ">", "3"), ("team", "contains", "blue"), ("day", "<", "2026-01-08")) == {4, 6}
    assert numbers(("missing", "==", "x")) == set()
    assert numbers(("missing", "!=", "x")) == everything
    assert numbers(resourceTypes=["NOTION_PAGE"]) == {0, 1, 2}
    assert numbers(("number", ">", "0"), resourceTypes=["NOTION_PAGE", "BOX_FILE"]) == {1, 2}
    assert numbers(("number", "==", "5"), resourceTypes=["NOTION_PAGE"], mode="LEXICAL") == set()
    assert numbers(("number'; DROP TABLE documents; --", "==", "'")) == set()


def test_a_deleted_document_is_found_no_more(library: RunningService) -> None:
    """From the moment it is deleted."""
    document_id = found(library, "INV-2291")[0]["documentId"]
    ok(library.call("catalog/deleteDocument", {"documentId": document_id}))
    assert "invoice" not in ids(found(library, "INV-2291", maxResults=100))


def test_an_update_replaces_what_is_found(library: RunningService) -> None:
    """New words are found at once, old ones no more."""
    ok(upload(library, "ferry", "The submarine dives at noon.", internalPublic="true"))
    assert ids(found(library, "submarine", mode="LEXICAL")) == ["ferry"]
    assert found(library, "leash", mode="LEXICAL") == []


def test_acting_for_users_needs_a_key_that_may(service: RunningService) -> None:
    """A key that may not act for users is 403; an unknown user 400."""
    add_users(service, ANN)
    key = ok(service.call("admin/apiKeys/create", {"name": "plain"}))["apiKey"]
    body = {"searchQuery": "zebra", "userEmail": ANN}
    refused(service.call("search/searchDocumentCatalog", body, api_key=key), 403, "key_may_not_act_for_users")
    unknown = {"searchQuery": "zebra", "userEmail": "nobody@example.test"}
    refused(service.call("search/searchDocumentCatalog", unknown), 400, "unknown_user")


def test_feedback_is_kept_on_the_audit_log(library: RunningService) -> None:
    """Feedback names its search and result, and its comment is there to read; an unknown search is 404."""
    add_users(library, ANN)
    search = ok(library.call("search/searchDocumentCatalog", {"searchQuery": "dogs"}))
    document_id = search["results"][0]["documentId"]
    body = {
        "searchId": search["searchId"],
        "feedback": "THUMBS_UP",
        "userEmail": ANN,
        "comments": "Just what I needed",
        "documentId": document_id,
    }
    audit_log_id = ok(library.call("search/submitSearchFeedback", body))["auditLogId"]
    entries = ok(library.call("admin/auditLog/query", {"action": "search.feedback"}))["entries"]
    assert [entry["auditLogId"] for entry in entries] == [audit_log_id]
    assert entries[0]["details"] == {"feedback": "THUMBS_UP", "documentId": document_id}
    unknown = body | {"searchId": document_id}
    refused(library.call("search/submitSearchFeedback", unknown), 404, "search_not_found")


def test_a_search_is_kept_in_the_log(library: RunningService) -> None:
    """Who searched, how and with how many results; the words apart."""
    search = ok(library.call("search/searchDocumentCatalog", {"searchQuery": "dogs on ferries"}))
    with library.owner_connection() as connection:
        logged = connection.execute(
            "SELECT mode, result_count, text FROM searches JOIN free_texts ON subject_id = search_id"
            " WHERE search_id = %s",
            [search["searchId"]],
        ).fetchone()
    assert logged == ("HYBRID", len(search["results"]), "dogs on ferries")
