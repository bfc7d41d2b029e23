"""admin/access/*: the access of a whole organization, in lists that nothing is multiplied in; extensions, for admins.

Resources with the same access share an access class. A resource names its class, a class its holders, and a group
among these the people in it: together they say who may read what, in as many rows as there are facts.
"""

from enum import StrEnum
from typing import Annotated, ClassVar, Self
from uuid import UUID

from pydantic import Field, model_validator

from carrel.wire.common import (
    NO_NUL,
    Action,
    Identifier,
    PagedRequest,
    PagedResponse,
    PrincipalReference,
    ReportedType,
    RequestModel,
    ResourceIdentifier,
    ResourceType,
    ResponseModel,
    Role,
    Tabular,
)

AccessState = Annotated[str, Field(min_length=1, max_length=128), NO_NUL]
"""The state of all access at one moment; opaque."""


class AdminAccessGetStateRequest(RequestModel):
    """Ask for the state of all access, and whether it is still what it was when `since` was given."""

    since: AccessState | None = None


class AdminAccessGetStateResponse(ResponseModel):
    """The state now. `changed`: whether anybody's access may have changed since then, even if it was changed back."""

    state: str
    changed: bool | None = None


class ResourceFilters(RequestModel):
    """What resources are narrowed to; filters narrow together, and without any there are all of the organization.

    `object_ids` are the own ids of documents, collections and agents; those of nothing are passed over. `query` is part
    of a name or a resourceId, whatever its case; `resource_ids` are whole ones. `readable_by`: what this principal may
    effectively act on (READ unless another `action` is named); `not_readable_by` leaves out of that what this one may
    act on, too.
    """

    object_ids: Annotated[list[UUID] | None, Field(min_length=1, max_length=1000)] = None
    query: Identifier | None = None
    resource_ids: Annotated[list[Identifier] | None, Field(min_length=1, max_length=1000)] = None
    resource_types: Annotated[list[ResourceType] | None, Field(min_length=1, max_length=100)] = None
    readable_by: PrincipalReference | None = None
    action: Action | None = None
    not_readable_by: PrincipalReference | None = None

    @model_validator(mode="after")
    def _compares_two(self) -> Self:
        if self.not_readable_by is not None and self.readable_by is None:
            msg = "notReadableBy is given together with readableBy"
            raise ValueError(msg)
        return self


class ResourceOrder(StrEnum):
    """How resources are listed: by their objects' ids, which is cheap however many there are, or by name."""

    ID = "ID"
    NAME = "NAME"


class AdminAccessListResourcesRequest(ResourceFilters, PagedRequest):
    """List resources of the organization, in the order of ids unless another is asked for.

    By NAME, whatever its case; what has none goes by its resourceId.
    """

    order: ResourceOrder | None = None


class ClassedResource(ResourceIdentifier):
    """A resource with the class of its access; the `object_id` of a document, collection or agent is its own id.

    `name` is that of the document, collection or agent.
    """

    object_id: UUID
    access_class: str
    name: str | None = None


class AdminAccessListResourcesResponse(PagedResponse):
    """One page of resources."""

    rows_in: ClassVar[str] = "resources"
    resources: list[ClassedResource]


class AdminAccessCountResourcesRequest(ResourceFilters):
    """Count what `admin/access/listResources` lists."""


class ResourceCount(ResponseModel):
    """How many resources there are of a type."""

    resource_type: ReportedType
    count: int


class AdminAccessCountResourcesResponse(Tabular):
    """A count for each type that there is any of, ordered by type, and all of them together."""

    rows_in: ClassVar[str] = "counts"
    counts: list[ResourceCount]
    total: int


class HolderType(StrEnum):
    """Who a class is held by; the organization stands for all its active users."""

    USER = "user"
    SERVICE_ACCOUNT = "serviceAccount"
    GROUP = "group"
    ORGANIZATION = "organization"


class AdminAccessListHoldersRequest(PagedRequest):
    """List who holds a role in which access class."""


class AccessHolder(ResponseModel):
    """A principal with its role in a class; one that holds several is listed with each."""

    access_class: str
    principal_id: UUID
    principal_type: HolderType
    role: Role


class AdminAccessListHoldersResponse(PagedResponse):
    """One page of holders, class by class; only classes that a resource has, and nobody who is inactive."""

    rows_in: ClassVar[str] = "holders"
    holders: list[AccessHolder]


class AdminAccessListGroupPeopleRequest(PagedRequest):
    """List who is in which group, directly or through groups in it."""


class GroupPerson(ResponseModel):
    """An active user or service account in a group."""

    group_id: UUID
    principal_id: UUID


class AdminAccessListGroupPeopleResponse(PagedResponse):
    """One page of people, group by group; each once in a group, however many ways lead there."""

    rows_in: ClassVar[str] = "people"
    people: list[GroupPerson]
