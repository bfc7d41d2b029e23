"""admin/access/*: an organization's access; extensions, for admins. Resources with the same access share a class."""

from enum import StrEnum
from typing import Annotated
from uuid import UUID

from pydantic import Field

from carrel.wire import common
from carrel.wire.fields import NO_NUL, Identifier, StrictFlag, must_fit
from carrel.wire.operations import ADMIN, ApiOperation

AccessState = Annotated[str, Field(min_length=1, max_length=128), NO_NUL]
"""The state of all access at one moment; opaque."""


class AdminAccessGetStateRequest(common.RequestModel):
    """Get the state of all access, and whether access changed since an earlier state."""

    since: AccessState | None = None
    """State from an earlier answer to compare with; absent: no comparison."""


class AdminAccessGetStateResponse(common.ResponseModel):
    """The state of all access; a change that was undone still counts as a change."""

    state: str
    """State of all access now; opaque."""
    changed: bool | None = None
    """Whether any access may have changed since the state given; absent when none was."""


class ResourceFilters(common.RequestModel):
    """Filters for resources. All filters must match; no filter: all resources of the organization."""

    object_ids: Annotated[list[UUID] | None, Field(min_length=1, max_length=1000)] = None
    """Only documents, collections and agents with these ids, at most 1000; unknown ids are ignored."""
    query: Identifier | None = None
    """Part of a name or of a resourceId, in any case."""
    resource_ids: Annotated[list[Identifier] | None, Field(min_length=1, max_length=1000)] = None
    """Only resources with exactly the given resourceIds, at most 1000."""
    resource_types: Annotated[list[common.ResourceType] | None, Field(min_length=1, max_length=100)] = None
    """Only resources of these types, at most 100."""
    readable_by: common.PrincipalReference | None = None
    """Only resources with effective access for the principal."""
    owned_by: common.PrincipalReference | None = None
    """Only documents and collections owned by this user or service account, active or not."""
    organization_wide: StrictFlag | None = None
    """Only resources open to the whole organization; default: false."""
    action: common.Action | None = None
    """Action for `readableBy` and `notReadableBy`; default: READ."""
    not_readable_by: common.PrincipalReference | None = None
    """Leave out resources accessible to this principal; needs `readableBy`."""

    _compares_two = must_fit(
        lambda filters: filters.not_readable_by is None or filters.readable_by is not None,
        "notReadableBy is given together with readableBy",
    )


class ResourceOrder(StrEnum):
    """Order of resources: by their objects' ids (fast for any number) or by name."""

    ID = "ID"
    NAME = "NAME"


class AdminAccessListResourcesRequest(ResourceFilters, common.PagedRequest):
    """List resources of the organization. NAME ignores case; a resource without a name is sorted by its resourceId."""

    order: ResourceOrder | None = None
    """Order of the list; ID unless given."""
    with_through: StrictFlag | None = None
    """Whether each resource says how `readableBy` (required) has its access; default: false."""

    _through_of_somebody = must_fit(
        lambda request: not request.with_through or request.readable_by is not None,
        "withThrough is given together with readableBy",
    )


class HolderType(StrEnum):
    """Type of a holder; the organization stands for all its active users."""

    USER = "user"
    SERVICE_ACCOUNT = "serviceAccount"
    GROUP = "group"
    ORGANIZATION = "organization"


class AccessThrough(common.ResponseModel):
    """A principal with a direct role: the reader, one of the reader's groups, or the organization."""

    principal_id: UUID
    principal_type: HolderType
    """Kind of the principal."""
    name: str
    """Name of the principal."""
    role: common.Role
    """The principal's role on the resource."""


class ClassedResource(common.ResourceIdentifier):
    """A resource with its access class."""

    object_id: UUID
    """Own id of the document, collection or agent."""
    access_class: str
    name: str | None = None
    """Name of the document, collection or agent."""
    through: list[AccessThrough] | None = None
    """How `readableBy` has its access: directly first, then by name, at most 10; absent unless requested."""


class AdminAccessListResourcesResponse(common.PagedResponse):
    """A page of resources."""

    resources: list[ClassedResource]
    """The resources, in the order asked for."""


class AdminAccessCountResourcesRequest(ResourceFilters):
    """Count the resources of `admin/access/listResources`."""


class ResourceCount(common.ResponseModel):
    """Number of resources of a type."""

    resource_type: common.ReportedType
    count: int
    """Number of resources of the type."""


class AdminAccessCountResourcesResponse(common.Tabular):
    """A count for each existing type, ordered by type, and the total."""

    counts: list[ResourceCount]
    """A count for each existing type, ordered by type."""
    total: int
    """Number of resources of all types."""


class AdminAccessListHoldersRequest(common.PagedRequest):
    """List the holders of each access class with their roles."""


class AccessHolder(common.ResponseModel):
    """A principal with its role in a class; a principal with several roles is listed with each."""

    access_class: str
    principal_id: UUID
    principal_type: HolderType
    """Kind of the holder."""
    role: common.Role
    """The holder's role on resources of the class."""


class AdminAccessListHoldersResponse(common.PagedResponse):
    """A page of holders, class by class; without unused classes and inactive holders."""

    holders: list[AccessHolder]
    """The holders, class by class."""


class AdminAccessListGroupPeopleRequest(common.PagedRequest):
    """List the people in each group, directly or through nested groups."""


class GroupPerson(common.ResponseModel):
    """An active user or service account in a group."""

    group_id: UUID
    principal_id: UUID
    """Id of the user or service account."""


class AdminAccessListGroupPeopleResponse(common.PagedResponse):
    """A page of people, group by group; each person appears once in a group."""

    people: list[GroupPerson]
    """The people, group by group."""


ADMIN_ACCESS_GET_STATE = ApiOperation(
    "admin/access/getState", AdminAccessGetStateRequest, AdminAccessGetStateResponse, ADMIN
)
"""Return the state of all access, and whether access may have changed since an earlier state."""
ADMIN_ACCESS_LIST_RESOURCES = ApiOperation(
    "admin/access/listResources", AdminAccessListResourcesRequest, AdminAccessListResourcesResponse, ADMIN
)
"""List resources with names and access classes: all, or those matching `ResourceFilters`, sorted by their
objects' ids, or by NAME unless there are too many. With `with_through`, each resource says how `readable_by`
has its access: directly, through groups, or as a member of the organization."""
ADMIN_ACCESS_COUNT_RESOURCES = ApiOperation(
    "admin/access/countResources", AdminAccessCountResourcesRequest, AdminAccessCountResourcesResponse, ADMIN
)
"""Count resources by type, with the filters of `list_resources`; `total` covers all types."""
ADMIN_ACCESS_LIST_HOLDERS = ApiOperation(
    "admin/access/listHolders", AdminAccessListHoldersRequest, AdminAccessListHoldersResponse, ADMIN
)
"""List the holders of each access class with their roles, class by class."""
ADMIN_ACCESS_LIST_GROUP_PEOPLE = ApiOperation(
    "admin/access/listGroupPeople", AdminAccessListGroupPeopleRequest, AdminAccessListGroupPeopleResponse, ADMIN
)
"""List the active people of every group, direct and nested, group by group."""
