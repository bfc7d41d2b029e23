"""search/searchDocumentCollection over HTTP."""

from dataclasses import dataclass

import pytest

from tests.harness.cases import cases
from tests.harness.documents import add_to_collection, add_users, create_collection, ok, refused, upload, uploaded
from tests.harness.services import RunningService
from tests.service.directory import grant, user

ANN, BEN = "ann@example.test", "ben@example.test"


def asked(service: RunningService, collection_id: str, query: str, *, as_user: str | None = None, **members) -> dict:
    body: dict = {"documentCollectionId": collection_id, "searchQuery": query}
    if as_user:
        body["userEmail"] = as_user
    filters = members.pop("filters", [])
    body["structuredQueryFilters"] = [dict(zip(("field", "operator", "value"), each, strict=True)) for each in filters]
    return ok(service.call("search/searchDocumentCollection", body | {"searchOptions": members}))


def names(answer: dict) -> list[str]:
    return [result["documentExternalId"] for result in answer["results"]]


def a_document(service: RunningService, external_id: str, contents: str, collection_id: str, **metadata: str) -> str:
    document_id = uploaded(service, external_id, contents, internalPublic="true", file_name="a.md")["documentId"]
    ok(add_to_collection(service, document_id, collection_id, customMetadata=metadata))
    return document_id


def chapters(*passages: str) -> str:
    return "\n\n".join(f"# Chapter {number}\n\n{passage}" for number, passage in enumerate(passages, 1))


@dataclass(frozen=True)
class Library:
    """A collection with two documents of four chunks, and a collection of reports with metadata of every type."""

    service: RunningService
    rules_id: str
    law: str
    reports: str


@pytest.fixture(scope="module")
def library(module_service: RunningService) -> Library:
    service = module_service
    law = create_collection(service, "law", year="INT")
    rules = chapters("Dogs need a leash aboard.", "Cats need a box.", "Tickets cost ten.")
    rules_id = a_document(service, "rules", rules, law)
    a_document(service, "other", chapters("Invoices are paid late."), law, year="2020")
    fields = {"count": "INT", "price": "DOUBLE", "due": "DATETIME", "final": "BOOLEAN", "city": "STRING"}
    reports = create_collection(service, "reports", **fields)
    rows = {
        "a": {"count": "9", "price": "1.5", "due": "2026-01-01T23:00:00Z", "final": "true", "city": "Oslo"},
        "b": {"count": "10", "price": "1e1", "due": "2026-01-02T00:30:00+01:00", "final": "false", "city": "Bergen"},
        "c": {"count": "-1", "due": "2026-01-03"},
    }
    for external_id, metadata in rows.items():
        a_document(service, external_id, f"The zebra report of {external_id}.", reports, **metadata)
    return Library(service, rules_id, law, reports)


def test_chunks_come_gathered_by_document(library: Library) -> None:
    answer = asked(library.service, library.law, "must my dog be on a leash?")
    [first, second] = answer["results"]
    assert first["documentExternalId"] == "rules"
    assert "leash" in first["chunks"][0]["text"]
    assert first["chunks"][0]["chunkIndex"] == 0
    scores = [[chunk["score"] for chunk in result["chunks"]] for result in answer["results"]]
    assert list(map(len, scores)) == [3, 1]
    assert all(0 <= score <= 1 for each in scores for score in each)
    assert scores == [sorted(each, reverse=True) for each in scores]
    assert second["documentMetadata"] == {"year": "2020"}
    assert answer["searchTermsUsed"] == ["dog", "leash"]
    assert answer["structuredFiltersApplied"] == []


def test_max_chunks_and_threshold_count_chunks_of_all_documents(library: Library) -> None:
    def scores(**options) -> list[float]:
        results = asked(library.service, library.law, "dogs on a leash", **options)["results"]
        return [chunk["score"] for result in results for chunk in result["chunks"]]

    best, *rest = scores()
    assert len(rest) == 3
    assert scores(maxChunks=2) == [best, max(rest)]
    assert scores(threshold=(best + max(rest)) / 2) == [best]
    assert scores(threshold=1) == []


def test_contents_can_be_merged(library: Library) -> None:
    [result, *_] = asked(library.service, library.law, "cats", mergeContents=True)["results"]
    merged = result["mergedContents"]
    assert merged.index("Dogs") < merged.index("Cats") < merged.index("Tickets")
    assert "mergedContents" not in asked(library.service, library.law, "cats")["results"][0]


