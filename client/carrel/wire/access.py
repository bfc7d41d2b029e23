"""admin/access/*: the access of a whole organization, in lists that nothing is multiplied in; extensions, for admins.
Resources with the same access share an access class, which names its holders; groups name the people in them."""

from enum import StrEnum
from typing import Annotated, Self
from uuid import UUID

from pydantic import Field, model_validator

from carrel.wire import common
from carrel.wire.fields import NO_NUL, Identifier, StrictFlag
from carrel.wire.operations import ADMIN, ApiOperation

AccessState = Annotated[str, Field(min_length=1, max_length=128), NO_NUL]
"""The state of all access at one moment; opaque."""


class AdminAccessGetStateRequest(common.RequestModel):
    """Ask for the state of all access, and whether it changed since another one."""

    since: AccessState | None = None
    """State that an earlier answer gave, to compare with; absent: nothing is compared."""


class AdminAccessGetStateResponse(common.ResponseModel):
    """The state of all access; a change that was undone counts as one."""

    state: str
    """State of all access now; opaque."""
    changed: bool | None = None
    """Whether any access may have changed since the state given; absent when none was."""


class ResourceFilters(common.RequestModel):
    """What resources are narrowed to; filters narrow together, and without any there are all of the organization."""

    object_ids: Annotated[list[UUID] | None, Field(min_length=1, max_length=1000)] = None
    """Only documents, collections and agents with these ids, at most 1000; unknown ids are passed over."""
    query: Identifier | None = None
    """Part of a name or of a resourceId, in any case."""
    resource_ids: Annotated[list[Identifier] | None, Field(min_length=1, max_length=1000)] = None
    """Only resources with these whole resourceIds, at most 1000."""
    resource_types: Annotated[list[common.ResourceType] | None, Field(min_length=1, max_length=100)] = None
    """Only resources of these types, at most 100."""
    readable_by: common.PrincipalReference | None = None
    """Only resources on which this principal may effectively act."""
    owned_by: common.PrincipalReference | None = None
    """Only documents and collections that belong to this user or service account, active or not."""
    organization_wide: StrictFlag | None = None
    """Only resources that are open to everybody in the organization; false unless given."""
    action: common.Action | None = None
    """Action that `readableBy` and `notReadableBy` are about; READ unless given."""
    not_readable_by: common.PrincipalReference | None = None
    """Without the resources on which this principal may act, too; needs `readableBy`."""

    @model_validator(mode="after")
    def _compares_two(self) -> Self:
        if self.not_readable_by is not None and self.readable_by is None:
            raise ValueError("notReadableBy is given together with readableBy")
        return self


class ResourceOrder(StrEnum):
    """How resources are listed: by their objects' ids, which is cheap however many there are, or by name."""

    ID = "ID"
    NAME = "NAME"


class AdminAccessListResourcesRequest(ResourceFilters, common.PagedRequest):
    """List resources of the organization.

    By NAME, whatever its case; what has none goes by its resourceId."""

    order: ResourceOrder | None = None
    """Order of the list; ID unless given."""
    with_through: StrictFlag | None = None
    """Say of each resource through whom `readableBy`, which this needs, may act on it; false unless given."""

    @model_validator(mode="after")
    def _through_of_somebody(self) -> Self:
        if self.with_through and self.readable_by is None:
            raise ValueError("withThrough is given together with readableBy")
        return self


class HolderType(StrEnum):
    """Who a class is held by; the organization stands for all its active users."""

    USER = "user"
    SERVICE_ACCOUNT = "serviceAccount"
    GROUP = "group"
    ORGANIZATION = "organization"


class AccessThrough(common.ResponseModel):
    """A principal that holds a role itself: the reader, a group that it is in, or the organization."""

    principal_id: UUID
    """Id of the user, service account, group or organization."""
    principal_type: HolderType
    """Kind of the principal."""
    name: str
    """Name of the principal."""
    role: common.Role
    """What the principal may do with the resource."""


