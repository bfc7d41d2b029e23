"""permissions/*: who may act on a resource, why, and what somebody may act on."""

from collections.abc import Iterable
from typing import TypeVar, cast

from carrel._calls import Call
from carrel._operations import ListOperation, Operation, Raw, Resource
from carrel._pages import Listing
from carrel.resources._arguments import Members, as_any
from carrel.resources._choices import AnyAction, AnyResourceType
from carrel.wire import permissions as wire
from carrel.wire.common import (
    Action,
    GroupPrincipal,
    PrincipalReference,
    ResourceIdentifier,
    ResourceReference,
    ResourceType,
    UserPrincipal,
)

M = TypeVar("M")


class Permissions(Resource[M]):
    """Look-ups of who may do what.

    A `resource` is `{"resource_id": …, "resource_type": …}`, or a search result's or document's `resource`.
    """

    @property
    def with_raw_response(self) -> "Permissions[Raw[M]]":
        """The operations of the resource, returning the whole HTTP answer (`.headers`, `.request_id`, `.parsed`)."""
        return Permissions(self._session.as_raw())

    @ListOperation
    def list_authorized_principals_for_resource(
        self,
        resource: ResourceReference | ResourceIdentifier | Members,
        *,
        action: AnyAction = Action.READ,
        page_size: int = 100,
        page_token: str | None = None,
    ) -> Listing[UserPrincipal | GroupPrincipal, wire.ListAuthorizedPrincipalsForResourceResponse]:
        """Walk every group and user that may effectively act on a resource, each once; for admins."""
        request = wire.ListAuthorizedPrincipalsForResourceRequest(
            resource=reference_to(resource),
            action=as_any(Action, action),
            page_size=page_size,
            page_token=page_token,
        )
        return Listing(wire.LIST_AUTHORIZED_PRINCIPALS_FOR_RESOURCE, request, lambda page: page.principals)

    @ListOperation
    def list_authorized_resources(
        self,
        *,
        action: AnyAction = Action.READ,
        resource_type: AnyResourceType | None = None,
        user_email: str | None = None,
        page_size: int = 100,
        page_token: str | None = None,
    ) -> Listing[ResourceIdentifier, wire.ListAuthorizedResourcesResponse]:
        """Walk the resources the caller may act on, of every type unless one is named."""
        request = wire.ListAuthorizedResourcesRequest(
            action=as_any(Action, action),
            resource_type=as_any(ResourceType, resource_type),
            user_email=user_email,
            page_size=page_size,
            page_token=page_token,
        )
        return Listing(wire.LIST_AUTHORIZED_RESOURCES, request, lambda page: page.resources)

    @Operation
    def explain_authorization(
        self,
        resource: ResourceReference | ResourceIdentifier | Members,
        principal: PrincipalReference | Members,
        *,
        action: AnyAction = Action.READ,
    ) -> Call[wire.ExplainAuthorizationResponse]:
        """Tell by which chains of groups and grants a principal may act on a resource, or what it lacks; for admins.

        `principal` is `{"type": "user", "email": …}`, `{"type": "group", "id": …}` or
        `{"type": "serviceAccount", "id": …}`.
        """
        request = wire.ExplainAuthorizationRequest(
            resource=reference_to(resource),
            principal=cast("PrincipalReference", principal),
            action=as_any(Action, action),
        )
        return Call(wire.EXPLAIN_AUTHORIZATION, request)

    @Operation
    def check_resource_authorization_for_user(
        self,
        resource: ResourceReference | ResourceIdentifier | Members,
        *,
        action: AnyAction = Action.READ,
        user_email: str | None = None,
    ) -> Call[wire.CheckResourceAuthorizationForUserResponse]:
        """Tell whether the caller may act on a resource, or for admins whether `user_email` may.

        A resource that doesn't exist is one that nobody may act on.
        """
        request = wire.CheckResourceAuthorizationForUserRequest(
            resource=reference_to(resource), action=as_any(Action, action), user_email=user_email
        )
        return Call(wire.CHECK_RESOURCE_AUTHORIZATION_FOR_USER, request)

    @Operation
    def check_bulk_resources_authorization_for_user(
        self,
        resources: Iterable[ResourceReference | ResourceIdentifier | Members],
        *,
        action: AnyAction = Action.READ,
        user_email: str | None = None,
    ) -> Call[wire.CheckBulkResourcesAuthorizationForUserResponse]:
        """Tell whether a user may act on each of 1 to 1000 resources, in the order given.

        More raise InvalidArgumentError: one call is answered as things are at one moment, so whoever asks in several
        says so.
        """
        request = wire.CheckBulkResourcesAuthorizationForUserRequest(
            resources=[reference_to(resource) for resource in resources],
            action=as_any(Action, action),
            user_email=user_email,
        )
        return Call(wire.CHECK_BULK_RESOURCES_AUTHORIZATION_FOR_USER, request)


def reference_to(resource: ResourceReference | ResourceIdentifier | Members) -> ResourceReference:
    """Return a resource as requests name it, from how responses do."""
    if isinstance(resource, ResourceIdentifier):
        return ResourceReference(resource_id=resource.resource_id, resource_type=resource.resource_type)
    return ResourceReference.model_validate(resource)
