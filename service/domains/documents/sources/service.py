"""Rules of sources, for the reporter and admins only. A report's end replaces earlier, not later begun reports."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID, uuid5

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire import sources as wire
from service.alerting.queries import SOURCE
from service.alerting.telling import Telling
from service.audit.service import record
from service.auth.callers import Caller
from service.domains.documents.sources import queries
from service.platform.errors import Conflict, NotFound, require
from service.platform.identifiers import NIL, uuid7
from service.runtime import Runtime
from service.web.pagination import Cursor

TARGET = "source"
MOST_SOURCES = 10_000
MOST_ITEMS = 200_000
MOST_RECORDED_CHARACTERS = 10_000


def unknown_source() -> NotFound:
    return NotFound(
        "You have no such source. Check the id, report the source first, or ask an admin.", code="source_not_found"
    )


async def begin_report(
    connection: Connection, caller: Caller, *, request: wire.ReportSourceRequest
) -> wire.ReportSourceResponse:
    """Begin a report, visible at its end, and drop open reports; if unchanged, note only the time. 409 at the limit."""
    source = await _lock_or_add(connection, caller, ledger=request.ledger)
    organization_id, source_id, report_no = caller.organization_id, source.source_id, source.latest_no + 1
    await queries.keep_only_report(connection, organization_id, source_id=source_id, report_no=source.shown_no)
    if await _is_unchanged(connection, caller, source, request):
        await queries.update_source(connection, organization_id, source_id, reported=True)
        return wire.ReportSourceResponse(source_id=source_id)
    await queries.insert_report(
        connection,
        _key(caller, source, report_no),
        source=request.source,
        collection_id=request.document_collection_id,
        fingerprint=request.fingerprint,
    )
    await queries.update_source(connection, organization_id, source_id, latest_no=report_no)
    return wire.ReportSourceResponse(source_id=source_id, report_no=report_no)


async def add_items(
    connection: Connection, caller: Caller, *, request: wire.ReportSourceItemsRequest
) -> wire.ReportSourceItemsResponse:
    """Add items to an open report, or replace them; 404, 409 `source_report_over` or `too_many_source_items`."""
    source = await _lock_source(connection, caller, request.source_id)
    report = await _require_open(connection, caller, source, request.report_no)
    sent_count = report.sent_count + len(request.items)
    if sent_count > MOST_ITEMS:
        message = f"A report has at most {MOST_ITEMS:,} items. End this report without more items."
        raise Conflict(message, code="too_many_source_items")
    # PostgreSQL refuses an upsert with the same id twice.
    rows = {row["item_id"]: row for row in (_to_row(source.source_id, item) for item in request.items)}
    key = _key(caller, source, request.report_no)
    await queries.save_items(connection, key, items=list(rows.values()), sent_count=sent_count)
    return wire.ReportSourceItemsResponse(source_id=request.source_id, report_no=request.report_no)


async def end_report(
    runtime: Runtime, connection: Connection, caller: Caller, *, request: wire.EndSourceReportRequest
) -> wire.EndSourceReportResponse:
    """End a report; its items become the source's quarantine, and settled alerts end. 404, 409 `source_report_over`."""
    source_id, report_no = request.source_id, request.report_no
    source = await _lock_source(connection, caller, source_id)
    if report_no != source.shown_no:
        await _require_open(connection, caller, source, report_no)
        if source.shown_no is not None:
            shown = _key(caller, source, source.shown_no)
            await queries.keep_ignored(connection, _key(caller, source, report_no), old=shown)
        await _save_shown(connection, caller, source, report_no, reported=True)
        await queries.keep_only_report(connection, caller.organization_id, source_id=source_id, report_no=report_no)
        await Telling(runtime, connection, caller.organization_id).end_settled()
    return wire.EndSourceReportResponse(**dict(await queries.read_source(connection, caller, source_id=source_id)))


async def list_sources(
    connection: Connection, caller: Caller, *, request: wire.ListSourcesRequest
) -> wire.ListSourcesResponse:
    """List the caller's sources, for admins all sources, with the number of items that could not be loaded."""
    cursor = Cursor.read(caller, operation=wire.LIST_SOURCES.path, request=request)
    rows = await queries.list_sources(connection, caller, cursor.window, ledger=request.ledger, own=request.own)
    return cursor.answer(wire.ListSourcesResponse, rows, "source_id")


async def list_items(
    connection: Connection, caller: Caller, *, request: wire.ListSourceItemsRequest
) -> wire.ListSourceItemsResponse:
    """List the items of a source that could not be loaded, by name, with reasons; 404 unless visible to the caller."""
    cursor = Cursor.read(caller, operation=wire.LIST_SOURCE_ITEMS.path, request=request)
    require(await queries.find_source(connection, caller, source_id=request.source_id), unknown_source())
    after = (cursor.after[0], UUID(cursor.after[1])) if cursor.after else ("", NIL)
    rows = await queries.list_items(
        connection, caller, source_id=request.source_id, ignored=request.ignored, after=after, limit=cursor.limit
    )
    page = cursor.page(
        rows, position=lambda item: [_sort_key(item.name), str(_item_id(request.source_id, item.name, item.place))]
    )
    return wire.ListSourceItemsResponse(items=page.items, next_page_token=page.next_page_token)


async def ignore_items(
    runtime: Runtime, connection: Connection, caller: Caller, *, request: wire.IgnoreSourceItemsRequest
) -> wire.IgnoreSourceItemsResponse:
    """Ignore items of a source by name until they change; return the unknown names. 404 unless visible."""
    to = Telling(runtime, connection, caller.organization_id)
    unknown = await _set_ignored(to, caller, request.source_id, request.names, ignored=True)
    return wire.IgnoreSourceItemsResponse(source_id=request.source_id, unknown_names=unknown)


