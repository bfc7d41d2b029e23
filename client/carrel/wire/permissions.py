"""permissions/*: who may act on a resource, why, and what somebody may act on."""

from enum import StrEnum
from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field

from carrel.wire import common
from carrel.wire.access import AccessThrough
from carrel.wire.fields import Instant, StrictFlag
from carrel.wire.operations import ADMIN, ANYBODY, NOT_FOUND, READ, SHARED, ApiOperation


class ListAuthorizedPrincipalsForResourceRequest(common.PagedRequest):
    """List every group and user that may effectively act on a resource, each once; for admins."""

    resource: common.ResourceReference
    """The resource, by its identity in its source system."""
    action: common.Action
    """What the principal wants to do; READ is the only action."""
    with_through: StrictFlag | None = None
    """Say of each principal through whom it may act on the resource; false unless given."""


class ListAuthorizedPrincipalsForResourceResponse(common.PagedResponse):
    """One page of principals."""

    principals: list[common.Principal]
    """Groups and users, each once."""
    through: dict[str, list[AccessThrough]] | None = None
    """Through whom each may act on it, by the principal's id: itself first, then by name, at most 10; absent unless
    asked for."""


class ListAuthorizedResourcesRequest(common.ActingRequest, common.PagedRequest):
    """List the resources the acting principal may act on; all types unless one is named."""

    action: common.Action
    """What the principal wants to do; READ is the only action."""
    resource_type: common.ResourceType | None = None
    """Only resources of this type; absent: all types."""


class ListAuthorizedResourcesResponse(common.PagedResponse):
    """One page of resources."""

    resources: list[common.ResourceIdentifier]
    """The resources."""


class ExplainAuthorizationRequest(common.RequestModel):
    """Ask why a principal may act on a resource, or why it may not; for admins."""

    resource: common.ResourceReference
    """The resource, by its identity in its source system."""
    principal: common.PrincipalReference
    """The user, group or service account."""
    action: common.Action
    """What the principal wants to do; READ is the only action."""


class StepType(StrEnum):
    """What a step of an authorization path is."""

    USER = "user"
    SERVICE_ACCOUNT = "serviceAccount"
    GROUP = "group"
    ORGANIZATION = "organization"
    GRANT = "grant"
    RESOURCE = "resource"


class AuthorizationStep(common.ResponseModel):
    """A step from a principal to a resource."""

    type: StepType
    """What the step is."""
    id: str | None = None
    """Id of the principal, or the resourceId of the resource; absent for a grant."""
    name: str | None = None
    """Name of the principal, document, collection or agent."""
    email: str | None = None
    """Email address of the user or service account."""
    role: common.Role | None = None
    """Role that the grant gives."""


class ExplainAuthorizationResponse(common.ResponseModel):
    """Whether a principal may act on a resource, and every shortest chain by which it may.

    A path goes from the principal through groups (or the organization, for what everyone may read) and a grant to the
    resource. `complete` is False when there are more paths than are shown. `missing` says what an unauthorized
    principal lacks."""

    authorized: bool
    """Whether the principal may act on the resource."""
    paths: list[list[AuthorizationStep]]
    """Every shortest chain from the principal to the resource."""
    complete: bool = True
    """Whether all paths are shown."""
    missing: str | None = None
    """What a principal that may not act lacks."""


class WhoAmIRequest(common.RequestModel):
    """Ask what the credential of the request is."""


class WhoAmIResponse(common.ResponseModel):
    """A credential without its value, and the person or service account that it acts as."""

    kind: Literal["apiKey", "serviceAccountToken", "accessToken"]
    """What the credential is."""
    credential_name: str
    """Name of the key or token; of an access token, that of the application."""
    name: str
    """Name of the person or service account."""
    email: str
    """Email address of the person or service account."""
    is_admin: bool
    """Whether the credential administers."""
    organization_id: UUID
    organization_name: str
    """Name of the organization."""
    scopes: list[str] | None = None
    """What a token may be used for; absent for an API key, which has no scopes."""
    expires_at: Instant | None = None
    """When the credential stops; absent: never."""


class CheckResourceAuthorizationForUserRequest(common.ActingRequest):
    """Ask whether somebody (the caller unless named; anyone by an admin) may act on a resource."""

    resource: common.ResourceReference
    """The resource, by its identity in its source system."""
    action: common.Action
    """What the principal wants to do; READ is the only action."""


class CheckResourceAuthorizationForUserResponse(common.ResponseModel):
    """Whether they may; False, too, when there is no such resource."""

    authorized: bool
    """Whether they may act on the resource; false, too, when there is none."""


class CheckBulkResourcesAuthorizationForUserRequest(common.ActingRequest):
    """Ask the same for up to 1000 resources at once."""

    resources: Annotated[list[common.ResourceReference], Field(min_length=1, max_length=1000)]
    """The resources, 1 to 1000."""
    action: common.Action
    """What the principal wants to do; READ is the only action."""


class ResourceAuthorization(common.ResponseModel):
    """Whether somebody may act on one resource."""

    resource: common.ResourceIdentifier
    """The resource, by its identity in its source system."""
    authorized: bool
    """Whether they may act on the resource; false, too, when there is none."""


class CheckBulkResourcesAuthorizationForUserResponse(common.Tabular):
    """The answers, in the order asked."""

    results: list[ResourceAuthorization]
    """The answers, in the order asked."""


LIST_AUTHORIZED_PRINCIPALS_FOR_RESOURCE = ApiOperation(
    "permissions/listAuthorizedPrincipalsForResource",
    ListAuthorizedPrincipalsForResourceRequest,
    ListAuthorizedPrincipalsForResourceResponse,
    ADMIN,
    NOT_FOUND | SHARED,
)
"""Walk every group and user that may effectively act on a resource, each once; for admins."""
LIST_AUTHORIZED_RESOURCES = ApiOperation(
    "permissions/listAuthorizedResources", ListAuthorizedResourcesRequest, ListAuthorizedResourcesResponse, READ, SHARED
)
"""Walk the resources the caller may act on, of every type unless one is named."""
EXPLAIN_AUTHORIZATION = ApiOperation(
    "permissions/explainAuthorization", ExplainAuthorizationRequest, ExplainAuthorizationResponse, ADMIN, NOT_FOUND
)
"""Tell by which chains of groups and grants a principal may act on a resource, or what it lacks; for admins.

`principal` is `{"type": "user", "email": …}`, `{"type": "group", "id": …}` or
`{"type": "serviceAccount", "id": …}`."""
WHO_AM_I = ApiOperation("permissions/whoAmI", WhoAmIRequest, WhoAmIResponse, ANYBODY)
"""Tell what the client's key or token is, whose it is, what it may be used for, and when it stops."""
CHECK_RESOURCE_AUTHORIZATION_FOR_USER = ApiOperation(
    "permissions/checkResourceAuthorizationForUser",
    CheckResourceAuthorizationForUserRequest,
    CheckResourceAuthorizationForUserResponse,
    READ,
)
"""Tell whether the caller may act on a resource, or for admins whether `user_email` may.

A resource that doesn't exist is one that nobody may act on."""
CHECK_BULK_RESOURCES_AUTHORIZATION_FOR_USER = ApiOperation(
    "permissions/checkBulkResourcesAuthorizationForUser",
    CheckBulkResourcesAuthorizationForUserRequest,
    CheckBulkResourcesAuthorizationForUserResponse,
    READ,
)
"""Tell whether a user may act on each of 1 to 1000 resources, in the order given.

More raise InvalidArgumentError: one call is answered as things are at one moment, so whoever asks in several
says so."""
