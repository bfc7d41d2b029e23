"""GET /api/v1/me: the person that an access token acts for; an extension."""

from uuid import UUID

from pydantic import Field

from carrel.wire.admin import NamedGroup
from carrel.wire.common import RequestModel, ResponseModel
from carrel.wire.operations import MEMBER, ApiOperation


class MeResponse(ResponseModel):
    """The person who consented, their organization, and the token's scopes."""

    id: UUID
    """Id of the person."""
    email: str
    name: str
    """Name of the person."""
    is_admin: bool
    """Whether the person is an admin; the token administers only with the scope `api:admin`."""
    organization_id: UUID
    organization_name: str
    scopes: list[str]
    """The token's scopes."""
    reranks_by_default: bool | None = None
    """Whether searches without `enableReranking` are reranked; absent: the service has no reranking endpoint."""
    groups: list[NamedGroup] = Field(default_factory=list[NamedGroup])
    """The person's groups, including nested groups, for sharing uploads; none without `api:catalog:write`."""

    shares_own: bool | None = None
    """Whether the person may share documents and collections they own; absent: the organization or token forbids it."""
    trash_days: int | None = None
    """How many days the trash keeps a deleted document; absent: there is no trash."""


ME = ApiOperation("me", RequestModel, MeResponse, MEMBER, method="GET", version="v1")
