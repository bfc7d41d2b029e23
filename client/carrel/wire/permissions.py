"""permissions/*: who may act on a resource, why, and a principal's resources."""

from enum import StrEnum
from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field

from carrel.wire import common, operations
from carrel.wire.access import AccessThrough
from carrel.wire.admin import Grant, GrantInfo
from carrel.wire.fields import Instant, StrictFlag
from carrel.wire.operations import ADMIN, ANYBODY, CONFIRMED, CONFLICT, NOT_FOUND, READ, SHARED, SHARING, ApiOperation


class ListAuthorizedPrincipalsForResourceRequest(common.PagedRequest):
    """List every group and user with effective access to a resource, without repetition; for admins."""

    resource: common.ResourceReference
    action: common.Action
    with_through: StrictFlag | None = None
    """Whether each principal has its access path; default: false."""


class ListAuthorizedPrincipalsForResourceResponse(common.PagedResponse):
    """A page of principals."""

    principals: list[common.Principal]
    """Groups and users, each once."""
    through: dict[str, list[AccessThrough]] | None = None
    """Sources of access by principal id: directly first, then groups by name, at most 10; absent unless requested."""


class ListAuthorizedResourcesRequest(common.ActingRequest, common.PagedRequest):
    """List the resources that the acting principal may act on, optionally of one type."""

    action: common.Action
    resource_type: common.ResourceType | None = None
    """Only resources of this type; absent: all types."""


class ListAuthorizedResourcesResponse(common.PagedResponse):
    """A page of resources."""

    resources: list[common.ResourceIdentifier]


class ExplainAuthorizationRequest(common.RequestModel):
    """Explain why a principal may or may not act on a resource; for admins."""

    resource: common.ResourceReference
    principal: common.PrincipalReference
    action: common.Action


class StepType(StrEnum):
    """Kind of a step in an authorization path."""

    USER = "user"
    SERVICE_ACCOUNT = "serviceAccount"
    GROUP = "group"
    ORGANIZATION = "organization"
    GRANT = "grant"
    RESOURCE = "resource"


class AuthorizationStep(common.ResponseModel):
    """A step from a principal to a resource."""

    type: StepType
    """Kind of the step."""
    id: str | None = None
    """Id of the principal, or the resourceId of the resource; absent for a grant."""
    name: str | None = None
    """Name of the principal, document, collection or agent."""
    email: str | None = None
    """Email address of the user or service account."""
    role: common.Role | None = None
    """Role given by the grant."""


class ExplainAuthorizationResponse(common.ResponseModel):
    """Whether a principal may act on a resource, and every shortest chain: from the principal through groups (or the
    organization, for public resources) and a grant to the resource. `complete` is False when more paths exist.
    `missing` explains an unauthorized principal's lack of access."""

    authorized: bool
    """Whether the principal may act on the resource."""
    paths: list[list[AuthorizationStep]]
    """Every shortest chain from the principal to the resource."""
    complete: bool = True
    """Whether all paths are shown."""
    missing: str | None = None
    """The missing access of an unauthorized principal."""


class WhoAmIRequest(common.RequestModel):
    """Get the credential of the request."""


class WhoAmIResponse(common.ResponseModel):
    """A credential without its value, and its person or service account."""

    kind: Literal["apiKey", "serviceAccountToken", "accessToken"]
    """Kind of the credential."""
    credential_name: str
    """Name of the key or token; for an access token, name of the application."""
    name: str
    """Name of the person or service account."""
    email: str
    """Email address of the person or service account."""
    is_admin: bool
    """Whether the credential administers."""
    organization_id: UUID
    organization_name: str
    scopes: list[str] | None = None
    """Scopes of a token; absent for an API key, which has no scopes."""
    expires_at: Instant | None = None
    """When the credential stops; absent: never."""


class CheckResourceAuthorizationForUserRequest(common.ActingRequest):
    """Check whether a principal may act on a resource: the caller by default, any principal for admins."""

    resource: common.ResourceReference
    action: common.Action


class CheckResourceAuthorizationForUserResponse(common.ResponseModel):
    """Whether the principal may act on the resource; False if the resource doesn't exist."""

    authorized: bool


class CheckBulkResourcesAuthorizationForUserRequest(common.ActingRequest):
    """Check up to 1000 resources at once."""

    resources: Annotated[list[common.ResourceReference], Field(min_length=1, max_length=1000)]
    """The resources, 1 to 1000."""
    action: common.Action


