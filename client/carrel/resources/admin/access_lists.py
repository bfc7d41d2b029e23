"""admin/access: the access of a whole organization, in lists that nothing is multiplied in."""

from typing import TypeVar

from carrel._calls import Call
from carrel._operations import ListOperation, Operation, Raw, Resource
from carrel._pages import Listing
from carrel.wire.access import (
    AccessHolder,
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
        self, *, page_size: int = 100, page_token: str | None = None
    ) -> Listing[ClassedResource, AdminAccessListResourcesResponse]:
        """Walk every resource with its access class, in the order of their objects' ids."""
        request = AdminAccessListResourcesRequest(page_size=page_size, page_token=page_token)
        path = "admin/access/listResources"
        return Listing(path, request, AdminAccessListResourcesResponse, lambda page: page.resources)

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
