"""sources/*: sources of runs and their quarantines; extensions. A report shows at its end; ignored items stay so."""

from typing import Annotated
from uuid import UUID

from pydantic import Field

from carrel.wire.common import ActingRequest, PagedRequest, PagedResponse, RequestModel, ResponseModel, UserPrincipal
from carrel.wire.fields import NO_NUL, Fingerprint, Instant, Label, RequestInstant, StrictFlag, must, once_each
from carrel.wire.operations import ADDS_DATA, CONFLICT, KEYED, NOT_FOUND, READ, WRITE, ApiOperation


def holds_credential(source: str) -> bool:
    """Return whether a source's URL shows everyone a user, a password or a query; a `catalog://…` query is harmless."""
    scheme, is_url, rest = source.partition("://")
    return bool(is_url) and scheme != "catalog" and ("@" in rest.partition("/")[0] or "?" in rest)


LedgerName = Annotated[
    str, Field(min_length=24, max_length=24, pattern="^[0-9a-f]{24}$", examples=["5f0c6a1e9b3d4c7f8a2e1b0d"]), NO_NUL
]
"""24 hexadecimal digits naming a ledger: the state of the runs of one source."""

SourceText = Annotated[
    str,
    Field(min_length=1, max_length=4096, examples=["/srv/handbook"]),
    NO_NUL,
    must(
        lambda source: not holds_credential(source),
        "must be without credentials: leave out the user, the password and the query of the address",
    ),
]
"""Source of a run: a path, a pattern or an address, without credentials."""

ItemText = Annotated[str, Field(min_length=1, max_length=4096), NO_NUL]
"""An external id of an item, or the item's place in the source."""

ReportNumber = Annotated[int, Field(strict=True, ge=1, le=2**31 - 1)]
"""The number of a report, counted for each source."""


class ReportSourceRequest(ActingRequest):
    """Begin a report of a source's quarantine, visible at its end for a new source; ends an unfinished report."""

    ledger: LedgerName
    source: SourceText
    document_collection_id: UUID | None = None
    """Id of the collection receiving the documents, as reported; absent: upload to the catalog."""
    fingerprint: Fingerprint | None = None
    """A digest of the whole report. If equal to the last report's, no new report begins."""


class ReportSourceResponse(ResponseModel):
    """The source, and the new report."""

    source_id: UUID
    report_no: int | None = None
    """Number of the report; absent: the last report had the same fingerprint, so no items need sending."""


class ReportedItem(RequestModel):
    """A quarantined item in a report, named by external id, or by place without an external id."""

    document_external_id: ItemText | None = None
    """The document's identifier in the caller's own system; absent for items that can't be documents."""
    place: ItemText
    """Place in the source: a path, or the line of a manifest."""
    code: Label
    message: Annotated[str, Field(max_length=4096), NO_NUL]
    """Reason for the failure, for people."""
    fingerprint: Fingerprint
    since: RequestInstant
    ignored: StrictFlag = False
    """Whether to ignore the item if the service doesn't know it in this form; default: false."""


class ReportSourceItemsRequest(ActingRequest):
    """Add items to a report; they replace earlier items with the same name and place."""

    source_id: UUID
    report_no: ReportNumber
    items: Annotated[list[ReportedItem], Field(min_length=1, max_length=1000)]
    """The items, at most 1000."""


class ReportSourceItemsResponse(ResponseModel):
    """The report in progress."""

    source_id: UUID
    report_no: int


class EndSourceReportRequest(ActingRequest):
    """End a report; only its items are now the source's quarantine."""

    source_id: UUID
    report_no: ReportNumber


class Source(ResponseModel):
    """A source, with its number of quarantined items."""

    source_id: UUID
    ledger: str
    source: str
    document_collection_id: UUID | None = None
    """Id of the collection receiving the documents; absent: upload to the catalog."""
    reported_by: UserPrincipal
    """The reporting user; admins also see the source."""
    item_count: int
    ignored_count: int
    """Number of ignored items."""
    reported_at: Instant
    """Time of the last report."""


class EndSourceReportResponse(Source):
    """The source after the report."""


class ListSourcesRequest(ActingRequest, PagedRequest):
    """List the sources reported by the caller; admins see all sources."""

    ledger: LedgerName | None = None
    """Only sources with this ledger."""
    own: StrictFlag = False
    """Only sources reported by the caller, also for admins; default: false."""


