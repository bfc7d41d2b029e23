"""sources/*: what runs load documents from, and the quarantine of what could not be loaded; extensions. Runs report a
source's quarantine as a whole, seen from its end on. What people ignore is kept from report to report."""

from typing import Annotated
from uuid import UUID

from pydantic import AfterValidator, Field

from carrel.wire.common import ActingRequest, PagedRequest, PagedResponse, RequestModel, ResponseModel, UserPrincipal
from carrel.wire.fields import NO_NUL, Fingerprint, Instant, Label, RequestInstant, StrictFlag, once_each
from carrel.wire.operations import ADDS_DATA, CONFLICT, KEYED, NOT_FOUND, READ, WRITE, ApiOperation


def holds_credential(source: str) -> bool:
    """Return whether a source's URL has a user, a password or a query, which everybody who sees it would see too. A
    selection from the catalog, `catalog://…`, has its conditions in the query, and no password."""
    scheme, is_url, rest = source.partition("://")
    return bool(is_url) and scheme != "catalog" and ("@" in rest.partition("/")[0] or "?" in rest)


def _refuse_credential(source: str) -> str:
    if holds_credential(source):
        raise ValueError("must be without credentials: leave out the user, the password and the query of the address")
    return source


LedgerName = Annotated[
    str, Field(min_length=24, max_length=24, pattern="^[0-9a-f]{24}$", examples=["5f0c6a1e9b3d4c7f8a2e1b0d"]), NO_NUL
]
"""24 hexadecimal digits that name a ledger: the state of the runs of one source."""

SourceText = Annotated[
    str, Field(min_length=1, max_length=4096, examples=["/srv/handbook"]), NO_NUL, AfterValidator(_refuse_credential)
]
"""What a run was told to load from: a path, a pattern or an address, without credentials."""

ItemText = Annotated[str, Field(min_length=1, max_length=4096), NO_NUL]
"""An external id of an item, or its place in the source."""

ReportNumber = Annotated[int, Field(strict=True, ge=1, le=2**31 - 1)]
"""The number of a report, counted for each source."""


class ReportSourceRequest(ActingRequest):
    """Begin to report the quarantine of a source; one that is unknown yet is seen from the end of its first report on.

    A report that was begun before and has not ended can't go on."""

    ledger: LedgerName
    """Name of the source's ledger, unique for who reports it."""
    source: SourceText
    """What is loaded from: a path, a pattern or an address, without credentials."""
    document_collection_id: UUID | None = None
    """Id of the collection that the documents are added to, as it is reported; absent: they are uploaded."""
    fingerprint: Fingerprint | None = None
    """A digest of all that would be reported. When it is that of the last report, no new one is begun."""


class ReportSourceResponse(ResponseModel):
    """The source, and the report that was begun."""

    source_id: UUID
    report_no: int | None = None
    """Number of the report; absent when the last one had the same fingerprint, so that there is nothing to send."""


class ReportedItem(RequestModel):
    """An item in quarantine, as a run reports it; its external id names it, or its place where it has none."""

    document_external_id: ItemText | None = None
    """The document's identifier in the caller's own system; absent for what can't be a document."""
    place: ItemText
    """Where it is in the source: a path, or the line of a manifest."""
    code: Label
    """Stable code of the problem, for programs."""
    message: Annotated[str, Field(max_length=4096), NO_NUL]
    """Why it could not be loaded, for people."""
    fingerprint: Fingerprint
    """What it is: while this is the same, an item that is ignored stays so."""
    since: RequestInstant
    """Since when it is in quarantine as it is."""
    ignored: StrictFlag = False
    """Whether it is ignored if the service does not know it as it is; false unless given."""


class ReportSourceItemsRequest(ActingRequest):
    """Add items to a report; an item of the same name and place replaces the one that was sent before."""

    source_id: UUID
    report_no: ReportNumber
    items: Annotated[list[ReportedItem], Field(min_length=1, max_length=1000)]
    """The items, at most 1000."""


class ReportSourceItemsResponse(ResponseModel):
    """The report that goes on."""

    source_id: UUID
    report_no: int


class EndSourceReportRequest(ActingRequest):
    """End a report: from now on its items are the source's quarantine, and no others."""

    source_id: UUID
    report_no: ReportNumber


class Source(ResponseModel):
    """A source, and how much of it is in quarantine."""

    source_id: UUID
    ledger: str
    """Name of the source's ledger, unique for who reports it."""
    source: str
    """What is loaded from: a path, a pattern or an address, without credentials."""
    document_collection_id: UUID | None = None
    """Id of the collection that the documents are added to; absent: they are uploaded."""
    reported_by: UserPrincipal
    """Who reports it, and sees it beside the admins."""
    item_count: int
    ignored_count: int
    """Number of items that are ignored."""
    reported_at: Instant
    """When it was reported last."""


class EndSourceReportResponse(Source):
    """The source, as it is now."""


