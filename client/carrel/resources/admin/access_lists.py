"""admin/access: the access of a whole organization, in lists that nothing is multiplied in."""

from collections.abc import Sequence
from typing import Any, TypedDict, TypeVar, Unpack

from carrel._calls import Call
from carrel._operations import ListOperation, Operation, Raw, Resource
from carrel._pages import Listing
from carrel.resources._arguments import Id, Members, as_any
from carrel.resources._choices import AnyAction, AnyResourceOrder, AnyResourceType
from carrel.wire import access as wire
from carrel.wire.common import Action, PrincipalReference

M = TypeVar("M")


class ResourceFilters(TypedDict, total=False):
    """Filters on resources; filters narrow together, and one that is None narrows nothing.

    `object_ids` are own ids of documents, collections and agents, at most 1000; those of nothing are passed over.
    `query` is part of a name or a resourceId, whatever its case; `resource_ids` are whole ones, at most 1000.
    `readable_by` leaves what this user, group or service account may effectively act on (READ, unless another `action`
    is named); `not_readable_by`, beside it, takes away what that one may act on, too. `owned_by` leaves the documents
    and collections that belong to this user or service account, active or not. `organization_wide` leaves what is open
    to everybody in the organization.
    """

    object_ids: Sequence[Id] | None
    query: str | None
    resource_ids: Sequence[str] | None
    resource_types: Sequence[AnyResourceType] | None
    readable_by: PrincipalReference | Members | None
    action: AnyAction
    not_readable_by: PrincipalReference | Members | None
    owned_by: PrincipalReference | Members | None
    organization_wide: bool


class AccessLists(Resource[M]):
    """Lists of all access in the organization.

    A resource names its access class, `list_holders` who holds a role in that, `list_group_people` who is in the groups
    among them; a holder of the type organization stands for every active user. Whoever walks more than one list asks
    `get_state` before and after: the lists fit together if nothing changed in between.
    """

    @property
    def with_raw_response(self) -> "AccessLists[Raw[M]]":
        """The operations of the resource, returning the whole HTTP answer (`.headers`, `.request_id`, `.parsed`)."""
        return AccessLists(self._session.as_raw())

    @Operation
    def get_state(self, *, since: str | None = None) -> Call[wire.AdminAccessGetStateResponse]:
        """Tell the state of all access, and whether it may have changed since an earlier one."""
        return Call(wire.ADMIN_ACCESS_GET_STATE, wire.AdminAccessGetStateRequest(since=since))

    @ListOperation
    def list_resources(
        self,
        *,
        order: AnyResourceOrder | None = None,
        with_through: bool | None = None,
        page_size: int = 100,
        page_token: str | None = None,
        **filters: Unpack[ResourceFilters],
    ) -> Listing[wire.ClassedResource, wire.AdminAccessListResourcesResponse]:
        """Walk resources with their names and access classes: all, unless `ResourceFilters` narrow them.

        In the order of their objects' ids, or, where these aren't too many to sort for each page, by NAME. With
        `with_through`, each says through whom `readable_by` may act on it: itself, groups, or everybody.
        """
        request = wire.AdminAccessListResourcesRequest(
            **_members(filters),
            order=as_any(wire.ResourceOrder, order),
            with_through=with_through,
            page_size=page_size,
            page_token=page_token,
        )
        return Listing(wire.ADMIN_ACCESS_LIST_RESOURCES, request, lambda page: page.resources)

    @Operation
    def count_resources(self, **filters: Unpack[ResourceFilters]) -> Call[wire.AdminAccessCountResourcesResponse]:
        """Count by type what `list_resources` walks with the same filters; `total` is of all types."""
        request = wire.AdminAccessCountResourcesRequest(**_members(filters))
        return Call(wire.ADMIN_ACCESS_COUNT_RESOURCES, request)

    @ListOperation
    def list_holders(
        self, *, page_size: int = 100, page_token: str | None = None
    ) -> Listing[wire.AccessHolder, wire.AdminAccessListHoldersResponse]:
        """List the holders of each access class with their roles, class by class."""
        request = wire.AdminAccessListHoldersRequest(page_size=page_size, page_token=page_token)
        return Listing(wire.ADMIN_ACCESS_LIST_HOLDERS, request, lambda page: page.holders)

    @ListOperation
    def list_group_people(
        self, *, page_size: int = 100, page_token: str | None = None
    ) -> Listing[wire.GroupPerson, wire.AdminAccessListGroupPeopleResponse]:
        """Walk the active people of every group, however deep they are in it, group by group."""
        request = wire.AdminAccessListGroupPeopleRequest(page_size=page_size, page_token=page_token)
        return Listing(wire.ADMIN_ACCESS_LIST_GROUP_PEOPLE, request, lambda page: page.people)


def _members(filters: ResourceFilters) -> dict[str, Any]:
    given: dict[str, Any] = {"action": Action.READ, **filters}
    return given if given.get("readable_by") is not None else {**given, "action": None}
