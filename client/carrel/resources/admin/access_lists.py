"""admin/access: the access of a whole organization, in lists that nothing is multiplied in."""

from collections.abc import Sequence
from typing import Any, TypeVar
from uuid import UUID

from carrel._calls import Call
from carrel._operations import ListOperation, Operation, Raw, Resource
from carrel._pages import Listing
from carrel.resources._arguments import Id, Members, listed, unchecked
from carrel.wire.access import (
    AccessHolder,
    AdminAccessCountResourcesRequest,
    AdminAccessCountResourcesResponse,
    AdminAccessGetStateRequest,
    AdminAccessGetStateResponse,
    AdminAccessListGroupPeopleRequest,
    AdminAccessListGroupPeopleResponse,
    AdminAccessListHoldersRequest,
    AdminAccessListHoldersResponse,
    AdminAccessListResourcesRequest,
    AdminAccessListResourcesResponse,
    ClassedResource,
    GroupPerson,
)
from carrel.wire.common import Action, PrincipalReference, ResourceType

M = TypeVar("M")


class AccessLists(Resource[M]):
    """Who may read what, of everything at once.

    A resource names its access class, `list_holders` who holds a role in that, `list_group_people` who is in the groups
    among them; a holder of the type organization stands for every active user. Whoever walks more than one list asks
    `get_state` before and after: the lists fit together if nothing changed in between.
    """

    @property
    def with_raw_response(self) -> "AccessLists[Raw[M]]":
        """The same operations, returning the whole HTTP answer (`.headers`, `.request_id`, `.parsed`)."""
        return AccessLists(self._session.as_raw())

    @Operation
    def get_state(self, *, since: str | None = None) -> Call[AdminAccessGetStateResponse]:
        """Tell the state of all access, and whether it may have changed since an earlier one."""
        return Call("admin/access/getState", AdminAccessGetStateRequest(since=since), AdminAccessGetStateResponse)

    @ListOperation
    def list_resources(
        self,
        *,
        object_ids: Sequence[Id] | None = None,
        query: str | None = None,
        resource_types: Sequence[ResourceType | str] | None = None,
        readable_by: PrincipalReference | Members | None = None,
        action: Action | str = Action.READ,
        not_readable_by: PrincipalReference | Members | None = None,
        page_size: int = 100,
        page_token: str | None = None,
    ) -> Listing[ClassedResource, AdminAccessListResourcesResponse]:
        """Walk resources with their names and access classes, in the order of their objects' ids: all, unless narrowed.

        `object_ids` are own ids of documents, collections and agents, at most 1000; those of nothing are passed over.
        `query` is part of a name or a resourceId, whatever its case. `readable_by` leaves what this user, group or
        service account may effectively act on; `not_readable_by`, beside it, takes away what that one may act on, too.
        """
        request = AdminAccessListResourcesRequest(
            **_filters(
                object_ids=object_ids,
                query=query,
                resource_types=resource_types,
                readable_by=readable_by,
                action=action,
                not_readable_by=not_readable_by,
            ),
            page_size=page_size,
            page_token=page_token,
        )
        path = "admin/access/listResources"
        return Listing(path, request, AdminAccessListResourcesResponse, lambda page: page.resources)

    @Operation
    def count_resources(
        self,
        *,
        object_ids: Sequence[Id] | None = None,
        query: str | None = None,
        resource_types: Sequence[ResourceType | str] | None = None,
        readable_by: PrincipalReference | Members | None = None,
        action: Action | str = Action.READ,
        not_readable_by: PrincipalReference | Members | None = None,
    ) -> Call[AdminAccessCountResourcesResponse]:
        """Count by type what `list_resources` walks with the same filters; `total` is of all types."""
        request = AdminAccessCountResourcesRequest(
            **_filters(
                object_ids=object_ids,
                query=query,
                resource_types=resource_types,
                readable_by=readable_by,
                action=action,
                not_readable_by=not_readable_by,
            )
        )
        return Call("admin/access/countResources", request, AdminAccessCountResourcesResponse)

    @ListOperation
    def list_holders(
        self, *, page_size: int = 100, page_token: str | None = None
    ) -> Listing[AccessHolder, AdminAccessListHoldersResponse]:
        """Walk who holds which role in which access class, class by class."""
        request = AdminAccessListHoldersRequest(page_size=page_size, page_token=page_token)
        path = "admin/access/listHolders"
        return Listing(path, request, AdminAccessListHoldersResponse, lambda page: page.holders)

    @ListOperation
    def list_group_people(
        self, *, page_size: int = 100, page_token: str | None = None
    ) -> Listing[GroupPerson, AdminAccessListGroupPeopleResponse]:
        """Walk the active people of every group, however deep they are in it, group by group."""
        request = AdminAccessListGroupPeopleRequest(page_size=page_size, page_token=page_token)
        path = "admin/access/listGroupPeople"
        return Listing(path, request, AdminAccessListGroupPeopleResponse, lambda page: page.people)


def _filters(
    *,
    object_ids: Sequence[Id] | None,
    query: str | None,
    resource_types: Sequence[ResourceType | str] | None,
    readable_by: PrincipalReference | Members | None,
    action: Action | str,
    not_readable_by: PrincipalReference | Members | None,
) -> dict[str, Any]:
    return {
        "object_ids": listed(UUID, object_ids),
        "query": query,
        "resource_types": listed(ResourceType, resource_types),
        "readable_by": readable_by,
        "action": None if readable_by is None else unchecked(Action, action),
        "not_readable_by": not_readable_by,
    }
