"""admin/sessions: where a person is signed in, and which applications act for them; extensions, for admins."""

from enum import StrEnum
from typing import Annotated
from uuid import UUID

from pydantic import Field

from carrel.wire.common import PagedRequest, PagedResponse, RequestModel, ResponseModel
from carrel.wire.fields import EmailAddress, Instant
from carrel.wire.operations import ADMIN, ApiOperation


class SessionKind(StrEnum):
    """What somebody is signed in with: a browser at the service's own pages, or an application that acts for them."""

    BROWSER = "BROWSER"
    APPLICATION = "APPLICATION"


class PersonSession(ResponseModel):
    """A session of a person that lasts."""

    session_id: UUID
    """Id of the session."""
    kind: SessionKind
    """Whether it is a browser's or an application's."""
    client_id: UUID | None = None
    """Id of the application's OAuth client."""
    application_name: str | None = None
    """Name of the application."""
    created_at: Instant
    """When the person signed in, or let the application in."""
    last_used_at: Instant | None = None
    """When it was last used, to the minute; absent if never, and of older sessions not used since that is kept."""
    expires_at: Instant
    """When it ends by itself if nothing goes on with it."""
    address: str | None = None
    """Network address that the person signed in, or let the application in, from."""
    device: str | None = None
    """Device that they did so with, such as `Firefox on Windows`, by what it says of itself."""


class AdminSessionsListRequest(PagedRequest):
    """List the sessions of a person: browsers, and applications that they let act for them."""

    email: EmailAddress
    """Email address of the person."""


class AdminSessionsListResponse(PagedResponse):
    """One page of sessions."""

    sessions: list[PersonSession]
    """The sessions, oldest first."""


class AdminSessionsEndRequest(RequestModel):
    """End sessions of a person, from the next request on.

    The applications' tokens are revoked; that the person allowed an application stays, and lets nobody in by itself."""

    email: EmailAddress
    """Email address of the person."""
    session_ids: Annotated[list[UUID], Field(min_length=1, max_length=1000)] | None = None
    """Ids of the sessions to end; all of the person's unless given. Those that ended already are no error."""


class AdminSessionsEndResponse(ResponseModel):
    """How many sessions ended."""

    ended_count: int
    """Number of sessions that lasted until now."""


ADMIN_SESSIONS_LIST = ApiOperation("admin/sessions/list", AdminSessionsListRequest, AdminSessionsListResponse, ADMIN)
"""Walk the sessions of the person of this address that last, oldest first."""
ADMIN_SESSIONS_END = ApiOperation("admin/sessions/end", AdminSessionsEndRequest, AdminSessionsEndResponse, ADMIN)
"""End all sessions of a person, or those of `session_ids` (at most 1000), from the next request on."""