@pytest.mark.parametrize("metric", ["COSINE", "DOTPRODUCT", "EUCLIDEAN"])
def test_metrics_rank_alike(library: Library, metric: str) -> None:
    body = {"collectionName": metric, "distanceMetric": metric}
    made = ok(library.service.call("documentCollections/createDocumentCollection", body))
    ok(add_to_collection(library.service, library.rules_id, made["documentCollectionId"]))
    [result] = asked(library.service, made["documentCollectionId"], "dog leash", mode="SEMANTIC")["results"]
    scores = [chunk["score"] for chunk in result["chunks"]]
    assert result["chunks"][0]["chunkIndex"] == 0
    assert all(0 <= score <= 1 for score in scores)
    assert scores == sorted(scores, reverse=True)


def test_filters_compare_by_the_fields_type(library: Library) -> None:
    def search(*filters: tuple[str, str, str], **options) -> dict:
        return asked(library.service, library.reports, "zebra report", filters=filters, **options)

    def matching(*filters: tuple[str, str, str], **options) -> set[str]:
        return set(names(search(*filters, **options)))

    assert matching() == {"a", "b", "c"}
    assert matching(("count", ">", "9")) == {"b"}
    assert matching(("count", "<=", "+9")) == {"a", "c"}
    assert matching(("price", ">=", "1.50")) == {"a", "b"}
    assert matching(("price", "==", "10")) == {"b"}
    assert matching(("due", "<", "2026-01-01T23:15:00Z")) == {"a"}
    assert matching(("due", "==", "2026-01-01T23:30:00Z")) == {"b"}
    assert matching(("due", ">=", "2026-01-03T00:00:00Z")) == {"c"}
    assert matching(("final", "==", "Yes")) == {"a"}
    assert matching(("price", "<", "1,200.50"), ("price", ">", "1,5"), ("due", "<", "2.1.2026")) == {"b"}
    assert matching(("final", "!=", "true")) == {"b", "c"}
    assert matching(("city", "contains", "erg")) == {"b"}
    assert matching(("city", "<", "C")) == {"b"}
    assert matching(("city", "==", "oslo")) == matching(("city", "contains", "OSL")) == {"a"}
    assert matching(("city", "!=", "oslo")) == {"b", "c"}
    assert matching(("count", ">", "0"), ("final", "==", "false"), mode="LEXICAL") == {"b"}
    applied = search(("count", ">", "9"))["structuredFiltersApplied"]
    assert applied == [{"field": "count", "operator": ">", "value": "9"}]


@pytest.mark.parametrize(("field", "value"), cases("filters_that_do_not_fit_the_schema_are_refused"))
def test_filters_that_do_not_fit_the_schema_are_refused(library: Library, field: str, value: str) -> None:
    filters = [{"field": field, "operator": "==", "value": value}]
    body = {"documentCollectionId": library.reports, "searchQuery": "zebra", "structuredQueryFilters": filters}
    error = refused(library.service.call("search/searchDocumentCollection", body), 400, "invalid_filter")
    assert error["details"][0]["field"].startswith("structuredQueryFilters.0.")


def test_a_result_needs_the_collection_and_the_document(service: RunningService) -> None:
    """VIEWER on the collection shows only readable documents; without VIEWER the collection does not exist."""
    add_users(service, ANN, BEN)
    collection = create_collection(service, "law", as_user=ANN)
    for external_id, public in (("secret", {}), ("public", {"internalPublic": "true"})):
        document = ok(upload(service, external_id, f"The zebra {external_id}.", as_user=ANN, **public))
        ok(add_to_collection(service, document["documentId"], collection, as_user=ANN))
    body = {"documentCollectionId": collection, "searchQuery": "zebra", "userEmail": BEN}
    refused(service.call("search/searchDocumentCollection", body), 404, "collection_not_found")
    resource = {"resourceId": collection, "resourceType": "DOCUMENT_COLLECTION"}
    grant(service, resource, user(BEN))
    assert names(asked(service, collection, "zebra", as_user=BEN)) == ["public"]
    assert set(names(asked(service, collection, "zebra", as_user=ANN))) == {"public", "secret"}
    grant(service, resource)
    refused(service.call("search/searchDocumentCollection", body), 404, "collection_not_found")
    unknown = {**body, "documentCollectionId": "00000000-0000-7000-8000-000000000000"}
    refused(service.call("search/searchDocumentCollection", unknown), 404, "collection_not_found")


def test_a_collection_is_searched_alone(service: RunningService) -> None:
    law, lore = create_collection(service, "law"), create_collection(service, "lore")
    in_law = a_document(service, "in-law", "The zebra law.", law)
    a_document(service, "in-lore", "The zebra lore.", lore)
    assert names(asked(service, law, "zebra")) == ["in-law"]
    ok(add_to_collection(service, in_law, law, operation="removeDocumentFromCollection"))
    assert asked(service, law, "zebra")["results"] == []
