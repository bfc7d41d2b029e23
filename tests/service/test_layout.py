"""Vectors that an earlier release wrote into the rows of chunks are found there, and moved to their own table."""

from typing import Any
from uuid import UUID

from service.index.ingestion import queries, renewal
from service.platform.disk import DiskGuard
from service.platform.identifiers import NIL
from tests.harness.corpus import MOVE_INSIDE
from tests.harness.documents import embedded, uploaded
from tests.harness.services import RunningService

PLACES = "SELECT count(embedding), (SELECT count(*) FROM vectors_384) FROM chunks_384"
QUESTION = "When does the boat sail?"
TEXTS = {
    "ferry": "The ferry leaves at noon. " * 90,
    "cheese": "Wensleydale is made in the north. " * 90,
    "moon": "A full moon rises over the harbour. " * 90,
}


def found(service: RunningService) -> list[list[tuple[Any, ...]]]:
    """Search by meaning, by both, and by a document: each result with its score and passage."""
    answers: list[list[tuple[Any, ...]]] = []
    for mode in ("SEMANTIC", "HYBRID"):
        options = {"mode": mode, "passagesPerDocument": 3}
        answer = service.call("search/searchDocumentCatalog", {"searchQuery": QUESTION, "searchOptions": options})
        rows = answer.raise_for_status().json()["results"]
        answers.append([(each["documentName"], round(each["score"], 3), each["snippet"]) for each in rows])
    return answers


def test_a_search_finds_the_same_before_halfway_and_after_the_move(own_service, monkeypatch) -> None:
    monkeypatch.setattr(renewal, "SLICE", 2)
    database = own_service.runtime.indexer.database
    for name, text in TEXTS.items():
        uploaded(own_service, name, text)
    for statement in MOVE_INSIDE:
        own_service.execute(statement)
    [(inside, apart)] = own_service.execute(PLACES)
    assert (inside > 6, apart) == (True, 0)
    before = found(own_service)
    assert [len(each) for each in before] == [3, 3]
    organization_id = UUID(own_service.call("admin/organization/get").json()["organizationId"])

    async def renew_first_slices() -> None:
        async with database.transaction(organization_id) as connection:
            for each in await queries.list_old(connection, organization_id, after=(0, NIL), limit=9):
                assert await renewal.renew_slice(connection, organization_id, each, first=0) == 2

    own_service.run(renew_first_slices())
    assert own_service.execute(PLACES) == [(inside - 6, 6)]
    assert found(own_service) == before
    before_upload = embedded(own_service)
    uploaded(own_service, "ferry", TEXTS["ferry"] + "It returns at dusk.")
    assert embedded(own_service) == before_upload + 1  # the others are taken from wherever they lie
    own_service.run(renewal.renew_all(database, DiskGuard()))
    assert own_service.execute(PLACES) == [(0, inside)]
    assert [name for name, *_ in found(own_service)[0]] == [name for name, *_ in before[0]]