class ClassedResource(common.ResourceIdentifier):
    """A resource with the class of its access."""

    object_id: UUID
    """Own id of the document, collection or agent."""
    access_class: str
    """Class of the access; resources with the same access share one. Opaque."""
    name: str | None = None
    """Name of the document, collection or agent."""
    through: list[AccessThrough] | None = None
    """Through whom `readableBy` may act on it: itself first, then by name, at most 10; absent unless asked for."""


class AdminAccessListResourcesResponse(common.PagedResponse):
    """One page of resources."""

    resources: list[ClassedResource]
    """The resources, in the order asked for."""


class AdminAccessCountResourcesRequest(ResourceFilters):
    """Count what `admin/access/listResources` lists."""


class ResourceCount(common.ResponseModel):
    """How many resources there are of a type."""

    resource_type: common.ReportedType
    count: int
    """Number of resources of the type."""


class AdminAccessCountResourcesResponse(common.Tabular):
    """A count for each type that there is any of, ordered by type, and all of them together."""

    counts: list[ResourceCount]
    """A count for each type that has any, ordered by type."""
    total: int
    """Number of resources of all types."""


class AdminAccessListHoldersRequest(common.PagedRequest):
    """List who holds a role in which access class."""


class AccessHolder(common.ResponseModel):
    """A principal with its role in a class; one that holds several is listed with each."""

    access_class: str
    """Class of the access; resources with the same access share one. Opaque."""
    principal_id: UUID
    """Id of the user, service account, group or organization."""
    principal_type: HolderType
    """Kind of the holder."""
    role: common.Role
    """What the holder may do with resources of the class."""


class AdminAccessListHoldersResponse(common.PagedResponse):
    """One page of holders, class by class; only classes that a resource has, and nobody who is inactive."""

    holders: list[AccessHolder]
    """The holders, class by class."""


class AdminAccessListGroupPeopleRequest(common.PagedRequest):
    """List who is in which group, directly or through groups in it."""


class GroupPerson(common.ResponseModel):
    """An active user or service account in a group."""

    group_id: UUID
    principal_id: UUID
    """Id of the user or service account."""


class AdminAccessListGroupPeopleResponse(common.PagedResponse):
    """One page of people, group by group; each once in a group, however many ways lead there."""

    people: list[GroupPerson]
    """The people, group by group."""


ADMIN_ACCESS_GET_STATE = ApiOperation(
    "admin/access/getState", AdminAccessGetStateRequest, AdminAccessGetStateResponse, ADMIN
)
"""Tell the state of all access, and whether it may have changed since an earlier one."""
ADMIN_ACCESS_LIST_RESOURCES = ApiOperation(
    "admin/access/listResources", AdminAccessListResourcesRequest, AdminAccessListResourcesResponse, ADMIN
)
"""Walk resources with their names and access classes: all, unless `ResourceFilters` narrow them.

In the order of their objects' ids, or, where these aren't too many to sort for each page, by NAME. With
`with_through`, each says through whom `readable_by` may act on it: itself, groups, or everybody."""
ADMIN_ACCESS_COUNT_RESOURCES = ApiOperation(
    "admin/access/countResources", AdminAccessCountResourcesRequest, AdminAccessCountResourcesResponse, ADMIN
)
"""Count by type what `list_resources` walks with the same filters; `total` is of all types."""
ADMIN_ACCESS_LIST_HOLDERS = ApiOperation(
    "admin/access/listHolders", AdminAccessListHoldersRequest, AdminAccessListHoldersResponse, ADMIN
)
"""List the holders of each access class with their roles, class by class."""
ADMIN_ACCESS_LIST_GROUP_PEOPLE = ApiOperation(
    "admin/access/listGroupPeople", AdminAccessListGroupPeopleRequest, AdminAccessListGroupPeopleResponse, ADMIN
)
"""Walk the active people of every group, however deep they are in it, group by group."""
