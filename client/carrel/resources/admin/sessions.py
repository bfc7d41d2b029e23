"""admin/sessions: where people are signed in."""

from collections.abc import Iterable
from typing import TypeVar
from uuid import UUID

from carrel._calls import Call
from carrel._operations import ListOperation, Operation, Raw, Resource
from carrel._pages import Listing
from carrel.resources._arguments import Id, as_list
from carrel.wire.sessions import (
    ADMIN_SESSIONS_END,
    ADMIN_SESSIONS_LIST,
    AdminSessionsEndRequest,
    AdminSessionsEndResponse,
    AdminSessionsListRequest,
    AdminSessionsListResponse,
    PersonSession,
)

M = TypeVar("M")


class Sessions(Resource[M]):
    """The sessions of people: browsers, and applications that act for them."""

    @property
    def with_raw_response(self) -> "Sessions[Raw[M]]":
        """The operations of the resource, returning the whole HTTP answer (`.headers`, `.request_id`, `.parsed`)."""
        return Sessions(self._session.as_raw())

    @ListOperation
    def list(
        self, email: str, *, page_size: int = 100, page_token: str | None = None
    ) -> Listing[PersonSession, AdminSessionsListResponse]:
        """Walk the sessions of the person of this address that last, oldest first."""
        request = AdminSessionsListRequest(email=email, page_size=page_size, page_token=page_token)
        return Listing(ADMIN_SESSIONS_LIST, request, lambda page: page.sessions)

    @Operation
    def end(self, email: str, *, session_ids: Iterable[Id] | None = None) -> Call[AdminSessionsEndResponse]:
        """End all sessions of a person, or those of `session_ids` (at most 1000), from the next request on."""
        request = AdminSessionsEndRequest(email=email, session_ids=as_list(UUID, session_ids))
        return Call(ADMIN_SESSIONS_END, request)
