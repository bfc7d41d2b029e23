"""Trying again what could not be taken before: its reason may be gone, though the document is as it was."""

import json
from uuid import UUID

from service.docstore.queries import list_failures
from service.docstore.running import queries
from service.docstore.running.applying import apply_documents
from service.docstore.running.run import Run
from service.docstore.values import SourceId, from_extended
from service.identifiers import NIL

AT_ONCE = 100


async def try_again(run: Run) -> None:
    """Read every document on the list of failures again, and apply it.

    What fails again stays on the list; what the source doesn't have any more leaves it.
    """
    after = NIL
    while failures := await _next_failures(run, after):
        documents = await run.source.read(list(failures.values()))
        await apply_documents(run, documents)
        found = {document.source_id.key for document in documents}
        gone = [document_id for document_id, source_id in failures.items() if source_id.key not in found]
        async with run.transaction() as connection:
            await queries.replace_failures(
                connection, run.organization_id, sync_id=run.sync.sync_id, tried=gone, failures=()
            )
        after = max(failures)


async def _next_failures(run: Run, after: UUID) -> dict[UUID, SourceId]:
    async with run.transaction() as connection:
        rows = await list_failures(
            connection, run.organization_id, sync_id=run.sync.sync_id, after=after, limit=AT_ONCE
        )
    return {row.document_id: SourceId(from_extended(json.loads(row.source_id))) for row in rows}
