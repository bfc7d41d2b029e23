"""Passages are found with the caller's rights, ranked as in search, and not logged as searches."""

from collections.abc import Sequence
from uuid import UUID

import pytest

from service.domains.agents.answering.models import Passage
from service.domains.agents.answering.retrieval import LONGEST_PASSAGE, MOST_PASSAGES, Lookup, retrieve
from tests.answering.asking import ADMIN, Library, a_library
from tests.harness.documents import add_to_collection, create_collection, embedded, ok

PATIENCE_SECONDS = 240.0
QUERY = "the ferry to Harwell"


def found(
    library: Library, query: str = QUERY, *, person: str = ADMIN, limit=10, collection_ids: Sequence[str] | None = None
) -> list[Passage]:
    ids = [UUID(each) for each in ([library.collection_id] if collection_ids is None else collection_ids)]
    caller = library.caller(person)
    asked = retrieve(library.service.runtime, caller, collection_ids=ids, lookup=Lookup(query, limit))
    return list(library.service.run(asked).passages)


def names(passages: Sequence[Passage]) -> list[str]:
    return [passage.document_name for passage in passages]


def test_it_finds_what_a_search_of_the_collection_finds(library: Library) -> None:
    for number in range(6):
        library.put(
            f"Page {number}", f"# Page {number}\n\nThe ferry to Harwell number {number} leaves at {number + 6}."
        )
    body = {"documentCollectionId": library.collection_id, "searchQuery": QUERY, "searchOptions": {"maxChunks": 4}}
    results = ok(library.service.call("search/searchDocumentCollection", body))["results"]
    assert names(found(library, limit=4)) == [result["documentName"] for result in results]
    assert [passage.text for passage in found(library, limit=4)] == [
        chunk["text"] for result in results for chunk in result["chunks"]
    ]
    assert len(ok(library.service.call("admin/searchLog/query"))["searches"]) == 1


def test_a_passage_comes_with_its_section(library: Library) -> None:
    rules = [f"Rule {number} of the harbour. {'No boat may wait there. ' * 20}" for number in range(4)]
    library.put(
        "Rules", "# Rules\n\n## Piers\n\n" + "\n\n".join([*rules, "The ferry to Harwell waits.", "# End\n\nBye."])
    )
    [first, *others] = found(library)
    assert [rule for rule in rules if rule.strip() not in first.text] == []
    assert (first.chunk_no, len(first.parts) > 1, len(first.text) < LONGEST_PASSAGE) == (0, True, True)
    assert all("harbour" not in each.text for each in others)


def test_it_finds_only_what_the_caller_may_read(library: Library) -> None:
    reader, other = library.person("reader@example.test"), library.person("other@example.test")
    library.put("Hers", "# Ferry\n\nThe ferry to Harwell is hers.", readers=[reader])
    library.put("Everyone's", "# Ferry\n\nThe ferry to Harwell is everyone's.")
    assert sorted(names(found(library, person=reader))) == ["Everyone's", "Hers"]
    assert names(found(library, person=other)) == ["Everyone's"]
    closed = create_collection(library.service, "Closed")
    assert names(found(library, person=other, collection_ids=[closed, library.collection_id])) == ["Everyone's"]
    assert found(library, person=other, collection_ids=[closed]) == []


def test_what_the_caller_may_not_read_changes_nothing(library: Library) -> None:
    reader = library.person("reader@example.test")
    for name, word in (("One", "walrus"), ("Two", "puffin")):
        library.put(name, f"# {name}\n\nA {word} was seen at noon.")
    for number in range(4):
        library.put(f"Page {number}", f"# Page {number}\n\nThe weather of day {number} was fair.")
    before = found(library, "walrus puffin", person=reader)
    for times, word in ((20, "walrus"), (80, "puffin")):
        hidden = "\n\n".join(f"# Part {number}\n\nA {word}." for number in range(times))
        library.put(f"Hidden {word}", hidden, readers=[])
        assert found(library, "walrus puffin", person=reader) == before


def test_a_rare_word_of_the_readers_documents_weighs_more_than_a_common_one(library: Library) -> None:
    for number in range(8):
        library.put(f"Day {number}", f"# Day {number}\n\nThe weather was fair, the weather report said of the weather.")
    library.put("Rare", "# Rare\n\nA note about zqvexil in the drawer.")
    assert names(found(library, "weather zqvexil"))[0] == "Rare"


def test_collections_are_merged_by_score_each_passage_once(library: Library) -> None:
    """A document in two collections appears once; the query is embedded once for both."""
    shared = library.put("Shared", "# Ferry\n\nThe ferry to Harwell leaves at noon.")
    second = create_collection(library.service, "Second")
    ok(add_to_collection(library.service, shared, second))
    near = library.put("Near", "# Boats\n\nA boat goes to Harwell in summer.")
    library.put("Far", "# Bread\n\nSourdough wants a day of rest.")
    ok(add_to_collection(library.service, near, second))
    before = embedded(library.service)
    passages = found(library, collection_ids=[second, library.collection_id])
    assert embedded(library.service) - before == 1
    assert names(passages) == ["Shared", "Near", "Far"]
    assert [passage.score for passage in passages] == sorted((passage.score for passage in passages), reverse=True)


@pytest.mark.parametrize(("query", "limit"), [("", 5), ("  \n", 5), (QUERY, 0)])
def test_nothing_is_found_for_nothing(library: Library, query: str, limit: int) -> None:
    library.put("Page", "The ferry to Harwell.")
    assert found(library, query, limit=limit) == []


def test_passages_are_bounded(make_service) -> None:
    library = a_library(make_service(inline_indexing_seconds=PATIENCE_SECONDS))
    library.service.http.timeout = PATIENCE_SECONDS
    document = library.put("Long", "The ferry to Harwell.")
    chunks = [f"The ferry to Harwell, number {number}. " + "Fog. " * (LONGEST_PASSAGE // 4) for number in range(24)]
    second = create_collection(library.service, "Second")
    ok(
        add_to_collection(
            library.service,
            document,
            second,
            operation="addDocumentChunksToCollection",
            chunks=chunks,
            customMetadata={},
        )
    )
    passages = found(library, collection_ids=[second], limit=1000)
    assert len(passages) == MOST_PASSAGES
    assert max(len(passage.text) for passage in passages) <= LONGEST_PASSAGE
