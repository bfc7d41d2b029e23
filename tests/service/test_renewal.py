"""Data indexed by an earlier version get the present forms of words, and the present place of vectors."""

from typing import Any
from unittest.mock import AsyncMock
from uuid import UUID

import pytest
from sqlalchemy import text

from service.domains.oversight.status.queries import read_state
from service.index import terms
from service.index.forms import FORMS, RULES
from service.index.ingestion import queries, renewal
from service.index.spaces.queries import ask_current_space
from service.index.terms import read_sparsevec, term_of, weigh_chunks
from service.platform.batches import Batch
from service.platform.disk import DiskGuard
from service.platform.identifiers import NIL
from service.schema.indexing import TOTAL_TERM
from tests.harness.corpus import MOVE_INSIDE, Corpus
from tests.harness.documents import embedded, uploaded
from tests.harness.services import RunningService

CHUNKS = ["Send an e-mail to Zürich.", "Plain words.", "See Q3_travel_budget.pdf", "It costs 1,234.56", "The end."]
FOUND = [term_of(word, "english") for word in ("email", "zurich", "budget", "1234.56", "plain")]
EARLIER, PRESENT = ([0], 1), ([RULES], None)
"""The noted forms, and the number of documents that Health counts as not renewed."""


@pytest.fixture(autouse=True)
def the_service_itself_renews_nothing(monkeypatch):
    """Disable the service's renewal: a second one at the same time ends at once."""
    monkeypatch.setattr("service.main.renew_all", AsyncMock())


@pytest.fixture
async def corpus(own_service, monkeypatch):
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
        await queries.request_indexing_in_space(
            connection, corpus.organization_id, **wanted, is_begun=False, as_unindexed=True
        )
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


PLACES = "SELECT count(embedding), (SELECT count(*) FROM vectors_384) FROM chunks_384"
QUESTION = "When does the boat sail?"
TEXTS = {
    "ferry": "The ferry leaves at noon. " * 90,
    "cheese": "Wensleydale is made in the north. " * 90,
    "moon": "A full moon rises over the harbour. " * 90,
}


def found(service: RunningService) -> list[list[tuple[Any, ...]]]:
    answers: list[list[tuple[Any, ...]]] = []
    for mode in ("SEMANTIC", "HYBRID"):
        body = {"searchQuery": QUESTION, "searchOptions": {"mode": mode, "passagesPerDocument": 3}}
        rows = service.call("search/searchDocumentCatalog", body).raise_for_status().json()["results"]
        answers.append([(each["documentName"], round(each["score"], 3), each["snippet"]) for each in rows])
    return answers


def test_a_search_finds_the_same_before_halfway_and_after_the_move(own_service, monkeypatch) -> None:
    monkeypatch.setattr(renewal, "SLICE", 2)
    database = own_service.runtime.indexer.database
    for name, words in TEXTS.items():
        uploaded(own_service, name, words)
    for statement in MOVE_INSIDE:
        own_service.execute(statement)
    [(inside, apart)] = own_service.execute(PLACES)
    assert (inside > 6, apart) == (True, 0)
    assert list(map(len, before := found(own_service))) == [3, 3]
    organization_id = UUID(own_service.call("admin/organization/get").json()["organizationId"])

    async def renew_first_slices() -> None:
        async with database.transaction(organization_id) as connection:
            for each in await queries.list_old(connection, organization_id, after=(0, NIL), limit=9):
                assert await renewal.renew_slice(connection, organization_id, each, first=0) == 2

    own_service.run(renew_first_slices())
    assert (own_service.execute(PLACES), found(own_service)) == ([(inside - 6, 6)], before)
    before_upload = embedded(own_service)
    uploaded(own_service, "ferry", TEXTS["ferry"] + "It returns at dusk.")
    assert embedded(own_service) == before_upload + 1  # the others are taken from wherever they lie
    own_service.run(renewal.renew_all(database, DiskGuard()))
    assert own_service.execute(PLACES) == [(0, inside)]
    assert [name for name, *_ in found(own_service)[0]] == [name for name, *_ in before[0]]
