"""Claims from a backlog, of small and of large texts, each found despite a long backlog of the other."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from uuid import UUID

import pytest
from sqlalchemy import event

from service.index.ingestion.backlog.queries import claim_pending
from service.index.ingestion.turns import LARGE_BYTES, Lane
from tests.harness.cases import statement
from tests.harness.documents import add_to_collection, create_collection, ok, upload, uploaded
from tests.harness.embeddings import MODEL
from tests.harness.services import RunningService
from tests.service.directory import organization_id
from tests.service.rebuilds import Shelf

pytestmark = pytest.mark.own_service(sweep_seconds=3600)

MANY = 2000
# Of a large text; no two are alike, so that it packs badly.
WORDS = [f"{number * 2654435761 % 2**32:x}" for number in range(LARGE_BYTES // 2)]
# Of texts and rows in spaces alone, which is all that a claim reads.
FILL = statement("many_claims")
READ = {"space_documents", "document_contents", "caller_chunks"}


def nodes(plan: dict) -> Iterator[dict]:
    yield plan
    for child in plan.get("Plans", []):
        yield from nodes(child)


@contextmanager
def explained(service: RunningService) -> Iterator[list[dict]]:
    """Explain each claim as the service's own role, under row-level security, before it runs."""
    plans: list[dict] = []

    def explain(_connection, cursor, statement: str, parameters, *_) -> None:
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", parameters)
        [plan] = cursor.fetchone()
        plans.append((plan if isinstance(plan, list) else json.loads(plan))[0]["Plan"])

    engine = service.runtime.indexer.database._engine.sync_engine
    event.listen(engine, "before_cursor_execute", explain)
    yield plans
    event.remove(engine, "before_cursor_execute", explain)


@pytest.mark.parametrize("lane", [Lane.SMALL, Lane.LARGE])
def test_a_claim_reads_nothing_of_the_other_lane(service: RunningService, lane: Lane) -> None:
    organization = organization_id(service)
    uploaded(service, "a", "Indexed, so that there is a space.")

    async def look() -> dict:
        async with service.runtime.indexer.database.transaction(organization) as connection:
            with explained(service) as plans:
                assert await claim_pending(connection, organization, limit=16, lane=lane) == []
        [plan] = plans
        return plan

    with service.owner_connection() as connection:
        connection.execute("SET session_replication_role = replica")
        values = {"count": MANY, "organization": organization, "is_large": lane is Lane.SMALL}
        for statement in (FILL, "ANALYZE space_documents, document_contents, spaces"):
            connection.execute(statement, values)
            scans = [node for node in nodes(service.run(look())) if node.get("Relation Name") in READ]
            assert {node["Relation Name"] for node in scans} == READ
            for scan in scans:
                assert (scan["Actual Rows"] + scan.get("Rows Removed by Filter", 0)) * scan["Actual Loops"] == 0, scan


def lanes(service: RunningService, document_id: str) -> set[tuple[bool, bool]]:
    statement = "SELECT is_catalog, is_large FROM space_documents JOIN spaces USING (space_id) WHERE document_id = %s"
    return set(service.execute(statement, [UUID(document_id)]))


def test_each_request_notes_how_large_its_text_is(make_service: Callable[..., RunningService]) -> None:
    service = make_service(inline_indexing_seconds=0, sweep_seconds=3600)
    large, chunks = " ".join(WORDS), [" ".join(WORDS[start : start + 100]) for start in range(0, len(WORDS), 100)]
    own, chunked = create_collection(service, "Own"), create_collection(service, "Chunked")
    document = str(ok(upload(service, "a", large))["documentId"])
    assert lanes(service, document) == {(True, True)}
    ok(add_to_collection(service, document, own))
    assert lanes(service, document) == {(True, True), (False, True)}
    ok(upload(service, "a", "A few words.", reindexCollections="true"))
    assert lanes(service, document) == {(True, False), (False, False)}
    add = "addDocumentChunksToCollection"
    ok(add_to_collection(service, document, chunked, operation=add, chunks=chunks, customMetadata={}))
    assert lanes(service, document) == {(True, False), (False, False), (False, True)}


@pytest.mark.slow
def test_a_rebuild_sorts_by_the_texts_that_are_there(service: RunningService, monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries from before lanes, or of a text not yet requested by a collection, may be wrong."""
    monkeypatch.setattr("service.index.ingestion.backlog.queries.LARGE_BYTES", 500)
    document = uploaded(service, "a", " ".join(WORDS[:250]))["documentId"]
    small = uploaded(service, "b", "A few words.")["documentId"]
    service.execute("UPDATE space_documents SET is_large = NOT is_large")
    shelf = Shelf(service, None)
    shelf.start()
    shelf.take_all_steps()
    statement = (
        "SELECT is_large FROM space_documents JOIN spaces USING (space_id) WHERE document_id = %s AND model = %s"
    )
    found = [service.execute(statement, [UUID(one), MODEL]) for one in (document, small)]
    assert found == [[(True,)], [(False,)]]
