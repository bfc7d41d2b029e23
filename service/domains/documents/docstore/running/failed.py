"""Documents that a sync could not take: the next run tries them again, and each run's end sums them up."""

import json
from collections.abc import Sequence
from uuid import UUID

from service.domains.documents.docstore.queries import list_failures
from service.domains.documents.docstore.running import queries
from service.domains.documents.docstore.running.applying import apply_documents
from service.domains.documents.docstore.running.run import Note, Run, RunError
from service.domains.documents.docstore.values import SourceId, from_extended
from service.platform.identifiers import NIL

AT_ONCE = 100
NOT_MAPPED, NOT_TAKEN, SOME_FAILED = "source_not_mapped", "documents_not_taken", "documents_failed"
# What a mapping fails a document for; every other code is the upload's.
_OF_MAPPING = frozenset({"missing_value", "wrong_type", "invalid_value"})
_REASONS, _EXAMPLES, _LONGEST_EXAMPLE = 3, 3, 60
_AGAIN = "every run tries them again."
_ADVICE = f"Correct sourceFields or filterExpression, or mend the documents in the source; {_AGAIN}"
_ADVICE_OTHERWISE = f"Put right what is said of them, here or in the source; {_AGAIN}"


async def retry_failures(run: Run) -> None:
    """Read every document on the list of failures again, and apply it.

    Documents that fail again stay on the list; documents that the source no longer has leave it.
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


async def sum_up(run: Run, note: Note | None) -> Note | None:
    """Return the warning at the end of a run: its failures by reason, together with an earlier note; None for neither.

    Raises RunError when none of the documents that the source lists could be taken: `source_not_mapped` when all failed
    in the mapping, else `documents_not_taken`.
    """
    async with run.transaction() as connection:
        of_run = (connection, run.organization_id)
        listed, taken = await queries.count_taken(*of_run, sync_id=run.sync.sync_id)
        reasons = await queries.group_failures(*of_run, sync_id=run.sync.sync_id, examples=_EXAMPLES)
    if not reasons:
        return note
    failed = sum(row.number for row in reasons)
    before = f"{note.message} " if note else ""
    is_mapping = all(row.code in _OF_MAPPING for row in reasons)
    said = f"{_reasons_text(reasons)}. {_ADVICE if is_mapping else _ADVICE_OTHERWISE}"
    if listed > 0 and taken == 0:
        message = f"{before}None of the {listed} documents that the source lists could be taken: {said}"
        raise RunError(NOT_MAPPED if is_mapping else NOT_TAKEN, message)
    message = f"{before}{failed} of {max(failed, listed)} documents could not be taken: {said}"
    return Note(note.code if note else SOME_FAILED, message)


def _reasons_text(reasons: Sequence[queries.FailureGroup]) -> str:
    told = [f"{row.message.rstrip('.')} ({_examples_text(row)})" for row in reasons[:_REASONS]]
    further = sum(row.number for row in reasons[_REASONS:])
    return "; ".join([*told, f"and {further} for other reasons"] if further else told)


def _examples_text(row: queries.FailureGroup) -> str:
    ids = ", ".join(one if len(one) <= _LONGEST_EXAMPLE else f"{one[:_LONGEST_EXAMPLE]}…" for one in row.source_ids)
    documents = "1 document" if row.number == 1 else f"{row.number} documents"
    return f"{documents}{',' if row.number == 1 else ', such as'} {ids}"