class ListSourcesRequest(ActingRequest, PagedRequest):
    """List the sources that the caller has reported, for admins all."""

    ledger: LedgerName | None = None
    """Only sources with the ledger of this name."""
    own: StrictFlag = False
    """Only sources that the caller itself reports, for admins too; false unless given."""


class ListSourcesResponse(PagedResponse):
    """One page of sources."""

    sources: list[Source]
    """The sources."""


class ListSourceItemsRequest(ActingRequest, PagedRequest):
    """List what of a source is in quarantine, by name."""

    source_id: UUID
    ignored: StrictFlag | None = None
    """Only items that are ignored, or only those that are not; absent: all."""


class SourceItem(ResponseModel):
    """An item in quarantine."""

    name: str
    """Its external id, or its place where it has none; by it, it is ignored and restored."""
    place: str
    """Where it is in the source: a path, or the line of a manifest."""
    document_external_id: str | None = None
    """The document's identifier in the caller's own system; absent for what can't be a document."""
    code: str
    """Stable code of the problem, for programs."""
    message: str
    """Why it could not be loaded, for people."""
    fingerprint: str
    """What it is: while this is the same, an item that is ignored stays so."""
    since: Instant
    """Since when it is in quarantine as it is."""
    ignored: bool
    """Whether it counts no more until it changes."""


class ListSourceItemsResponse(PagedResponse):
    """One page of items."""

    items: list[SourceItem]
    """The items."""


class _NamedItems(ActingRequest):
    source_id: UUID
    names: Annotated[list[ItemText], Field(min_length=1, max_length=1000)]
    """External ids, or the places of items that have none, at most 1000."""

    _names_once = once_each("names", "names must be given once each")


class IgnoreSourceItemsRequest(_NamedItems):
    """Let items of a source's quarantine count no more, until they change."""


class RestoreSourceItemsRequest(_NamedItems):
    """Let items that are ignored count again."""


class _ChangedItems(ResponseModel):
    source_id: UUID
    unknown_names: list[str]
    """Which of the names are not in quarantine."""


class IgnoreSourceItemsResponse(_ChangedItems):
    """What was not there to be ignored."""


class RestoreSourceItemsResponse(_ChangedItems):
    """What was not there to be restored."""


class RemoveSourceRequest(ActingRequest):
    """Remove a source that is never loaded again, with its quarantine; a later report makes it anew."""

    source_id: UUID


class RemoveSourceResponse(ResponseModel):
    """The source that is gone."""

    source_id: UUID


REPORT_SOURCE = ApiOperation(
    "sources/reportSource", ReportSourceRequest, ReportSourceResponse, WRITE, ADDS_DATA | CONFLICT
)
"""Begin to report the quarantine of a source; a report that was begun before can't go on.

`report_no` is None when the last report had the same fingerprint: then there is nothing to send. Raises
ConflictError `too_many_sources`."""
REPORT_SOURCE_ITEMS = ApiOperation(
    "sources/reportSourceItems",
    ReportSourceItemsRequest,
    ReportSourceItemsResponse,
    WRITE,
    ADDS_DATA | NOT_FOUND | CONFLICT,
)
"""Add at most 1000 items to a report, in place of those of the same name and place.

Raises ConflictError `source_report_over`, and `too_many_source_items`."""
END_SOURCE_REPORT = ApiOperation(
    "sources/endSourceReport", EndSourceReportRequest, EndSourceReportResponse, WRITE, NOT_FOUND | CONFLICT
)
"""End a report, whose items are the source's quarantine from now on. ConflictError `source_report_over`."""
LIST_SOURCES = ApiOperation("sources/listSources", ListSourcesRequest, ListSourcesResponse, READ)
"""Walk the sources, each with how much of it could not be loaded; or those of a ledger, or the caller's own."""
LIST_SOURCE_ITEMS = ApiOperation(
    "sources/listSourceItems", ListSourceItemsRequest, ListSourceItemsResponse, READ, NOT_FOUND
)
"""Walk what of a source could not be loaded, by name: all, what is `ignored`, or what is not."""
IGNORE_SOURCE_ITEMS = ApiOperation(
    "sources/ignoreSourceItems", IgnoreSourceItemsRequest, IgnoreSourceItemsResponse, WRITE, KEYED | NOT_FOUND
)
"""Let items count no more until they change; `unknown_names` are those that are not in quarantine."""
RESTORE_SOURCE_ITEMS = ApiOperation(
    "sources/restoreSourceItems", RestoreSourceItemsRequest, RestoreSourceItemsResponse, WRITE, KEYED | NOT_FOUND
)
"""Let items that are ignored count again; `unknown_names` are those that are not in quarantine."""
REMOVE_SOURCE = ApiOperation(
    "sources/removeSource", RemoveSourceRequest, RemoveSourceResponse, WRITE, KEYED | NOT_FOUND
)
"""Remove a source that is never loaded again, with its quarantine; a later report makes it anew."""
