"""permissions/list*: who may act on a resource, and what the caller may act on."""

from typing import TypeVar

from carrel._operations import ListOperation, Raw, Resource
from carrel._pages import Listing
from carrel.resources._arguments import Members, unchecked
from carrel.wire.common import (
    Action,
    GroupPrincipal,
    ResourceIdentifier,
    ResourceReference,
    ResourceType,
    UserPrincipal,
)
from carrel.wire.permissions import (
    ListAuthorizedPrincipalsForResourceRequest,
    ListAuthorizedPrincipalsForResourceResponse,
    ListAuthorizedResourcesRequest,
    ListAuthorizedResourcesResponse,
)

M = TypeVar("M")


class Permissions(Resource[M]):
    """Look-ups of who may do what."""

    @property
    def with_raw_response(self) -> "Permissions[Raw[M]]":
        """The same operations, returning the whole HTTP answer (`.headers`, `.request_id`, `.parsed`)."""
        return Permissions(self._session.as_raw())

    @ListOperation
    def list_authorized_principals_for_resource(
        self,
        resource: ResourceReference | ResourceIdentifier | Members,
        *,
        action: Action | str = Action.READ,
        page_size: int = 100,
        page_token: str | None = None,
    ) -> Listing[UserPrincipal | GroupPrincipal, ListAuthorizedPrincipalsForResourceResponse]:
        """Walk every group and user that may effectively act on a resource, each once; for admins.

        `resource` is `{"resource_id": …, "resource_type": …}`, or a search result's or document's `resource`.
        """
        request = ListAuthorizedPrincipalsForResourceRequest(
            resource=reference_to(resource),
            action=unchecked(Action, action),
            page_size=page_size,
            page_token=page_token,
        )
        path = "permissions/listAuthorizedPrincipalsForResource"
        return Listing(path, request, ListAuthorizedPrincipalsForResourceResponse, lambda page: page.principals)

    @ListOperation
    def list_authorized_resources(
        self,
        *,
        action: Action | str = Action.READ,
        resource_type: ResourceType | str | None = None,
        user_email: str | None = None,
        page_size: int = 100,
        page_token: str | None = None,
    ) -> Listing[ResourceIdentifier, ListAuthorizedResourcesResponse]:
        """Walk the resources the caller may act on, of every type unless one is named."""
        request = ListAuthorizedResourcesRequest(
            action=unchecked(Action, action),
            resource_type=unchecked(ResourceType, resource_type),
            user_email=user_email,
            page_size=page_size,
            page_token=page_token,
        )
        path = "permissions/listAuthorizedResources"
        return Listing(path, request, ListAuthorizedResourcesResponse, lambda page: page.resources)


def reference_to(resource: ResourceReference | ResourceIdentifier | Members) -> ResourceReference:
    """Return a resource as requests name it, from how responses do."""
    if isinstance(resource, ResourceIdentifier):
        return ResourceReference(resource_id=resource.resource_id, resource_type=resource.resource_type)
    return ResourceReference.model_validate(resource)
