"""Searches reranked by an endpoint with a known rule: order, sent data, and failures."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import pytest

from carrel.wire.agents import AgentRetrieval
from service.domains.agents.answering.retrieval import Lookup, retrieve
from service.domains.search.reranking import CANDIDATES
from tests.answering.asking import Library, share
from tests.harness.documents import add_to_collection, add_users, create_collection, ok, uploaded
from tests.harness.jobs import until
from tests.harness.reranking import BETTER, KEY, WORSE, RerankingEndpoint, serving_reranking
from tests.harness.services import RunningService, ServiceHarness

ANN, BEN = "ann@example.test", "ben@example.test"
QUERY = "zebra report"
SECRET = "The zebra report that Ben alone may read"
MANY = 60


@pytest.fixture(scope="module")
def endpoint() -> Iterator[RerankingEndpoint]:
    with serving_reranking() as endpoint:
        yield endpoint


@pytest.fixture(scope="module")
def reranked(service_harness: ServiceHarness, endpoint: RerankingEndpoint) -> Iterator[RunningService]:
    with service_harness.running(reranking_url=endpoint.url, reranking_api_key=KEY, reranking_seconds=20.0) as service:
        add_users(service, ANN, BEN)
        for name, text in {
            "first": f"The zebra report, the zebra report: {WORSE}.",
            "second": "The zebra report about invoices.",
            "third": f"A zebra report on the stripes of an animal, {BETTER} and {BETTER}.",
        }.items():
            uploaded(service, name, text, internalPublic="true", documentName=name)
        uploaded(service, "secret", f"{SECRET}: {BETTER}.", as_user=BEN, documentName="secret")
        yield service


@pytest.fixture(autouse=True)
def behave(endpoint: RerankingEndpoint, reranked: RunningService) -> None:
    reranker = reranked.runtime.reranker
    assert reranker is not None
    reranker.__dict__["_rests_until"] = 0.0
    endpoint.behave()


def search(service: RunningService, *, person: str = ANN, **options) -> dict:
    body = {"searchQuery": QUERY, "userEmail": person, "searchOptions": options}
    return ok(service.call("search/searchDocumentCatalog", body))


def names(answer: dict) -> list[str]:
    return [result["documentExternalId"] for result in answer["results"]]


def test_a_search_is_reranked_when_it_says_so(reranked: RunningService, endpoint: RerankingEndpoint) -> None:
    plain = search(reranked)
    assert plain["applied"] == {}
    assert names(plain)[0] == "first"
    assert endpoint.asked == []
    answer = search(reranked, enableReranking=True)
    assert answer["applied"] == {"reranking": {"applied": True, "candidateCount": 3}}
    assert names(answer).index("third") < names(answer).index("first")
    scores = [result["score"] for result in answer["results"]]
    assert scores == sorted(scores, reverse=True)
    [logged, *_] = ok(reranked.call("admin/searchLog/query"))["searches"]
    assert (logged["searchId"], logged["resultCount"]) == (answer["searchId"], 3)
    last = {"searchId": answer["searchId"], "documentId": answer["results"][-1]["documentId"]}
    ok(reranked.call("search/submitSearchFeedback", {**last, "feedback": "THUMBS_UP"}))


def test_texts_that_the_searcher_may_not_read_never_leave(reranked, endpoint) -> None:
    search(reranked, enableReranking=True)
    assert sorted(text.split("\n")[0] for text in endpoint.texts) == ["first", "second", "third"]
    assert not any(SECRET in text for text in endpoint.texts)
    endpoint.behave()
    assert "secret" in names(search(reranked, person=BEN, enableReranking=True))
    assert any(SECRET in text for text in endpoint.texts)
    assert [body["query"] for body in endpoint.asked] == [QUERY]


def test_the_searchs_order_stands_without_scores(reranked, endpoint, monkeypatch) -> None:
    plain = names(search(reranked))
    endpoint.answer = lambda _: (200, {"results": [{"index": 99, "relevance_score": 1.0}]})
    failed = search(reranked, enableReranking=True)
    assert names(failed) == plain
    assert failed["applied"]["reranking"]["reason"] == "FAILED"
    endpoint.open.clear()
    monkeypatch.setattr(reranked.runtime.reranker, "_limit", 0.1)
    slow = search(reranked, enableReranking=True)
    assert names(slow) == plain
    reranking = slow["applied"]["reranking"]
    assert (reranking["applied"], reranking["candidateCount"], reranking["reason"]) == (False, 0, "TIMED_OUT")
    assert "in time" in reranking["note"]
    figures = reranked.http.get("/metrics").text
    assert 'carrel_rerankings_total{outcome="timed_out"} 1.0' in figures
    assert "carrel_reranking_seconds_total" in figures


def test_no_database_connection_is_held_while_the_endpoint_is_waited_for(reranked, endpoint) -> None:
    """A slow endpoint must not hold up users of the database."""
    database = reranked.runtime.database
    endpoint.open.clear()
    with ThreadPoolExecutor(1) as people:
        searching = people.submit(search, reranked, enableReranking=True)
        try:
            until(lambda: bool(endpoint.asked))
            until(lambda: database.in_use == 0)
            assert not searching.done()
        finally:
            endpoint.open.set()
        assert searching.result(60)["applied"]["reranking"]["applied"] is True


def test_without_an_endpoint_a_search_says_so(service: RunningService) -> None:
    body = {"searchQuery": QUERY, "searchOptions": {"enableReranking": True}}
    empty = ok(service.call("search/searchDocumentCatalog", body))
    assert empty["applied"]["reranking"]["reason"] == "NOT_CONFIGURED"
    uploaded(service, "a", "The zebra report.")
    answer = ok(service.call("search/searchDocumentCatalog", body))
    assert names(answer) == ["a"]
    assert answer["applied"]["reranking"]["reason"] == "NOT_CONFIGURED"


def test_an_organization_has_what_is_looked_up_reranked(reranked: RunningService, endpoint: RerankingEndpoint) -> None:
    collection = create_collection(reranked, "agent's", as_user=BEN)
    share(reranked, collection, everybody=True)
    for document in ok(reranked.call("catalog/listDocuments", {"userEmail": BEN}))["documents"]:
        ok(add_to_collection(reranked, document["documentId"], collection, as_user=BEN))
    caller = Library(reranked, collection).caller()

    def look_up(*, reranks: bool | None = None) -> str:
        lookup = Lookup(QUERY, 1, options=AgentRetrieval(enable_reranking=reranks))
        looked_up = retrieve(reranked.runtime, caller, collection_ids=[UUID(collection)], lookup=lookup)
        return reranked.run(looked_up).passages[0].document_name

    assert look_up() != "third"
    assert look_up(reranks=True) == "third"
    assert ok(reranked.call("admin/organization/update", {"enableReranking": True}))["enableReranking"] is True
    try:
        assert search(reranked)["applied"]["reranking"]["applied"] is True
        assert search(reranked, enableReranking=False)["applied"] == {}
        endpoint.behave()
        assert look_up() == "third"
        assert sorted(text.split("\n")[0] for text in endpoint.texts) == ["first", "second", "third"]
        assert look_up(reranks=False) != "third"
        endpoint.answer = lambda _: (500, {})
        lookup = Lookup(QUERY, 1)
        failed = reranked.run(retrieve(reranked.runtime, caller, collection_ids=[UUID(collection)], lookup=lookup))
        assert "Not reranked" in (failed.note or "")
    finally:
        ok(reranked.call("admin/organization/update", {"enableReranking": False}))
    assert search(reranked)["applied"] == {}


def test_a_longer_list_begins_like_a_short_one(reranked: RunningService, endpoint: RerankingEndpoint) -> None:
    collection = create_collection(reranked, "many")
    passages = [
        f"# Part {number}\n\nThe zebra report number {number} is {(WORSE, BETTER)[number % 2]}."
        for number in range(MANY)
    ]
    document = uploaded(reranked, "parts", "\n\n".join(passages), internalPublic="true", file_name="a.md")
    ok(add_to_collection(reranked, document["documentId"], collection))

    def scores(**options) -> dict[str, float]:
        body = {"documentCollectionId": collection, "searchQuery": QUERY, "searchOptions": options}
        results = ok(reranked.call("search/searchDocumentCollection", body))["results"]
        return {chunk["chunkId"]: chunk["score"] for result in results for chunk in result["chunks"]}

    def chunks(**options) -> list[str]:
        return list(scores(**options))

    everything, before = chunks(maxChunks=100, enableReranking=True), chunks(maxChunks=100)
    assert len(endpoint.texts) == CANDIDATES
    assert len(everything) == MANY
    assert sorted(everything) == sorted(before)
    assert everything[CANDIDATES:] == before[CANDIDATES:]
    assert everything[:CANDIDATES] != before[:CANDIDATES]
    for most in (1, 7, CANDIDATES):
        assert chunks(maxChunks=most, enableReranking=True) == everything[:most]
    assert chunks(enableReranking=True, threshold=1.0) == []
    # A threshold finds the same chunks with reranking as without, and none of them scores less.
    endpoint.answer = lambda body: (
        200,
        {"results": [{"index": at, "relevance_score": float(at)} for at in range(len(body["documents"]))]},
    )
    threshold = sorted(scores(maxChunks=100).values())[MANY * 3 // 4]
    reaching = scores(maxChunks=100, threshold=threshold)
    again = scores(maxChunks=100, threshold=threshold, enableReranking=True)
    assert 1 < len(reaching) < MANY
    assert sorted(again) == sorted(reaching)
    assert list(again) != list(reaching)
    assert min(again.values()) >= threshold
    assert list(again.values()) == sorted(again.values(), reverse=True)
