"""search/searchDocumentCollection over HTTP."""

from typing import Any

import pytest

from tests.harness.documents import add_to_collection, add_users, create_collection, ok, refused, upload, uploaded
from tests.harness.services import RunningService

ANN, BEN = "ann@example.test", "ben@example.test"


def asked(
    service: RunningService, collection_id: str, query: str, *, as_user: str | None = None, **members: Any
) -> dict[str, Any]:
    """The answer to a search of a collection; `filters` are (field, operator, value), the rest are options."""
    body: dict[str, Any] = {"documentCollectionId": collection_id, "searchQuery": query}
    if as_user:
        body["userEmail"] = as_user
    filters = members.pop("filters", [])
    body["structuredQueryFilters"] = [dict(zip(("field", "operator", "value"), each, strict=True)) for each in filters]
    return ok(service.call("search/searchDocumentCollection", body | {"searchOptions": members}))


def names(answer: dict[str, Any]) -> list[str]:
    """The external ids of the documents found."""
    return [result["documentExternalId"] for result in answer["results"]]


def a_document(service: RunningService, external_id: str, contents: str, collection_id: str, **metadata: str) -> str:
    """Upload a document everybody may read and add it to a collection."""
    document_id = uploaded(service, external_id, contents, internalPublic="true", file_name="a.md")["documentId"]
    ok(add_to_collection(service, document_id, collection_id, customMetadata=metadata))
    return document_id


def chapters(*passages: str) -> str:
    """A Markdown document with a chunk for each passage."""
    return "\n\n".join(f"# Chapter {number}\n\n{passage}" for number, passage in enumerate(passages, 1))


def test_chunks_come_gathered_by_document(service: RunningService) -> None:
    """The best chunk's document first, chunks best first, with index, id, text and score; and what was searched for."""
    collection = create_collection(service, "law", year="INT")
    a_document(
        service, "rules", chapters("Dogs need a leash aboard.", "Cats need a box.", "Tickets cost ten."), collection
    )
    a_document(service, "other", chapters("Invoices are paid late."), collection, year="2020")
    answer = asked(service, collection, "must my dog be on a leash?")
    [first, *_] = answer["results"]
    assert first["documentExternalId"] == "rules"
    assert "leash" in first["chunks"][0]["text"]
    assert first["chunks"][0]["chunkIndex"] == 0
    scores = [chunk["score"] for result in answer["results"] for chunk in result["chunks"]]
    assert len(scores) == 4
    assert all(0 <= score <= 1 for score in scores)
    assert all(
        result["chunks"] == sorted(result["chunks"], key=lambda chunk: -chunk["score"]) for result in answer["results"]
    )
    assert answer["results"][1]["documentMetadata"] == {"year": "2020"}
    assert answer["searchTermsUsed"] == ["dog", "leash"]
    assert answer["structuredFiltersApplied"] == []  # fmt: skip


def test_max_chunks_counts_chunks(service: RunningService) -> None:
    """Of all documents together, no more chunks than asked for."""
    collection = create_collection(service, "law")
    a_document(service, "rules", chapters(*(f"Zebra rule {number}." for number in range(6))), collection)
    a_document(service, "other", chapters("A zebra too."), collection)
    answer = asked(service, collection, "zebra", maxChunks=3)
    assert sum(len(result["chunks"]) for result in answer["results"]) == 3


def test_contents_can_be_merged(service: RunningService) -> None:
    """With mergeContents a document's chunks come as one text in reading order; without, there is none."""
    collection = create_collection(service, "law")
    a_document(service, "rules", chapters("Zebra one.", "Zebra two.", "Zebra three."), collection)
    merged = asked(service, collection, "zebra two", mergeContents=True)["results"][0]["mergedContents"]
    assert merged.index("one") < merged.index("two") < merged.index("three")
    assert "mergedContents" not in asked(service, collection, "zebra two")["results"][0]


def test_a_threshold_drops_what_scores_less(service: RunningService) -> None:
    """Nothing below it is left, everything above it is, and a threshold of 1 leaves nothing."""
    collection = create_collection(service, "law")
    a_document(service, "rules", chapters("Dogs need a leash aboard.", "Invoices are paid late."), collection)

    def scores(**options: Any) -> list[float]:
        results = asked(service, collection, "dogs on a leash", **options)["results"]
        return [chunk["score"] for result in results for chunk in result["chunks"]]

    best, worst = scores()
    assert scores(threshold=(best + worst) / 2) == [best]
    assert scores(threshold=1) == []


@pytest.mark.parametrize("metric", ["COSINE", "DOTPRODUCT", "EUCLIDEAN"])
def test_metrics_rank_alike(service: RunningService, metric: str) -> None:
    """The order is the same under each, and every score is between 0 and 1."""
    body = {"collectionName": metric, "distanceMetric": metric}
    collection = ok(service.call("documentCollections/createDocumentCollection", body))["documentCollectionId"]
    a_document(service, "rules", chapters("Dogs need a leash.", "Cats need a box.", "Invoices are paid."), collection)
    chunks = asked(service, collection, "dog leash", mode="SEMANTIC")["results"][0]["chunks"]
    assert chunks[0]["chunkIndex"] == 0
    assert all(0 <= chunk["score"] <= 1 for chunk in chunks)
    assert [chunk["score"] for chunk in chunks] == sorted((chunk["score"] for chunk in chunks), reverse=True)


