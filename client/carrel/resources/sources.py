"""sources/*: what runs load documents from, and what of it could not be loaded."""

from collections.abc import Iterable
from typing import TypeVar
from uuid import UUID

from carrel._calls import Call
from carrel._operations import ListOperation, Operation, Raw, Resource
from carrel._pages import Listing
from carrel.resources._arguments import Id, Members, as_any, as_list
from carrel.wire import sources as wire

M = TypeVar("M")


class Sources(Resource[M]):
    """The sources that the caller reports, for admins all: listed, ignored item by item, and reported by runs."""

    @property
    def with_raw_response(self) -> "Sources[Raw[M]]":
        """The operations of the resource, returning the whole HTTP answer (`.headers`, `.request_id`, `.parsed`)."""
        return Sources(self._session.as_raw())

    @Operation
    def report_source(
        self,
        ledger: str,
        source: str,
        *,
        document_collection_id: Id | None = None,
        fingerprint: str | None = None,
        user_email: str | None = None,
    ) -> Call[wire.ReportSourceResponse]:
        """Begin to report the quarantine of a source; a report that was begun before can't go on.

        `report_no` is None when the last report had the same fingerprint: then there is nothing to send. Raises
        ConflictError `too_many_sources`.
        """
        request = wire.ReportSourceRequest(
            ledger=ledger,
            source=source,
            document_collection_id=as_any(UUID, document_collection_id),
            fingerprint=fingerprint,
            user_email=user_email,
        )
        return Call(wire.REPORT_SOURCE, request)

    @Operation
    def report_source_items(
        self,
        source_id: Id,
        report_no: int,
        items: Iterable[wire.ReportedItem | Members],
        *,
        user_email: str | None = None,
    ) -> Call[wire.ReportSourceItemsResponse]:
        """Add at most 1000 items to a report, in place of those of the same name and place.

        Raises ConflictError `source_report_over`, and `too_many_source_items`.
        """
        request = wire.ReportSourceItemsRequest(
            source_id=as_any(UUID, source_id),
            report_no=report_no,
            items=as_list(wire.ReportedItem, items),
            user_email=user_email,
        )
        return Call(wire.REPORT_SOURCE_ITEMS, request)

    @Operation
    def end_source_report(
        self, source_id: Id, report_no: int, *, user_email: str | None = None
    ) -> Call[wire.EndSourceReportResponse]:
        """End a report, whose items are the source's quarantine from now on. ConflictError `source_report_over`."""
        request = wire.EndSourceReportRequest(
            source_id=as_any(UUID, source_id), report_no=report_no, user_email=user_email
        )
        return Call(wire.END_SOURCE_REPORT, request)

    @ListOperation
    def list_sources(
        self,
        *,
        ledger: str | None = None,
        own: bool = False,
        user_email: str | None = None,
        page_size: int = 100,
        page_token: str | None = None,
    ) -> Listing[wire.Source, wire.ListSourcesResponse]:
        """Walk the sources, each with how much of it could not be loaded; or those of a ledger, or the caller's own."""
        request = wire.ListSourcesRequest(
            ledger=ledger, own=own, user_email=user_email, page_size=page_size, page_token=page_token
        )
        return Listing(wire.LIST_SOURCES, request, lambda page: page.sources)

    @ListOperation
    def list_source_items(
        self,
        source_id: Id,
        *,
        ignored: bool | None = None,
        user_email: str | None = None,
        page_size: int = 100,
        page_token: str | None = None,
    ) -> Listing[wire.SourceItem, wire.ListSourceItemsResponse]:
        """Walk what of a source could not be loaded, by name: all, what is `ignored`, or what is not."""
        request = wire.ListSourceItemsRequest(
            source_id=as_any(UUID, source_id),
            ignored=ignored,
            user_email=user_email,
            page_size=page_size,
            page_token=page_token,
        )
        return Listing(wire.LIST_SOURCE_ITEMS, request, lambda page: page.items)

    @Operation
    def ignore_source_items(
        self, source_id: Id, names: Iterable[str], *, user_email: str | None = None
    ) -> Call[wire.IgnoreSourceItemsResponse]:
        """Let items count no more until they change; `unknown_names` are those that are not in quarantine."""
        request = wire.IgnoreSourceItemsRequest(
            source_id=as_any(UUID, source_id), names=as_list(str, names), user_email=user_email
        )
        return Call(wire.IGNORE_SOURCE_ITEMS, request)

    @Operation
    def restore_source_items(
        self, source_id: Id, names: Iterable[str], *, user_email: str | None = None
    ) -> Call[wire.RestoreSourceItemsResponse]:
        """Let items that are ignored count again; `unknown_names` are those that are not in quarantine."""
        request = wire.RestoreSourceItemsRequest(
            source_id=as_any(UUID, source_id), names=as_list(str, names), user_email=user_email
        )
        return Call(wire.RESTORE_SOURCE_ITEMS, request)

    @Operation
    def remove_source(self, source_id: Id, *, user_email: str | None = None) -> Call[wire.RemoveSourceResponse]:
        """Remove a source that is never loaded again, with its quarantine; a later report makes it anew."""
        request = wire.RemoveSourceRequest(source_id=as_any(UUID, source_id), user_email=user_email)
        return Call(wire.REMOVE_SOURCE, request)