class ListSourcesResponse(PagedResponse):
    """A page of sources."""

    sources: list[Source]


class ListSourceItemsRequest(ActingRequest, PagedRequest):
    """List the quarantined items of a source, by name."""

    source_id: UUID
    ignored: StrictFlag | None = None
    """Only ignored items (true) or the rest (false); absent: all."""


class SourceItem(ResponseModel):
    """An item in quarantine."""

    name: str
    """External id or, without an external id, place; used to ignore and restore the item."""
    place: str
    """Place in the source: a path, or the line of a manifest."""
    document_external_id: str | None = None
    """The document's identifier in the caller's own system; absent for items that can't be documents."""
    code: str
    message: str
    """Reason for the failure, for people."""
    fingerprint: str
    since: Instant
    ignored: bool
    """Whether the item is ignored until the next change."""


class ListSourceItemsResponse(PagedResponse):
    """A page of items."""

    items: list[SourceItem]


class _NamedItems(ActingRequest):
    source_id: UUID
    names: Annotated[list[ItemText], Field(min_length=1, max_length=1000)]
    """External ids, or places of items without an external id, at most 1000."""

    _names_once = once_each("names", "names must be given once each")


class IgnoreSourceItemsRequest(_NamedItems):
    """Ignore items of a source's quarantine until they change."""


class RestoreSourceItemsRequest(_NamedItems):
    """Count ignored items again."""


class _ChangedItems(ResponseModel):
    source_id: UUID
    unknown_names: list[str]
    """Names missing from the quarantine."""


class IgnoreSourceItemsResponse(_ChangedItems):
    """The names that could not be ignored."""


class RestoreSourceItemsResponse(_ChangedItems):
    """The names that could not be restored."""


class RemoveSourceRequest(ActingRequest):
    """Remove an unused source with its quarantine; a later report creates the source again."""

    source_id: UUID


class RemoveSourceResponse(ResponseModel):
    """The removed source."""

    source_id: UUID


REPORT_SOURCE = ApiOperation(
    "sources/reportSource", ReportSourceRequest, ReportSourceResponse, WRITE, ADDS_DATA | CONFLICT
)
"""Begin a report of a source's quarantine; an earlier unfinished report can't continue. `report_no` is None if
the last report had the same fingerprint, and no items need sending. Raises ConflictError `too_many_sources`."""
REPORT_SOURCE_ITEMS = ApiOperation(
    "sources/reportSourceItems",
    ReportSourceItemsRequest,
    ReportSourceItemsResponse,
    WRITE,
    ADDS_DATA | NOT_FOUND | CONFLICT,
)
"""Add at most 1000 items to a report; they replace items with the same name and place. Raises ConflictError
`source_report_over`, and `too_many_source_items`."""
END_SOURCE_REPORT = ApiOperation(
    "sources/endSourceReport", EndSourceReportRequest, EndSourceReportResponse, WRITE, NOT_FOUND | CONFLICT
)
"""End a report; its items are now the source's quarantine. Raises ConflictError `source_report_over`."""
LIST_SOURCES = ApiOperation("sources/listSources", ListSourcesRequest, ListSourcesResponse, READ)
"""List the sources, each with its number of failed items; filter by ledger, or by the caller's own."""
LIST_SOURCE_ITEMS = ApiOperation(
    "sources/listSourceItems", ListSourceItemsRequest, ListSourceItemsResponse, READ, NOT_FOUND
)
"""List the failed items of a source, by name: all, only `ignored`, or only the rest."""
IGNORE_SOURCE_ITEMS = ApiOperation(
    "sources/ignoreSourceItems", IgnoreSourceItemsRequest, IgnoreSourceItemsResponse, WRITE, KEYED | NOT_FOUND
)
"""Ignore items until they change; `unknown_names` are names missing from the quarantine."""
RESTORE_SOURCE_ITEMS = ApiOperation(
    "sources/restoreSourceItems", RestoreSourceItemsRequest, RestoreSourceItemsResponse, WRITE, KEYED | NOT_FOUND
)
"""Count ignored items again; `unknown_names` are names missing from the quarantine."""
REMOVE_SOURCE = ApiOperation(
    "sources/removeSource", RemoveSourceRequest, RemoveSourceResponse, WRITE, KEYED | NOT_FOUND
)
"""Remove an unused source with its quarantine; a later report creates the source again."""
