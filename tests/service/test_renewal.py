"""Chunks that an earlier version indexed come to the present forms of words, from their stored texts."""

import pytest
from sqlalchemy import text

from service.domains.oversight.status.queries import read_state
from service.index import terms
from service.index.forms import FORMS
from service.index.ingestion import queries, renewal
from service.index.terms import read_sparsevec, term_of, weigh_chunks
from service.platform.disk import DiskGuard
from service.platform.identifiers import NIL
from service.schema.indexing import TOTAL_TERM
from tests.harness.corpus import Corpus

CHUNKS = ["Send an e-mail to Zürich.", "Plain words.", "See Q3_travel_budget.pdf", "It costs 1,234.56", "The end."]
FOUND = [term_of(word, "english") for word in ("email", "zurich", "budget", "1234.56", "plain")]
FRESH = weigh_chunks(CHUNKS, title="Names", stemming="english")
RENEWED = sorted(map(sorted, FRESH)), [FORMS], dict.fromkeys(FOUND, 1) | {TOTAL_TERM: 5}


@pytest.fixture
async def corpus(own_service, monkeypatch):
    """A catalog with a document as an earlier version has indexed it."""
    corpus = await Corpus.open(own_service)
    monkeypatch.setattr(renewal, "SLICE", 2)
    with monkeypatch.context() as earlier:
        earlier.setattr(terms, "find_forms", lambda _: ())
        earlier.setattr(terms, "_weigh_word", lambda word, stemming: ((term_of(word, stemming), 1.0),))
        await corpus.add("Names", CHUNKS)
    yield corpus
    await corpus.close()


async def state(corpus: Corpus) -> tuple[list[list[int]], list[int], dict[int, int]]:
    counts = await corpus.frequencies(corpus.space.space_id, [*FOUND, TOTAL_TERM])
    async with corpus.transaction() as connection:
        rows = await connection.execute(text("SELECT terms::text FROM chunks_384"))
        forms = await connection.execute(text("SELECT forms FROM space_documents"))
        return sorted(sorted(read_sparsevec(row)) for row in rows.scalars()), list(forms.scalars()), counts


async def write_as_an_earlier_version(corpus: Corpus) -> None:
    async with corpus.transaction() as connection:
        await connection.execute(text("UPDATE space_documents SET indexed_version = version"))


async def test_earlier_forms_are_renewed_once(corpus):
    chunks, forms, _ = await state(corpus)
    assert (chunks == RENEWED[0], forms) == (False, [FORMS])
    await write_as_an_earlier_version(corpus)
    assert (await state(corpus))[1] == [0]
    for _ in range(2):
        await renewal.renew_all(corpus.database, DiskGuard())
        assert await state(corpus) == RENEWED


async def renewing_count(corpus: Corpus) -> int | None:
    async with corpus.transaction() as connection:
        return (await read_state(connection, corpus.organization_id))["renewing_count"]


async def test_a_request_for_indexing_again_leaves_the_forms(corpus):
    async with corpus.transaction() as connection:
        [document_id] = (await connection.execute(text("SELECT document_id FROM space_documents"))).scalars()
        wanted = {"document_id": document_id, "space_id": corpus.space.space_id, "version": 1, "custom_metadata": {}}
        await queries.request_indexing_in_space(connection, corpus.organization_id, **wanted, is_begun=False, anew=True)
    assert ((await state(corpus))[1], await renewing_count(corpus)) == ([FORMS], None)


async def test_a_document_that_was_broken_off_or_changed_is_renewed_later(corpus):
    await write_as_an_earlier_version(corpus)
    async with corpus.transaction() as connection:
        [long] = await queries.list_old(connection, corpus.organization_id, after=(0, NIL), limit=9)
    for first, then in ((0, 2), (4, None)):
        async with corpus.transaction() as connection:
            assert await renewal.renew_slice(connection, corpus.organization_id, long, first=first) == then
        assert (await state(corpus))[1] == [0]
        await write_as_an_earlier_version(corpus)
    await renewal.renew_all(corpus.database, DiskGuard())
    assert await state(corpus) == RENEWED
