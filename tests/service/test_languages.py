"""Documents of several languages in a catalog: twelve office matters , each in six languages."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from service.index.ingestion import indexing
from service.index.service import remove_entries, write_index
from service.index.terms import TERMS_OF_STEMMINGS
from tests.harness.documents import ok, upload
from tests.harness.services import RunningService

FOLDER = Path(__file__).parents[1] / "data" / "languages"
SHOWN = 3


def read_lines(name: str) -> list[dict[str, str]]:
    return [json.loads(line) for line in (FOLDER / f"{name}.jsonl").read_text().splitlines()]


def add_documents(service: RunningService) -> None:
    for each in read_lines("documents"):
        contents = f"# {each['title']}\n\n{each['text']}"
        ok(upload(service, each["id"], contents, file_name="a.md", documentName=each["title"]))


def search(service: RunningService, query: str, **options) -> list[dict]:
    body = {"searchQuery": query, "searchOptions": {"maxResults": SHOWN, **options}}
    return ok(service.call("search/searchDocumentCatalog", body))["results"]


def count_found(service: RunningService, mode: str) -> Counter[str]:
    found = Counter[str]()
    for each in read_lines("questions"):
        hits = [hit["documentExternalId"] for hit in search(service, each["text"], mode=mode)]
        found[each["document"][:2]] += each["document"] in hits
    return found


@pytest.mark.slow
def test_a_question_finds_its_document_among_those_of_many_languages(service: RunningService) -> None:
    """Of fifty questions, 49 succeed by words and 50 with meaning, next to English documents. The default model knows
    only English; with English stemming and no bigrams it was 32 and 48. Documents give their language; other word forms
    and bigram runs are marked whole."""
    add_documents(service)
    by_words, by_both = (count_found(service, mode) for mode in ("LEXICAL", "HYBRID"))
    assert by_words["en"] == by_both["en"] == 5
    assert by_words.total() >= 5 + 48
    assert by_both.total() >= 5 + 49
    marks = (
        ("Mietverträge", "de", "Mietvertrag"),
        ("賃貸契約の更新", "ja", "賃貸契約"),
        ("Schutzhelfer", "de", "Brandschutzhelfer"),
    )
    for query, language, marked in marks:
        result = search(service, query)[0]
        snippet = result["snippet"]
        assert marked in [snippet["text"][match["start"] : match["end"]] for match in snippet["matches"]]
        document = ok(service.call("catalog/getDocument", {"documentId": result["documentId"]}))
        assert [place["language"] for place in document["indexedIn"]] == [language]


def test_a_document_of_before_is_brought_to_its_language(service, monkeypatch) -> None:
    with monkeypatch.context() as before:
        before.setattr(indexing, "tell_language", lambda _: None)
        text = "Die Mietverträge für alle Lager laufen zehn Jahre und werden schriftlich gekündigt."
        document_id = ok(upload(service, "a", text.encode(), file_name="a.txt"))["documentId"]
    assert search(service, "Mietverträge", mode="LEXICAL")
    assert not search(service, "lauf", mode="LEXICAL")
    ok(service.call("catalog/reindexDocument", {"documentId": document_id}))
    assert search(service, "lauf", mode="LEXICAL")


def test_words_that_english_texts_are_indexed_without_are_not_said_to_be_missing(service) -> None:
    for name, text in (
        ("a", "Die Mietverträge für alle Lager laufen zehn Jahre und werden schriftlich gekündigt."),
        ("b", "The keys of the yard and of the gate are not to be lent."),
    ):
        ok(upload(service, name, text.encode(), file_name=f"{name}.txt"))
    for query, unmatched in (("the of and", []), ("the quay of the yard", ["quay"]), ("IT for the yard", ["IT"])):
        body = {"searchQuery": query, "searchOptions": {"mode": "LEXICAL"}}
        applied = ok(service.call("search/searchDocumentCatalog", body))["applied"]
        assert applied.get("unmatchedWords", []) == unmatched, query


async def test_chunks_are_counted_by_stemming(corpus) -> None:
    async def write(version: int, chunks: list[str], language: str | None) -> dict[str, int]:
        document = replace(corpus.document(document_id, "Titel", chunks, version=version), language=language)
        await corpus.want(document_id, corpus.space, version=version)
        async with corpus.transaction() as connection:
            await write_index(connection, corpus.organization_id, space=corpus.space, documents=[document])
        return await count()

    async def count() -> dict[str, int]:
        await corpus.fold()
        found = await corpus.frequencies(corpus.space.space_id, TERMS_OF_STEMMINGS.values())
        return {name: found[term] for name, term in TERMS_OF_STEMMINGS.items() if found.get(term)}

    document_id = await corpus.add("Titel", ["eins", "zwei", "1"])
    assert await count() == {}
    assert await write(2, ["eins", "zwei", "1"], "de") == {"german": 3}
    # "1" is the same term in every language: its row isn't written again, and counts all the same.
    assert await write(3, ["uno", "1"], "es") == {"spanish": 2}
    assert await write(4, ["一", "1"], "zh") == {}
    assert await write(5, ["jeden"], "sk") == {"simple": 1}
    async with corpus.transaction() as connection:
        await remove_entries(connection, corpus.organization_id, document_ids=[document_id])
    assert await count() == {}
