"""GET /api/v1/me: who an access token acts for; an extension."""

from uuid import UUID

from carrel.wire.common import ResponseModel


class MeResponse(ResponseModel):
    """The person who consented, their organization, and what the token may be used for.

    `is_admin` is of the person; the token administers only with the scope `api:admin`.
    """

    id: UUID
    email: str
    name: str
    is_admin: bool
    organization_id: UUID
    organization_name: str
    scopes: list[str]
