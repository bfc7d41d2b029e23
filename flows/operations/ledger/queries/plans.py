"""What the plan makes of a run's documents: the verdicts of the service, and what is set aside."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace

from sqlalchemy import Connection

from flows.operations.ledger.queries import documents, sendings
from flows.operations.ledger.queries.quarantined import quarantine_items
from flows.operations.ledger.rows import Run, failure_values, pack
from flows.operations.ledger.states import Action, State
from flows.operations.sources.fingerprint import key_of

_FORBIDDEN = ("external_id_taken", "The external id names a document that this caller may not update.")
_NOT_IN_CATALOG = ("not_in_catalog", "No document of this external id can be read by this caller. Upload it first.")


def apply_plan(
    connection: Connection,
    run: Run,
    plan: Mapping[str, Action | State],
    *,
    document_ids: Mapping[str, str],
    is_doubtful: bool,
) -> None:
    """Set documents to what the service says of them (flows.operations.ledger.ledger.Ledger.apply_plan).

    `is_doubtful`: some of those that the catalog has may be what an earlier run sent without hearing that it arrived.
    """
    by_verdict: dict[Action | State, list[bytes]] = {}
    for external_id, verdict in plan.items():
        by_verdict.setdefault(verdict, []).append(key_of(external_id))
    for verdict, keys in by_verdict.items():
        if isinstance(verdict, Action):
            documents.plan_sends(connection, run, action=verdict, keys=keys)
            continue
        if verdict is State.UNCHANGED and is_doubtful:
            sendings.adopt(connection, run, keys=keys)
        if verdict is State.UNCHANGED:
            _ask_after(connection, run, keys, document_ids=document_ids)
        documents.plan_rest(connection, run, state=verdict, keys=keys)
        if verdict is State.FORBIDDEN:
            _quarantine(connection, run, keys, state=verdict, why=_FORBIDDEN)


def _ask_after(connection: Connection, run: Run, keys: Sequence[bytes], *, document_ids: Mapping[str, str]) -> None:
    failed = documents.unsearchable(connection, run, keys=keys)
    if not failed:
        return
    for external_id, document_id in document_ids.items():
        if (key := key_of(external_id)) in failed:
            values = {"state": State.UPLOADED, "action": None, "document_id": document_id}
            documents.update_document(connection, run, key, values)


def _quarantine(connection: Connection, run: Run, keys: Sequence[bytes], *, state: State, why: tuple[str, str]) -> None:
    entries = documents.entries_of(connection, run, state=state, keys=keys)
    if entries:
        quarantine_items(connection, [failure_values(entry, run, code=why[0], message=why[1]) for entry in entries])


def fail_unidentified(connection: Connection, run: Run, external_ids: Sequence[str]) -> None:
    """Put documents that no catalog has which this caller can read into quarantine."""
    keys = [key_of(external_id) for external_id in external_ids]
    documents.plan_rest(connection, run, state=State.FAILED, keys=keys)
    _quarantine(connection, run, keys, state=State.FAILED, why=_NOT_IN_CATALOG)


def keep_metadata(
    connection: Connection, run: Run, there: Mapping[str, Mapping[str, str]], *, current: Container[str]
) -> None:
    """Give documents without metadata of the source what they have `there`, or leave `current` ones UNCHANGED."""
    entries = documents.entries_of(connection, run, state=State.FOUND, keys=[key_of(name) for name in there])
    silent = [entry.document for entry in entries if not entry.document.metadata]
    unchanged = [key_of(document.external_id) for document in silent if document.external_id in current]
    documents.plan_rest(connection, run, state=State.UNCHANGED, keys=unchanged)
    for document in silent:
        if document.external_id not in current:
            values = {"payload": pack(replace(document, metadata=there[document.external_id]))}
            documents.update_document(connection, run, key_of(document.external_id), values)