def test_filters_compare_by_the_fields_type(service: RunningService) -> None:
    """Numbers as numbers, times as times (whatever their offset), booleans and text; applied before ranking."""
    fields = {"count": "INT", "price": "DOUBLE", "due": "DATETIME", "final": "BOOLEAN", "city": "STRING"}
    collection = create_collection(service, "law", **fields)
    rows = {
        "a": {"count": "9", "price": "1.5", "due": "2026-01-01T23:00:00Z", "final": "true", "city": "Oslo"},
        "b": {"count": "10", "price": "1e1", "due": "2026-01-02T00:30:00+01:00", "final": "false", "city": "Bergen"},
        "c": {"count": "-1", "due": "2026-01-03"},
    }
    for external_id, metadata in rows.items():
        a_document(service, external_id, f"The zebra report of {external_id}.", collection, **metadata)

    def matching(*filters: tuple[str, str, str], **options: Any) -> set[str]:
        return set(names(asked(service, collection, "zebra report", filters=filters, **options)))

    assert matching(("count", ">", "9")) == {"b"}
    assert matching(("count", "<=", "+9")) == {"a", "c"}
    assert matching(("price", ">=", "1.50")) == {"a", "b"}
    assert matching(("price", "==", "10")) == {"b"}
    assert matching(("due", "<", "2026-01-01T23:15:00Z")) == {"a"}
    assert matching(("due", "==", "2026-01-01T23:30:00Z")) == {"b"}
    assert matching(("due", ">=", "2026-01-03T00:00:00Z")) == {"c"}
    assert matching(("final", "==", "true")) == {"a"}
    assert matching(("final", "!=", "true")) == {"b", "c"}
    assert matching(("city", "contains", "erg")) == {"b"}
    assert matching(("city", "<", "C")) == {"b"}
    assert matching(("city", "==", "oslo")) == set()
    assert matching(("count", ">", "0"), ("final", "==", "false"), mode="LEXICAL") == {"b"}
    applied = asked(service, collection, "zebra", filters=[("count", ">", "9")])["structuredFiltersApplied"]
    assert applied == [{"field": "count", "operator": ">", "value": "9"}]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("count", "ten"),
        ("count", "1.5"),
        ("count", "1_000"),
        ("count", "١٢"),
        ("count", " 1"),
        ("price", "nan"),
        ("price", "1_0"),
        ("due", "soon"),
        ("due", "20260131"),
        ("final", "yes"),
        ("unknown", "1"),
    ],
)
def test_filters_that_do_not_fit_the_schema_are_refused(service: RunningService, field: str, value: str) -> None:
    """An unknown field, or a value that no document could have in it, is 400 naming the member."""
    collection = create_collection(service, "law", count="INT", price="DOUBLE", due="DATETIME", final="BOOLEAN")
    filters = [{"field": field, "operator": "==", "value": value}]
    body = {"documentCollectionId": collection, "searchQuery": "zebra", "structuredQueryFilters": filters}
    error = refused(service.call("search/searchDocumentCollection", body), 400, "invalid_filter")
    assert error["details"][0]["field"].startswith("structuredQueryFilters.0.")


def test_a_result_needs_the_collection_and_the_document(service: RunningService) -> None:
    """VIEWER on the collection shows only documents one may READ; without it the collection does not exist."""
    add_users(service, ANN, BEN)
    collection = create_collection(service, "law", as_user=ANN)
    for external_id, public in (("secret", {}), ("public", {"internalPublic": "true"})):
        document = ok(upload(service, external_id, f"The zebra {external_id}.", as_user=ANN, **public))
        ok(add_to_collection(service, document["documentId"], collection, as_user=ANN))
    body = {"documentCollectionId": collection, "searchQuery": "zebra", "userEmail": BEN}
    refused(service.call("search/searchDocumentCollection", body), 404, "collection_not_found")
    resource = {"resourceId": collection, "resourceType": "DOCUMENT_COLLECTION"}
    grants = [{"principal": {"type": "user", "email": BEN}, "role": "VIEWER"}]
    ok(service.call("admin/grants/set", {"resource": resource, "grants": grants}))
    assert names(asked(service, collection, "zebra", as_user=BEN)) == ["public"]
    assert set(names(asked(service, collection, "zebra", as_user=ANN))) == {"public", "secret"}
    ok(service.call("admin/grants/set", {"resource": resource, "grants": []}))
    refused(service.call("search/searchDocumentCollection", body), 404, "collection_not_found")


def test_an_unknown_collection_is_not_found(service: RunningService) -> None:
    """404, as for one that isn't the caller's."""
    body = {"documentCollectionId": "00000000-0000-7000-8000-000000000000", "searchQuery": "zebra"}
    refused(service.call("search/searchDocumentCollection", body), 404, "collection_not_found")


def test_a_collection_is_searched_alone(service: RunningService) -> None:
    """What is in the catalog or another collection is not found, and what is removed from it neither."""
    law, lore = create_collection(service, "law"), create_collection(service, "lore")
    in_law = a_document(service, "in-law", "The zebra law.", law)
    a_document(service, "in-lore", "The zebra lore.", lore)
    uploaded(service, "in-none", "The zebra of none.", internalPublic="true")
    assert names(asked(service, law, "zebra")) == ["in-law"]
    ok(add_to_collection(service, in_law, law, operation="removeDocumentFromCollection"))
    assert asked(service, law, "zebra")["results"] == []