class ResourceAuthorization(common.ResponseModel):
    """Whether the principal may act on a resource."""

    resource: common.ResourceIdentifier
    authorized: bool


class CheckBulkResourcesAuthorizationForUserResponse(common.Tabular):
    """The answers, in the order asked."""

    results: list[ResourceAuthorization]
    """The answers, in the order asked."""


class GetSharesRequest(common.ActingRequest):
    """Ask for the roles that the owner of a document or collection has given on it."""

    resource: common.ResourceReference
    """The document or collection, by its identity in its source system."""


class SetSharesRequest(GetSharesRequest, common.VersionedRequest):
    """Replace the roles that the owner of a document or collection has given on it."""

    grants: Annotated[list[Grant], Field(max_length=1000)]
    """All roles that the owner gives from now on, to users and to the owner's groups, at most 1000."""
    validate_only: bool | None = None
    """Whether to check the request and change nothing; default: false."""


class ResourceShares(common.Versioned):
    """The roles that the owner of a resource has given on it."""

    edited = ("grants",)

    resource: common.ResourceIdentifier
    """The resource, by its identity in its source system."""
    grants: list[GrantInfo]
    """The roles that the owner gave."""


LIST_AUTHORIZED_PRINCIPALS_FOR_RESOURCE = ApiOperation(
    "permissions/listAuthorizedPrincipalsForResource",
    ListAuthorizedPrincipalsForResourceRequest,
    ListAuthorizedPrincipalsForResourceResponse,
    ADMIN,
    NOT_FOUND | SHARED,
)
"""List every group and user with effective access to a resource, without repetition; for admins."""
LIST_AUTHORIZED_RESOURCES = ApiOperation(
    "permissions/listAuthorizedResources", ListAuthorizedResourcesRequest, ListAuthorizedResourcesResponse, READ, SHARED
)
"""List the resources that the caller may act on, optionally of one type."""
EXPLAIN_AUTHORIZATION = ApiOperation(
    "permissions/explainAuthorization", ExplainAuthorizationRequest, ExplainAuthorizationResponse, ADMIN, NOT_FOUND
)
"""Explain a principal's access (or none) to a resource by chains of groups and grants; for admins. `principal`
is `{"type": "user", "email": …}`, `{"type": "group", "id": …}` or `{"type": "serviceAccount", "id": …}`."""
WHO_AM_I = ApiOperation("permissions/whoAmI", WhoAmIRequest, WhoAmIResponse, ANYBODY)
"""Return the client's key or token: kind, owner, scopes and expiry."""
CHECK_RESOURCE_AUTHORIZATION_FOR_USER = ApiOperation(
    "permissions/checkResourceAuthorizationForUser",
    CheckResourceAuthorizationForUserRequest,
    CheckResourceAuthorizationForUserResponse,
    READ,
)
"""Return whether the caller or, for admins, `user_email` may act on a resource; False for unknown resources."""
CHECK_BULK_RESOURCES_AUTHORIZATION_FOR_USER = ApiOperation(
    "permissions/checkBulkResourcesAuthorizationForUser",
    CheckBulkResourcesAuthorizationForUserRequest,
    CheckBulkResourcesAuthorizationForUserResponse,
    READ,
)
"""Return whether a user may act on each of 1 to 1000 resources, in the order given. More raise
InvalidArgumentError, because one call has one consistent moment; split larger lists yourself."""
GET_SHARES = ApiOperation(
    "permissions/getShares", GetSharesRequest, ResourceShares, operations.SHARES_READ, NOT_FOUND | CONFLICT
)
"""Return the roles that the caller, as the owner, has given on a document or collection. Roles from admins are
left out."""
SET_SHARES = ApiOperation(
    "permissions/setShares",
    SetSharesRequest,
    ResourceShares,
    SHARING,
    operations.KEYED | CONFLICT | NOT_FOUND | CONFIRMED,
)
"""Replace the roles that the caller, as the owner, has given on a document or collection; roles from admins
stay.

A principal is an active user, `{"type": "user", "email": …}`, or a group that the caller is in, `{"type":
"group", "id": …}`; other principals raise InvalidArgumentError `unknown_principal`. New roles need the
organization's `owner_sharing_enabled`. The roles end when the caller loses ownership or is no longer active.
`validate_only` raises the same errors, and changes nothing."""
