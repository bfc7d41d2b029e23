"""Watching a sync with a document database: the service does the work, and continues if a watcher dies."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from carrel import AsyncCarrel
from carrel.wire.docstore import DocstoreError, DocstoreSync, DocstoreSyncStatus
from flows.errors import FlowError, NameUnknownError, RefusedError, ServiceDownError, StorageFullError, SyncFailedError
from flows.operations.formatting import failure_row
from flows.operations.jobs import open_client, outage_policy_of
from flows.operations.options import SyncOptions
from flows.operations.outages import OutagePolicy, poll, read_first_page
from flows.settings import FlowSettings

_SHOWN_FAILURES = 200
# Codes of failed runs whose cause is not the document database.
_OWNER_CODES = frozenset({"sync_owner_inactive", "collection_not_found", "collection_editor_required"})
_SOURCE_CODES = frozenset({"docstore_uri_lost", "invalid_docstore_uri", "documents_not_taken"})
# The warning of a run that failed for some documents but completed everything else.
_SOME_FAILED = "documents_failed"
_GOING_ON = frozenset({DocstoreSyncStatus.PENDING, DocstoreSyncStatus.RUNNING})

OnSync = Callable[[DocstoreSync], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class SyncOutcome:
    """The result of a run, or its state without waiting; `failures` are the first failed documents."""

    sync: DocstoreSync
    launched: bool
    failures: Sequence[Mapping[str, str]]

    @property
    def has_problems(self) -> bool:
        return self.sync.counts.failed > 0 or self.sync.warning is not None

    @property
    def is_incomplete(self) -> bool:
        """Whether work was left undone, beyond failed documents."""
        return self.sync.warning is not None and self.sync.warning.code != _SOME_FAILED

    def text(self) -> str:
        """Return the counts in a line for people, and the undone work in a second line."""
        warning = "" if self.sync.warning is None else f"\n{self.sync.warning.message}"
        counts = self.sync.counts
        return (
            f"{self.sync.config.sync_name}: {counts.read} read: {counts.created} created, {counts.updated} "
            f"updated, {counts.unchanged} unchanged; {counts.deleted} removed; {counts.failed} failed{warning}"
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "syncId": _id_of(self.sync),
            "syncName": self.sync.config.sync_name,
            "status": self.sync.status.value,
            "launched": self.launched,
            **counts_of(self.sync),
            **self.sync.model_dump(mode="json", by_alias=True, include={"warning", "last_error"}),
        }


async def sync(
    name: str,
    *,
    options: SyncOptions,
    settings: FlowSettings,
    on_plan: OnSync | None = None,
    on_update: OnSync | None = None,
) -> SyncOutcome:
    """Launch a sync, given by name or id, and watch its run to the end; a running sync is only watched. `on_plan`
    receives the sync before the launch, `on_update` after each poll. Raises NameUnknownError; and SyncFailedError,
    RefusedError, StorageFullError or ServiceDownError, by the reason why the run ended early."""
    async with open_client(settings) as client:
        outages, docstore = outage_policy_of(client, settings), client.document_collections.docstore
        found = await _find_sync(name, client, outages=outages)
        sync_id, launched = found.docstore_credential_id, False
        if on_plan is not None:
            await on_plan(found)
        if options.launch:
            launched = (await outages.call(lambda: docstore.launch_docstore_sync(sync_id))).sync_launched
        ended = await poll(
            outages,
            lambda: docstore.get_docstore_sync(sync_id),
            is_done=lambda now: not (options.wait_for_end and is_running(now)),
            on_update=on_update,
            longest_pause=3.0,
            gone=SyncFailedError("The sync was deleted during its run. Documents that were loaded stay."),
        )
        if ended.status is DocstoreSyncStatus.FAILED:
            raise _error_of(ended)
        listed = docstore.list_docstore_failures(sync_id, page_size=_SHOWN_FAILURES)
        failures = [
            failure_row(str(failure.source_id), failure.document_external_id, failure.code, failure.message)
            for failure in (await outages.call(lambda: read_first_page(listed))).failures
        ]
        return SyncOutcome(ended, launched, failures)


async def _find_sync(name: str, client: AsyncCarrel, *, outages: OutagePolicy) -> DocstoreSync:
    async def find() -> list[DocstoreSync]:
        every = client.document_collections.docstore.list_docstore_syncs(page_size=1000)
        return [item async for item in every if name == item.config.sync_name or name.lower() == _id_of(item)]

    found = await outages.call(find)
    if len(found) == 1:
        return found[0]
    if not found:
        raise NameUnknownError(f"You can see no sync {name}. `carrel sync list` lists the syncs.")
    raise NameUnknownError(f"Several syncs are named {name}. Give the id of one: {', '.join(map(_id_of, found))}.")


def _id_of(sync: DocstoreSync) -> str:
    return str(sync.docstore_credential_id)


def counts_of(sync: DocstoreSync) -> dict[str, int]:
    counts: dict[str, int] = sync.counts.model_dump()
    return {"documents": sync.document_count, **counts}


def is_running(sync: DocstoreSync) -> bool:
    return sync.status in _GOING_ON


def plan_text(sync: DocstoreSync) -> str:
    phase = (sync.cursor or {}).get("phase")
    reads = {"snapshot": "the rest of the first complete reading", "changes": "changes since the last run"}
    limit = f"at most {sync.config.delete_limit_percent} % of {sync.document_count} documents"
    removes = limit if sync.config.delete_missing else "nothing"
    return f"reads {reads.get(phase or '', 'everything')}, retries {sync.counts.failed}, removes {removes}"


def _error_of(sync: DocstoreSync) -> FlowError:
    error = sync.last_error or DocstoreError(code="internal", message="The run failed.")
    message = f"The sync {sync.config.sync_name} failed ({error.code}): {error.message}"
    if error.code in _OWNER_CODES:
        return RefusedError(message)
    if error.code.startswith("source_") or error.code in _SOURCE_CODES:
        return SyncFailedError(message)
    return StorageFullError(message) if error.code == StorageFullError.code else ServiceDownError(message)
