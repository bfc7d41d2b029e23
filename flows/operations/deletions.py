"""Guarded deletion of documents missing from the source: only documents sent by this source alone and unchanged since,
never after a partial scan. For an empty folder, or above the limit, a person must confirm deletions by name."""

import asyncio
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from carrel import AsyncCarrel
from carrel.wire.uploads import PlanAction, PlannedUpload, UploadPlan
from flows.operations.ledger.ledger import Ledger
from flows.operations.ledger.rows import FIRST, Action, Entry, Missing, State
from flows.operations.options import UploadOptions
from flows.operations.outages import OutagePolicy
from flows.operations.sources.documents import folders_of
from flows.operations.sources.exclusions import FileSelection
from flows.operations.sources.reading import is_folder, select_files

TO_DELETE = (State.PLANNED, State.FOUND)
"""The states of documents to delete: FOUND while the guard holds the deletion back."""
_PAGE = 500
# Planned actions of documents that changed since this source sent them.
_OTHERS = frozenset({PlanAction.UPDATE, PlanAction.FORBIDDEN})
_EMPTY = "the source has no documents, so its folder may not be mounted."
_CONFIRMED_BY_NAME = (
    "If the source is empty on purpose, confirm the deletion: *Delete …* on the run's page, or `carrel "
    "upload --delete-missing` at a terminal."
)
# An unreadable row may be of any document, whatever its id seems to be.
_LINKS = ("link_broken", "link_escapes", "file_unreadable")
_HIDING = ("row_invalid", "folder_unreadable", "name_undecodable")


async def plan_deletions(
    client: AsyncCarrel,
    ledger: Ledger,
    source: str,
    *,
    options: UploadOptions,
    outages: OutagePolicy,
    confirmed: str | None = None,
) -> None:
    """After a complete scan, plan the deletions in the ledger, or record why nothing is deleted. With `confirmed`, the
    `mark_of_deletions` shown to a person, only the documents shown are deleted, and the limit doesn't apply."""
    if not await asyncio.to_thread(ledger.find_missing, limit=1):
        return
    found = await asyncio.to_thread(ledger.count_found)
    reason = await asyncio.to_thread(_explain_incomplete, ledger, found=found)
    can_be_meant = reason == _EMPTY and await asyncio.to_thread(is_folder, source)
    if can_be_meant:
        reason = "" if confirmed and options.delete_missing else f"{_EMPTY} {_CONFIRMED_BY_NAME}"
    if reason and (options.delete_missing or not found):
        await asyncio.to_thread(ledger.block_deletions, f"Nothing is deleted: {reason}")
    if reason and not can_be_meant and (options.delete_missing or found):
        return
    files = await asyncio.to_thread(select_files, source, options.files)
    marked = await _mark(client, ledger, files, options=options, outages=outages)
    if not options.delete_missing:
        await asyncio.to_thread(ledger.decide_deletions, State.KEPT)
        return
    if not confirmed and not reason:
        known = await asyncio.to_thread(ledger.count_known)
        reason = beyond(options.delete_limit_percent, marked=marked, known=known)
    if not reason and marked and confirmed not in {None, await asyncio.to_thread(mark_of_deletions, ledger)}:
        reason = "other documents are gone now than the documents that you confirmed. Check the plan again."
    if reason:
        await asyncio.to_thread(ledger.block_deletions, f"Nothing is deleted: {reason}")
    else:
        await asyncio.to_thread(ledger.decide_deletions, State.PLANNED)
        await asyncio.to_thread(ledger.set_aside)


def deletions(ledger: Ledger, *, states: Sequence[State]) -> Iterator[str]:
    """Yield the external ids of documents to delete (`TO_DELETE`), or of deleted documents, by `states`."""
    for state in states:
        yield from (entry.document.external_id for entry in ledger.walk(state, action=Action.DELETE))


def mark_of_deletions(ledger: Ledger) -> str:
    """Return a digest of the names of documents missing from the source and due for deletion."""
    names = sorted(deletions(ledger, states=(State.PLANNED, State.FOUND, State.KEPT)))
    return hashlib.sha256("\n".join(names).encode()).hexdigest()[:32]


async def skip_modified(
    client: AsyncCarrel, ledger: Ledger, documents: Sequence[Entry], *, upload_as: str | None, outages: OutagePolicy
) -> None:
    """Keep documents changed by others, or found by another source, from deletion: mark them as UNCHANGED."""
    for start in range(0, len(documents), _PAGE):
        page = [
            Missing(document.document.external_id, document.document_id, document.fingerprint, None)
            for document in documents[start : start + _PAGE]
        ]
        plans = await _ask_once(client, page, upload_as=upload_as, outages=outages)
        elsewhere = await asyncio.to_thread(ledger.found_by_others, [missing.external_id for missing in page])
        spared = [item for item, plan in plans if plan.action in _OTHERS or item.external_id in elsewhere]
        await asyncio.to_thread(ledger.mark, spared, state=State.UNCHANGED)


