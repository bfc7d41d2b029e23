"""permissions/list*: who may act on a resource, and what the caller may act on."""

from typing import ClassVar

from carrel.wire.common import (
    ActingRequest,
    Action,
    PagedRequest,
    PagedResponse,
    Principal,
    ResourceIdentifier,
    ResourceReference,
    ResourceType,
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
