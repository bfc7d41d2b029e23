"""sources/*: what runs load documents from, and what of it could not be loaded."""

from carrel.wire import sources as wire
from service.auth.callers import acting_for
from service.domains.documents.sources import service
from service.web.dependencies import CallerDep, ConnectionDep, SnapshotDep
from service.web.routing import Router

router = Router()


@router.operation(wire.REPORT_SOURCE)
async def report_source(
    request: wire.ReportSourceRequest, connection: ConnectionDep, caller: CallerDep
) -> wire.ReportSourceResponse:
    """Begin to report what of a source could not be loaded; nothing of it is seen before the report's end."""
    caller = await acting_for(connection, caller, request.user_email)
    return await service.begin_report(connection, caller, request=request)


@router.operation(wire.REPORT_SOURCE_ITEMS)
async def report_source_items(
    request: wire.ReportSourceItemsRequest, connection: ConnectionDep, caller: CallerDep
) -> wire.ReportSourceItemsResponse:
    """Add items to a report that goes on."""
    caller = await acting_for(connection, caller, request.user_email)
    await service.add_items(connection, caller, request=request)
    return wire.ReportSourceItemsResponse(source_id=request.source_id, report_no=request.report_no)


@router.operation(wire.END_SOURCE_REPORT)
async def end_source_report(
    request: wire.EndSourceReportRequest, connection: ConnectionDep, caller: CallerDep
) -> wire.EndSourceReportResponse:
    """End a report, whose items are the source's quarantine from now on."""
    caller = await acting_for(connection, caller, request.user_email)
    source = await service.end_report(connection, caller, source_id=request.source_id, report_no=request.report_no)
    return wire.EndSourceReportResponse(**dict(source))


@router.operation(wire.LIST_SOURCES)
async def list_sources(
    request: wire.ListSourcesRequest, connection: SnapshotDep, caller: CallerDep
) -> wire.ListSourcesResponse:
    """List the sources that the caller reports, for admins all, and how much of each could not be loaded."""
    caller = await acting_for(connection, caller, request.user_email)
    page = await service.list_sources(connection, caller, request=request)
    return wire.ListSourcesResponse(sources=list(page.items), next_page_token=page.next_page_token)


@router.operation(wire.LIST_SOURCE_ITEMS)
async def list_source_items(
    request: wire.ListSourceItemsRequest, connection: SnapshotDep, caller: CallerDep
) -> wire.ListSourceItemsResponse:
    """List what of a source could not be loaded, and why."""
    caller = await acting_for(connection, caller, request.user_email)
    page = await service.list_items(connection, caller, request=request)
    return wire.ListSourceItemsResponse(items=list(page.items), next_page_token=page.next_page_token)


@router.operation(wire.IGNORE_SOURCE_ITEMS)
async def ignore_source_items(
    request: wire.IgnoreSourceItemsRequest, connection: ConnectionDep, caller: CallerDep
) -> wire.IgnoreSourceItemsResponse:
    """Let items of a source count no more, until they change."""
    caller = await acting_for(connection, caller, request.user_email)
    unknown = await service.ignore_items(connection, caller, source_id=request.source_id, names=request.names)
    return wire.IgnoreSourceItemsResponse(source_id=request.source_id, unknown_names=unknown)


@router.operation(wire.RESTORE_SOURCE_ITEMS)
async def restore_source_items(
    request: wire.RestoreSourceItemsRequest, connection: ConnectionDep, caller: CallerDep
) -> wire.RestoreSourceItemsResponse:
    """Let items that are ignored count again."""
    caller = await acting_for(connection, caller, request.user_email)
    unknown = await service.ignore_items(
        connection, caller, source_id=request.source_id, names=request.names, undo=True
    )
    return wire.RestoreSourceItemsResponse(source_id=request.source_id, unknown_names=unknown)


@router.operation(wire.REMOVE_SOURCE)
async def remove_source(
    request: wire.RemoveSourceRequest, connection: ConnectionDep, caller: CallerDep
) -> wire.RemoveSourceResponse:
    """Remove a source that is never loaded again, with what is kept of its quarantine."""
    caller = await acting_for(connection, caller, request.user_email)
    await service.remove_source(connection, caller, source_id=request.source_id)
    return wire.RemoveSourceResponse(source_id=request.source_id)
