"""Chunks that an earlier version indexed come to the present forms of words, from their stored texts."""

import pytest
from sqlalchemy import text

from service.domains.oversight.status.queries import read_state
from service.index import terms
from service.index.forms import FORMS, RULES
from service.index.ingestion import queries, renewal
from service.index.service import ask_current_space
from service.index.terms import read_sparsevec, term_of, weigh_chunks
from service.platform.batches import Batch
from service.platform.disk import DiskGuard
from service.platform.identifiers import NIL
from service.schema.indexing import TOTAL_TERM
from tests.harness.corpus import MOVE_INSIDE, Corpus

CHUNKS = ["Send an e-mail to Zürich.", "Plain words.", "See Q3_travel_budget.pdf", "It costs 1,234.56", "The end."]
FOUND = [term_of(word, "english") for word in ("email", "zurich", "budget", "1234.56", "plain")]
EARLIER, PRESENT = ([0], 1), ([RULES], None)
"""The forms that are noted, and how many documents Health counts as not renewed."""


@pytest.fixture
async def corpus(own_service, monkeypatch):
    """A catalog with a document as an earlier version has indexed it."""
    corpus = await Corpus.open(own_service)
    monkeypatch.setattr(renewal, "SLICE", 2)
    with monkeypatch.context() as earlier:
        earlier.setattr(terms, "find_forms", lambda _: ())
        earlier.setattr(terms, "_weigh_word", lambda word, stemming: ((term_of(word, stemming), 1.0),))
        await corpus.add("Names", CHUNKS)
    async with corpus.transaction() as connection:
        for statement in MOVE_INSIDE:
            await connection.execute(text(statement))
    yield corpus
    await corpus.close()


async def state(corpus: Corpus, *, renewed: bool = False) -> tuple[list[int], int | None]:
    if renewed:
        await renewal.renew_all(corpus.database, DiskGuard())
    async with corpus.transaction() as connection:
        forms = list((await connection.execute(text("SELECT forms FROM space_documents"))).scalars())
        current = ask_current_space(batch := Batch(), corpus.organization_id, space_id=corpus.space.space_id)
        await batch.run(connection)
        assert current.rows[0].has_old_forms == (forms[0] < FORMS)
        return forms, (await read_state(connection, corpus.organization_id))["renewing_count"]


async def has_terms(corpus: Corpus, name: str) -> bool:
    """Return whether the chunks have the present forms of words of a document of this name."""
    async with corpus.transaction() as connection:
        rows = await connection.execute(text("SELECT terms::text FROM chunks_384"))
    present = weigh_chunks(CHUNKS, title=name, stemming="english")
    return sorted(sorted(read_sparsevec(row)) for row in rows.scalars()) == sorted(map(sorted, present))


async def write_as_an_earlier_version(corpus: Corpus) -> None:
    async with corpus.transaction() as connection:
        await connection.execute(text("UPDATE space_documents SET indexed_version = version"))


async def test_earlier_forms_are_renewed_once_by_one_process(corpus):
    await write_as_an_earlier_version(corpus)
    async with corpus.transaction() as connection:
        assert await queries.try_lock_renewal(connection)
        assert await state(corpus, renewed=True) == EARLIER
    assert not await has_terms(corpus, "Names")
    for _ in range(2):
        assert await state(corpus, renewed=True) == PRESENT
        assert await has_terms(corpus, "Names")
        counts = await corpus.frequencies(corpus.space.space_id, [*FOUND, TOTAL_TERM])
        assert counts == dict.fromkeys(FOUND, 1) | {TOTAL_TERM: 5}


async def test_a_request_to_index_again_keeps_the_forms_and_a_retired_space_has_none_to_renew(corpus):
    async with corpus.transaction() as connection:
        [document_id] = (await connection.execute(text("SELECT document_id FROM space_documents"))).scalars()
        wanted = {"document_id": document_id, "space_id": corpus.space.space_id, "version": 1, "custom_metadata": {}}
        await queries.request_indexing_in_space(connection, corpus.organization_id, **wanted, is_begun=False, anew=True)
    assert await state(corpus) == ([FORMS], 1)
    await write_as_an_earlier_version(corpus)
    async with corpus.transaction() as connection:
        await connection.execute(text("UPDATE spaces SET is_catalog = false, retired_at = now()"))
    assert await state(corpus, renewed=True) == ([0], None)


@pytest.mark.parametrize(("first", "name", "is_indexed"), [(0, "Port", True), (2, "Port", False), (2, "Names", False)])
async def test_a_document_that_changes_meanwhile_is_renewed_as_it_is_then(corpus, first, name, is_indexed):
    await write_as_an_earlier_version(corpus)
    async with corpus.transaction() as connection:
        [old] = await queries.list_old(connection, corpus.organization_id, after=(0, NIL), limit=9)
        assert not first or await renewal.renew_slice(connection, corpus.organization_id, old, first=0) == first
    async with corpus.transaction() as connection:
        await connection.execute(text("UPDATE documents SET name = :name"), {"name": name})
        assert not is_indexed or await corpus.write(connection, old.document_id, name, CHUNKS)
    if name == "Names":
        await write_as_an_earlier_version(corpus)
    async with corpus.transaction() as connection:
        assert await renewal.renew_slice(connection, corpus.organization_id, old, first=first) is None
    assert await state(corpus) == (PRESENT if is_indexed else EARLIER)
    assert await state(corpus, renewed=True) == PRESENT
    assert await has_terms(corpus, name)