def _explain_incomplete(ledger: Ledger, *, found: int) -> str:
    """Return why the scan can't show which documents are gone; empty if it can."""
    hidden, place = ledger.hidden_by_problems(_HIDING)
    if hidden:
        number = "an item" if hidden == 1 else f"{hidden} items"
        return f"{number} of the source (such as {place}) cannot be read. Correct the cause, and run again."
    # A file that can't be a document also shows that the folder is mounted. A broken link doesn't.
    unusable = ledger.problem_count() + ledger.problem_count(ignored=True) - ledger.hidden_by_problems(_LINKS)[0]
    return "" if found or unusable else _EMPTY


def beyond(limit: int, *, marked: int, known: int) -> str:
    """Return why the number of deletions is too high compared with the known documents; empty when within the limit."""
    before = known + marked
    if marked * 100 <= limit * before:
        return ""
    enough = -(-marked * 100 // before)
    return (
        f"{marked} of {before} earlier documents are gone from the source. This exceeds the limit of {limit} "
        f"%. To delete them, run again with `--delete-limit {enough}` (in a file of deployments, "
        f"`delete_limit_percent: {enough}`)."
    )


async def _mark(
    client: AsyncCarrel, ledger: Ledger, files: FileSelection, *, options: UploadOptions, outages: OutagePolicy
) -> int:
    """Mark documents for deletion or as left alone; forget those gone from the catalog. Return the number to delete."""
    marked, after = 0, FIRST
    while page := await asyncio.to_thread(ledger.find_missing, after=after, limit=_PAGE):
        after = page[-1][0]
        left_out = [item for _, item in page if _is_left_out(item.external_id, files, hidden=options.hidden)]
        unsure = [missing for missing in left_out if not missing.fingerprint]  # an interrupted run planned these
        looked_for = [item for _, item in page if item not in left_out]
        documents = await asyncio.to_thread(_select_without_problem, ledger, looked_for)
        elsewhere = await asyncio.to_thread(ledger.found_by_others, [document.external_id for document in documents])
        plans = await _ask(client, [*documents, *unsure], upload_as=options.upload_as_user_email, outages=outages)
        gone = [item.external_id for item, plan in plans if plan.action is PlanAction.CREATE]
        still = [(item, plan) for item, plan in plans if plan.action is not PlanAction.CREATE and item not in unsure]
        left_out = [missing for missing in left_out if missing.external_id not in gone]
        await asyncio.to_thread(ledger.mark, left_out, state=State.IGNORED)
        others = [item for item, plan in still if plan.action in _OTHERS or item.external_id in elsewhere]
        ours = [
            replace(item, document_id=str(plan.document_id) if plan.document_id else item.document_id)
            for item, plan in still
            if item not in others
        ]
        await asyncio.to_thread(ledger.mark, ours)
        await asyncio.to_thread(ledger.mark, others, state=State.UNCHANGED)
        await asyncio.to_thread(ledger.forget_sent, gone)
        marked += len(ours)
    return marked


def _is_left_out(external_id: str, files: FileSelection, *, hidden: bool) -> bool:
    """Return whether the run's selection excludes the file of an external id, whether or not the file exists."""
    is_hidden = any(part.startswith(".") for part in external_id.split("/"))
    return (is_hidden and not hidden) or bool(files.reason_to_exclude(external_id))


def _select_without_problem(ledger: Ledger, documents: Sequence[Missing]) -> list[Missing]:
    """Return the documents for which this scan found no problem, either in the document or in a folder above."""
    lines = {document.external_id: folders_of(document.external_id) for document in documents}
    names = sorted({name for line in lines.values() for name in line})
    problems: set[str] = set()
    for start in range(0, len(names), 1000):
        problems |= ledger.named_by_problems(names[start : start + 1000])
    return [missing for missing in documents if not problems & lines[missing.external_id]]


async def _ask(
    client: AsyncCarrel, documents: Sequence[Missing], *, upload_as: str | None, outages: OutagePolicy
) -> list[tuple[Missing, UploadPlan]]:
    """Return each document with the catalog's answer: as it was sent, or else as a killed run may have sent it."""
    answers: list[tuple[Missing, UploadPlan]] = []
    doubtful: list[Missing] = []
    for item, plan in await _ask_once(client, documents, upload_as=upload_as, outages=outages):
        if plan.action is PlanAction.UPDATE and item.fingerprint and item.intended:
            doubtful.append(replace(item, fingerprint=None))
        else:
            answers.append((item, plan))
    return answers + await _ask_once(client, doubtful, upload_as=upload_as, outages=outages)


async def _ask_once(
    client: AsyncCarrel, documents: Sequence[Missing], *, upload_as: str | None, outages: OutagePolicy
) -> list[tuple[Missing, UploadPlan]]:
    if not documents:
        return []
    planned = [
        PlannedUpload(document_external_id=item.external_id, fingerprint=item.fingerprint or item.intended or "-")
        for item in documents
    ]
    ask = partial(client.catalog.plan_upload, documents=planned, upload_as_user_email=upload_as)
    return list(zip(documents, (await outages.call(ask)).documents, strict=True))
