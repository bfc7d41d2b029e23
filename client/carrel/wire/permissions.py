"""permissions/*: who may act on a resource, why, and what somebody may act on."""

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from carrel.wire.common import (
    ActingRequest,
    Action,
    PagedRequest,
    PagedResponse,
    Principal,
    PrincipalReference,
    RequestModel,
    ResourceIdentifier,
    ResourceReference,
    ResourceType,
    ResponseModel,
    Role,
    Tabular,
)


class ListAuthorizedPrincipalsForResourceRequest(PagedRequest):
    """List every group and user that may effectively act on a resource, each once; for admins (seed)."""

    resource: ResourceReference
    action: Action


class ListAuthorizedPrincipalsForResourceResponse(PagedResponse):
    """One page of principals."""

    rows_in: ClassVar[str] = "principals"
    principals: list[Principal]


class ListAuthorizedResourcesRequest(ActingRequest, PagedRequest):
    """List the resources the acting principal may act on; all types unless one is named (seed)."""

    action: Action
    resource_type: ResourceType | None = None


class ListAuthorizedResourcesResponse(PagedResponse):
    """One page of resources."""

    rows_in: ClassVar[str] = "resources"
    resources: list[ResourceIdentifier]


class ExplainAuthorizationRequest(RequestModel):
    """Ask why a principal may act on a resource, or why it may not; for admins (extension)."""

    resource: ResourceReference
    principal: PrincipalReference
    action: Action


class StepType(StrEnum):
    """What a step of an authorization path is."""

    USER = "user"
    SERVICE_ACCOUNT = "serviceAccount"
    GROUP = "group"
    ORGANIZATION = "organization"
    GRANT = "grant"
    RESOURCE = "resource"


class AuthorizationStep(ResponseModel):
    """A step from a principal to a resource. A grant has a role and no id; a resource's id is its resourceId.

    The name of a resource is that of the document, collection or agent.
    """

    type: StepType
    id: str | None = None
    name: str | None = None
    email: str | None = None
    role: Role | None = None


class ExplainAuthorizationResponse(ResponseModel):
    """Whether a principal may act on a resource, and every shortest chain by which it may.

    A path goes from the principal through groups (or the organization, for what everyone may read) and a grant to the
    resource. `complete` is False when there are more paths than are shown. `missing` says what an unauthorized
    principal lacks.
    """

    authorized: bool
    paths: list[list[AuthorizationStep]]
    complete: bool = True
    missing: str | None = None


class CheckResourceAuthorizationForUserRequest(ActingRequest):
    """Ask whether somebody (the caller unless named; anyone by an admin) may act on a resource (extension)."""

    resource: ResourceReference
    action: Action


class CheckResourceAuthorizationForUserResponse(ResponseModel):
    """Whether they may; False, too, when there is no such resource."""

    authorized: bool


class CheckBulkResourcesAuthorizationForUserRequest(ActingRequest):
    """Ask the same for up to 1000 resources at once (extension)."""

    resources: Annotated[list[ResourceReference], Field(min_length=1, max_length=1000)]
    action: Action


class ResourceAuthorization(ResponseModel):
    """Whether somebody may act on one resource."""

    resource: ResourceIdentifier
    authorized: bool


class CheckBulkResourcesAuthorizationForUserResponse(Tabular):
    """The answers, in the order asked."""

    rows_in: ClassVar[str] = "results"
    results: list[ResourceAuthorization]