async def restore_items(
    runtime: Runtime, connection: Connection, caller: Caller, *, request: wire.RestoreSourceItemsRequest
) -> wire.RestoreSourceItemsResponse:
    """Stop ignoring items of a source by name; return the unknown names. 404 unless visible to the caller."""
    to = Telling(runtime, connection, caller.organization_id)
    unknown = await _set_ignored(to, caller, request.source_id, request.names, ignored=False)
    return wire.RestoreSourceItemsResponse(source_id=request.source_id, unknown_names=unknown)


async def _set_ignored(
    to: Telling, caller: Caller, source_id: UUID, names: Sequence[str], *, ignored: bool
) -> list[str]:
    """Set whether the visible report's items of these names are ignored, with audit and alert; return unknown names."""
    source = await _lock_source(to.connection, caller, source_id)
    if source.shown_no is None:
        return list(names)
    key = _key(caller, source, source.shown_no)
    known, changed = await queries.set_ignored(to.connection, key, names=names, ignored=ignored)
    if changed:
        await _save_shown(to.connection, caller, source, source.shown_no)
        shown = await queries.read_source(to.connection, caller, source_id=source_id)
        await to.tell_of_quarantine(
            shown.item_count, subject=f"{SOURCE}{source_id}", name=shown.source, code="run_quarantine", quiet=True
        )
        action = "source.ignore_items" if ignored else "source.restore_items"
        await _record(to.connection, caller, action, source, names=[name for name in names if name in changed])
    return [name for name in names if name not in known]


async def remove_source(
    runtime: Runtime, connection: Connection, caller: Caller, *, request: wire.RemoveSourceRequest
) -> wire.RemoveSourceResponse:
    """Remove a source that will not be loaded again, with its quarantine and alerts; 404 unless visible."""
    source_id = request.source_id
    await _record(connection, caller, "source.remove", await _lock_source(connection, caller, source_id))
    await queries.delete_source(connection, caller.organization_id, source_id=source_id)
    await Telling(runtime, connection, caller.organization_id).end_settled()
    return wire.RemoveSourceResponse(source_id=request.source_id)


async def _lock_or_add(connection: Connection, caller: Caller, *, ledger: str) -> queries.Source:
    """Lock the caller's source with this ledger, adding it if needed; Conflict `too_many_sources` at the limit."""
    source = await queries.lock_source_of(connection, caller, ledger=ledger)
    if source is not None:
        return source
    if await queries.count_sources(connection, caller.organization_id) >= MOST_SOURCES:
        await queries.delete_unreported(connection, caller.organization_id)
    if await queries.count_sources(connection, caller.organization_id) >= MOST_SOURCES:
        message = f"The organization has {MOST_SOURCES:,} sources, which is the limit. Remove unused sources."
        raise Conflict(message, code="too_many_sources")
    await queries.insert_source(connection, caller, source_id=uuid7(), ledger=ledger)
    source = await queries.lock_source_of(connection, caller, ledger=ledger)
    assert source is not None  # noqa: S101 - it is there since that statement, or since another one's
    return source


async def _lock_source(connection: Connection, caller: Caller, source_id: UUID) -> queries.Source:
    return require(await queries.find_source(connection, caller, source_id=source_id, lock=True), unknown_source())


async def _is_unchanged(
    connection: Connection, caller: Caller, source: queries.Source, request: wire.ReportSourceRequest
) -> bool:
    if source.shown_no is None or request.fingerprint is None:
        return False
    shown = await queries.find_report(connection, _key(caller, source, source.shown_no))
    told = (request.source, request.document_collection_id, request.fingerprint)
    return shown is not None and told == (shown.source, shown.collection_id, shown.fingerprint)


async def _require_open(
    connection: Connection, caller: Caller, source: queries.Source, report_no: int
) -> queries.Report:
    report = await queries.find_report(connection, _key(caller, source, report_no))
    if report is None or report_no == source.shown_no:
        raise Conflict(
            "This report has ended, or a newer report has begun. Report the source again.", code="source_report_over"
        )
    return report


async def _save_shown(
    connection: Connection, caller: Caller, source: queries.Source, report_no: int, *, reported: bool = False
) -> None:
    counting, ignored = await queries.count_items(connection, _key(caller, source, report_no))
    shown: dict[str, int] = {"shown_no": report_no, "item_count": counting, "ignored_count": ignored}
    await queries.update_source(connection, caller.organization_id, source.source_id, reported=reported, **shown)


def _key(caller: Caller, source: queries.Source, report_no: int) -> queries.ReportKey:
    return queries.ReportKey(caller.organization_id, source.source_id, report_no)


async def _record(
    connection: Connection, caller: Caller, action: str, source: queries.Source, *, names: Sequence[str] = ()
) -> None:
    details = {"ledger": source.ledger, **({"itemCount": len(names)} if names else {})}
    text = "\n".join(names)[:MOST_RECORDED_CHARACTERS]
    await record(connection, caller, action, TARGET, source.source_id, details=details, text=text)


def _to_row(source_id: UUID, item: wire.ReportedItem) -> dict[str, Any]:
    name = item.document_external_id or item.place
    return {
        "item_id": _item_id(source_id, name, item.place),
        "sort_key": _sort_key(name),
        "name": name,
        "external_id": item.document_external_id,
        **item.model_dump(by_alias=False, exclude={"document_external_id"}),
    }


def _item_id(source_id: UUID, name: str, place: str) -> UUID:
    # No text of a request contains a NUL, so each pair of name and place is distinct.
    return uuid5(source_id, f"{name}\0{place}")


def _sort_key(name: str) -> str:
    return name[: queries.SORTED_CHARACTERS]
