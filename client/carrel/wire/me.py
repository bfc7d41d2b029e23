"""GET /api/v1/me: who an access token acts for; an extension."""

from uuid import UUID

from pydantic import Field

from carrel.wire.admin import NamedGroup
from carrel.wire.common import RequestModel, ResponseModel
from carrel.wire.operations import MEMBER, ApiOperation


class MeResponse(ResponseModel):
    """The person who consented, their organization, and what the token may be used for."""

    id: UUID
    """Id of the person."""
    email: str
    """Email address."""
    name: str
    """Name of the person."""
    is_admin: bool
    """Whether the person is an admin; the token administers only with the scope `api:admin`."""
    organization_id: UUID
    organization_name: str
    """Name of the organization."""
    scopes: list[str]
    """What the token may be used for."""
    reranks_by_default: bool | None = None
    """Whether searches without `enableReranking` are reranked; absent: the service has no endpoint for that."""
    groups: list[NamedGroup] = Field(default_factory=list[NamedGroup])
    """The person's groups, nested ones too, which uploads can be shared with; none without `api:catalog:write`."""


ME = ApiOperation("me", RequestModel, MeResponse, MEMBER, method="GET", version="v1")
