"""admin/sessions: a person's sign-ins, and the applications acting for the person; extensions, for admins."""

from enum import StrEnum
from typing import Annotated
from uuid import UUID

from pydantic import Field

from carrel.wire.common import PagedRequest, PagedResponse, RequestModel, ResponseModel
from carrel.wire.fields import EmailAddress, Instant
from carrel.wire.operations import ADMIN, ApiOperation


class SessionKind(StrEnum):
    """Kind of a session: a browser at the service's own pages, or an application acting for the person."""

    BROWSER = "BROWSER"
    APPLICATION = "APPLICATION"


class PersonSession(ResponseModel):
    """An active session of a person."""

    session_id: UUID
    kind: SessionKind
    """Kind of the session: browser or application."""
    client_id: UUID | None = None
    """Id of the application's OAuth client."""
    application_name: str | None = None
    created_at: Instant
    """When the person signed in, or let the application in."""
    last_used_at: Instant | None = None
    """When the session was last used, to the minute; absent: never, or an old session unused since this is recorded."""
    expires_at: Instant
    """When the session expires without use."""
    address: str | None = None
    """Network address of the sign-in or the consent to the application."""
    device: str | None = None
    """Device of the sign-in or consent, by its own description, for example `Firefox on Windows`."""


class AdminSessionsListRequest(PagedRequest):
    """List the sessions of a person: browsers, and applications acting for the person."""

    email: EmailAddress
    """Email address of the person."""


class AdminSessionsListResponse(PagedResponse):
    """A page of sessions."""

    sessions: list[PersonSession]
    """The sessions, oldest first."""


class AdminSessionsEndRequest(RequestModel):
    """End sessions of a person, from the next request on. The applications' tokens are revoked. The person's consents
    stay, but give no access without a new sign-in."""

    email: EmailAddress
    """Email address of the person."""
    session_ids: Annotated[list[UUID], Field(min_length=1, max_length=1000)] | None = None
    """Ids of the sessions to end; default: all of the person's. Ended sessions are ignored."""


class AdminSessionsEndResponse(ResponseModel):
    """How many sessions ended."""

    ended_count: int
    """Number of ended sessions that were active until now."""


ADMIN_SESSIONS_LIST = ApiOperation("admin/sessions/list", AdminSessionsListRequest, AdminSessionsListResponse, ADMIN)
"""List the active sessions of a person, oldest first."""
ADMIN_SESSIONS_END = ApiOperation("admin/sessions/end", AdminSessionsEndRequest, AdminSessionsEndResponse, ADMIN)
"""End all sessions of a person, or the sessions in `session_ids` (at most 1000), from the next request on."""
