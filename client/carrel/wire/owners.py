"""admin/owners/transfer, admin/users/planOffboarding and admin/users/offboard; extensions, for admins. Documents and
collections have an owner; a sync with a document database acts as its owner. An agent has none."""

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
    """Give documents, collections and syncs another owner: all that somebody owns, or the named ones."""

    new_owner: PrincipalReference
    """Active user or service account that owns them from now on."""
    owner: PrincipalReference | None = None
    """User or service account that owns them, active or not; absent: `resources` are named."""
    resource_types: Annotated[list[ResourceType] | None, Field(min_length=1, max_length=100)] = None
    """Only what `owner` owns of these types, at most 100; DOCSTORE_SYNC are syncs."""
    resources: Annotated[list[ResourceReference] | None, Field(min_length=1, max_length=1000)] = None
    """The resources, at most 1000, all or none, of any owner; absent: those of `owner`."""

    @model_validator(mode="after")
    def _says_which(self) -> Self:
        if (self.owner is None) == (self.resources is None):
            raise ValueError("give either owner or resources")
        if self.resource_types is not None and self.owner is None:
            raise ValueError("resourceTypes is given together with owner")
        return self


class Handover(ResponseModel):
    """What has another owner now, and what is still to be handed over."""

    transferred: list[ResourceCount]
    """Number of resources that this request gave another owner, for each type that there is any of."""
    remaining: list[ResourceCount]
    """Number of resources that still belong to the owner, likewise; with any, send the request again."""


class AdminOwnersTransferResponse(Handover):
    """How much was transferred; of very many resources a request transfers a part."""


class _OffboardingRequest(RequestModel):
    email: EmailAddress
    """Address of the user who leaves."""
    new_owner: PrincipalReference | None = None
    """Active user or service account that gets what they own; absent: they own nothing."""


class AdminUsersPlanOffboardingRequest(_OffboardingRequest):
    """Say what offboarding a user would end and hand over; nothing is changed."""


class AdminUsersPlanOffboardingResponse(ResponseModel):
    """What offboarding a user would end at once, what they own, and what nobody else reads."""

    user: User
    """The user who leaves."""
    new_owner: NamedPrincipal | None = None
    """Who gets what they own; absent when the request names nobody."""
    api_keys: list[ApiKey]
    """Their API keys that work."""
    browser_session_count: int
    """Number of browsers that they are signed in with."""
    application_count: int
    """Number of applications that they allowed to act for them."""
    application_token_count: int
    """Number of sign-ins of such applications whose tokens still work or can be refreshed."""
    groups: list[NamedGroup]
    """Groups that they are directly in, by name."""
    owned: list[ResourceCount]
    """Number of resources that they own, for each type that there is any of; DOCSTORE_SYNC are syncs."""
    only_reader: list[ResourceCount]
    """Number of resources, owned by them or not, that no other active user or service account may read."""
    made_tokens: list[ServiceAccountToken] = Field(default_factory=list[ServiceAccountToken])
    """Tokens of service accounts that they made and may have written down, and that work: these keep working."""


class AdminUsersOffboardRequest(_OffboardingRequest):
    """End all access of a user, then hand over what they own; it is harmless to send it again."""


class EndedAccess(ResponseModel):
    """What offboarding has just ended; what was ended before is not counted again."""

    api_key_count: int
    """Number of API keys revoked."""
    browser_session_count: int
    """Number of browsers signed out."""
    application_count: int
    """Number of applications that may no longer act for them."""
    application_token_count: int
    """Number of sign-ins of applications whose tokens were revoked."""
    group_ids: list[UUID]
    """Ids of the groups that they were taken out of."""


class AdminUsersOffboardResponse(Handover):
    """What was ended and handed over; of very many resources a request hands over a part."""

    user: User
    """The user, who is inactive and no admin now."""
    ended: EndedAccess
    """What this request has ended."""


ADMIN_OWNERS_TRANSFER = ApiOperation(
    "admin/owners/transfer", AdminOwnersTransferRequest, AdminOwnersTransferResponse, ADMIN, NOT_FOUND | CONFIRMED
)
"""Give what `owner` owns (of these types), or the named `resources` (at most 1000), to an active principal.

The old owner keeps no role on them. While `remaining` of the answer has any, call it again: many resources are
transferred in parts, each as a whole. It is harmless to repeat."""
ADMIN_USERS_PLAN_OFFBOARDING = ApiOperation(
    "admin/users/planOffboarding", AdminUsersPlanOffboardingRequest, AdminUsersPlanOffboardingResponse, ADMIN, CONFLICT
)
"""Say what `offboard` would end and hand over, and what nobody else may read; nothing is changed."""
ADMIN_USERS_OFFBOARD = ApiOperation(
    "admin/users/offboard", AdminUsersOffboardRequest, AdminUsersOffboardResponse, ADMIN, CONFLICT | CONFIRMED
)
"""End all access of a user at once, then give what they own to `new_owner`, which may be left out if nothing.

Deactivates them, revokes their API keys and the tokens of applications, signs their browsers out, and takes
them out of their groups. While `remaining` of the answer has any, call it again; it is harmless to repeat."""
