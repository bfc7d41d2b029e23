"""admin/owners/transfer, admin/users/planOffboarding and admin/users/offboard; extensions, for admins.
Documents and collections have an owner; a sync with a document database acts as its owner. An agent has
none."""

from typing import Annotated, Self
from uuid import UUID

from pydantic import Field, model_validator

from carrel.wire.access import ResourceCount
from carrel.wire.admin import NamedGroup, NamedPrincipal, User
from carrel.wire.api_keys import ApiKey
from carrel.wire.common import PrincipalReference, RequestModel, ResourceReference, ResourceType, ResponseModel
from carrel.wire.fields import EmailAddress
from carrel.wire.operations import ADMIN, CONFIRMED, CONFLICT, NOT_FOUND, ApiOperation
from carrel.wire.service_accounts import ServiceAccountToken


class AdminOwnersTransferRequest(RequestModel):
    """Transfer documents, collections and syncs to another owner: all of an owner's, or those named."""

    new_owner: PrincipalReference
    """The new owner: an active user or service account."""
    owner: PrincipalReference | None = None
    """The current owner, active or not; absent: `resources` are named."""
    resource_types: Annotated[list[ResourceType] | None, Field(min_length=1, max_length=100)] = None
    """Only resources of `owner` of these types, at most 100; DOCSTORE_SYNC are syncs."""
    resources: Annotated[list[ResourceReference] | None, Field(min_length=1, max_length=1000)] = None
    """The resources, at most 1000, all or none, of any owner; absent: all resources of `owner`."""

    @model_validator(mode="after")
    def _says_which(self) -> Self:
        if (self.owner is None) == (self.resources is None):
            raise ValueError("give either owner or resources")
        if self.resource_types is not None and self.owner is None:
            raise ValueError("resourceTypes is given together with owner")
        return self


class Handover(ResponseModel):
    """Transferred and remaining resources."""

    transferred: list[ResourceCount]
    """Number of resources transferred by this request, for each existing type."""
    remaining: list[ResourceCount]
    """Number of resources still to transfer, for each existing type; if not empty, repeat the request."""


class AdminOwnersTransferResponse(Handover):
    """How much was transferred; of very many resources a request transfers a part."""


class _OffboardingRequest(RequestModel):
    email: EmailAddress
    """Address of the leaving user."""
    new_owner: PrincipalReference | None = None
    """Active user or service account to become the owner of the user's resources; absent: the user owns none."""


class AdminUsersPlanOffboardingRequest(_OffboardingRequest):
    """Preview the offboarding of a user; changes nothing."""


class AdminUsersPlanOffboardingResponse(ResponseModel):
    """Access to end, resources to transfer, and resources without any other reader."""

    user: User
    """The leaving user."""
    new_owner: NamedPrincipal | None = None
    """The new owner; absent: not named in the request."""
    api_keys: list[ApiKey]
    """The user's working API keys."""
    browser_session_count: int
    """Number of the user's browser sessions."""
    application_count: int
    """Number of applications allowed to act for the user."""
    application_token_count: int
    """Number of sign-ins of these applications with working or renewable tokens."""
    groups: list[NamedGroup]
    """Groups with the user as a direct member, by name."""
    owned: list[ResourceCount]
    """Number of owned resources, for each existing type; DOCSTORE_SYNC are syncs."""
    only_reader: list[ResourceCount]
    """Number of resources, owned or not, without any other active reader."""
    made_tokens: list[ServiceAccountToken] = Field(default_factory=list[ServiceAccountToken])
    """Working tokens of service accounts, created by the user, who may have a copy; the tokens keep working."""


class AdminUsersOffboardRequest(_OffboardingRequest):
    """End all access of a user, then transfer their resources; repeating is harmless."""


class EndedAccess(ResponseModel):
    """Access ended by this request, without access ended before."""

    api_key_count: int
    """Number of API keys revoked."""
    browser_session_count: int
    """Number of browsers signed out."""
    application_count: int
    """Number of applications no longer allowed to act for the user."""
    application_token_count: int
    """Number of application sign-ins with revoked tokens."""
    group_ids: list[UUID]
    """Ids of the groups left by the user."""


class AdminUsersOffboardResponse(Handover):
    """Ended access and transferred resources; large transfers need several requests."""

    user: User
    """The user, now inactive and not an admin."""
    ended: EndedAccess
    """Access ended by this request."""


ADMIN_OWNERS_TRANSFER = ApiOperation(
    "admin/owners/transfer", AdminOwnersTransferRequest, AdminOwnersTransferResponse, ADMIN, NOT_FOUND | CONFIRMED
)
"""Transfer the resources of `owner` (of these types), or the named `resources` (at most 1000), to an active
principal; the old owner keeps no role on them. Repeat the call while the answer has `remaining` resources:
large transfers take several calls, each resource as a whole. Repeating is harmless."""
ADMIN_USERS_PLAN_OFFBOARDING = ApiOperation(
    "admin/users/planOffboarding", AdminUsersPlanOffboardingRequest, AdminUsersPlanOffboardingResponse, ADMIN, CONFLICT
)
"""Preview `offboard`: access to end, resources to transfer, and resources without any other reader."""
ADMIN_USERS_OFFBOARD = ApiOperation(
    "admin/users/offboard", AdminUsersOffboardRequest, AdminUsersOffboardResponse, ADMIN, CONFLICT | CONFIRMED
)
"""End all access of a user at once, then transfer the user's resources to `new_owner` (optional without
resources). Deactivates the user, revokes API keys and application tokens, ends browser sessions, and removes
the user from groups. Repeat the call while the response has `remaining` resources; repeating is harmless."""
