"""admin/*: the organization's users, groups and grants; extensions, for admins."""

from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field

from carrel.wire import common
from carrel.wire.fields import EmailAddress, Identifier, Instant, Label, Password, StrictFlag
from carrel.wire.operations import ADMIN, CONFIRMED, CONFLICT, KEYED, NOT_FOUND, ApiOperation

Members = Annotated[list[common.PrincipalReference], Field(max_length=10_000)]


class UserUpsert(common.VersionedRequest):
    """A user to create or change, by email; omitted values stay (a new user is active and not an admin)."""

    email: EmailAddress
    """Email address, which identifies the user; case is ignored."""
    name: Label | None = None
    """Name of the user; absent: unchanged."""
    is_admin: StrictFlag | None = None
    """Whether the user is an admin; absent: unchanged, for a new user false."""
    active: StrictFlag | None = None
    """Whether the user's credentials work; absent: unchanged, for a new user true."""
    password: Password | None = None
    """New password for signing in, 8 to 1024 characters; absent: unchanged."""


class AdminUsersUpsertRequest(common.RequestModel):
    """Create or change up to 1000 users; all or none."""

    users: Annotated[list[UserUpsert], Field(min_length=1, max_length=1000)]
    """The users, 1 to 1000."""


class User(common.Versioned):
    """A user of the organization; credentials of inactive users don't work."""

    edited = ("name", "is_admin", "active")

    id: UUID
    email: str
    name: str
    is_admin: bool
    """Whether the user is an admin of the organization."""
    active: bool
    """Whether the user's credentials work."""


class AdminUsersUpsertResponse(common.Tabular):
    """The users, in the order given."""

    users: list[User]
    """The users, in the order given."""


class UserFilters(common.RequestModel):
    """Filters for users. All filters must match; no filter: all users of the organization."""

    query: Label | None = None
    """Part of a name or an email address, in any case."""
    active: StrictFlag | None = None
    """Only active users (true) or only inactive users (false)."""
    is_admin: StrictFlag | None = None
    """Only admins (true) or only users who aren't admins (false)."""
    signed_in: StrictFlag | None = None
    """Only users who have signed in with a browser (true) or never have (false)."""
    in_group: StrictFlag | None = None
    """Only users in a group (true) or in no group (false)."""


class AdminUsersListRequest(UserFilters, common.NarrowedRequest):
    """List users."""


class ListedUser(User):
    """A user, with a summary of their groups and sign-ins."""

    group_count: int
    """Number of groups with the user as a direct member."""
    has_password: bool
    """Whether the user can sign in with a password."""
    has_second_factor: bool = False
    """Whether the user gives a second factor after the password."""
    second_factors: list[common.SecondFactor] = Field(default_factory=list[common.SecondFactor])
    """The user's second factors, oldest first."""
    last_signed_in_at: Instant | None = None
    """When the user last signed in with a browser; absent: never."""
    invited_until: Instant | None = None
    """When the user's open invitation expires; absent: none is open."""


class AdminUsersListResponse(common.PagedResponse):
    """A page of users."""

    users: list[ListedUser]


class GroupUpsert(common.VersionedRequest):
    """A group to create or change; without ids, found by name among the groups without an external id."""

    id: UUID | None = None
    """Id of the group to change; absent: the group is found by `externalId`, else by `name`."""
    name: Label
    external_id: Identifier | None = None
    """Identifier of the group in an outside directory, unique in the organization."""
    members: Members | None = None
    """Direct members, at most 10,000; they replace the current members. Absent: unchanged."""


class AdminGroupsUpsertRequest(common.RequestModel):
    """Create or change up to 1000 groups; all or none."""

    groups: Annotated[list[GroupUpsert], Field(min_length=1, max_length=1000)]
    """The groups, 1 to 1000."""


class Group(common.Versioned):
    """A group; the version changes with the direct members."""

    edited = ("name", "external_id")

    id: UUID
    name: str
    external_id: str | None = None
    """Identifier of the group in an outside directory."""
    member_count: int


class AdminGroupsUpsertResponse(common.Tabular):
    """The groups, in the order given."""

    groups: list[Group]
    """The groups, in the order given."""


class AdminGroupsListRequest(common.NarrowedRequest):
    """List groups."""

    query: Label | None = None


class AdminGroupsListResponse(common.PagedResponse):
    """A page of groups."""

    groups: list[Group]


class _GroupMembersRequest(common.RequestModel):
    group_id: UUID
    members: Annotated[list[common.PrincipalReference], Field(min_length=1, max_length=10_000)]
    """The members, 1 to 10,000."""


class AdminGroupsAddMembersRequest(_GroupMembersRequest):
    """Add members to a group; existing members stay."""


class AdminGroupsRemoveMembersRequest(_GroupMembersRequest):
    """Remove members from a group; other principals are ignored."""


class AdminGroupsAddMembersResponse(common.ResponseModel):
    """How many direct members the group has now."""

    member_count: int


class AdminGroupsRemoveMembersResponse(AdminGroupsAddMembersResponse):
    """How many direct members the group has now."""


class AdminGroupsListMembersRequest(common.PagedRequest):
    """List the direct members of a group."""

    group_id: UUID


class Grant(common.RequestModel):
    """A role for a principal."""

    principal: common.PrincipalReference
    role: common.GrantRole


class AdminGrantsSetRequest(common.VersionedRequest):
    """Replace every grant on a resource (a document, DOCUMENT_COLLECTION or AGENT); its owner stays."""

    resource: common.ResourceReference
    """The document, collection or agent."""
    grants: Annotated[list[Grant], Field(max_length=10_000)]
    """All grants on the resource, at most 10,000."""
    organization_wide: StrictFlag = False
    """Whether every active user may read the resource; default: false."""


class NamedUser(common.ResponseModel):
    """A user, as a holder of a grant or member of a group."""

    type: Literal["user"] = "user"
    email: str
    id: UUID
    name: str


class NamedGroup(common.ResponseModel):
    """A group, as a holder of a grant or member of a group."""

    type: Literal["group"] = "group"
    id: UUID
    name: str


class NamedServiceAccount(common.ResponseModel):
    """A service account, as a holder of a grant or member of a group."""

    type: Literal["serviceAccount"] = "serviceAccount"
    id: UUID
    email: str
    name: str


NamedPrincipal = Annotated[NamedUser | NamedGroup | NamedServiceAccount, Field(discriminator="type")]
"""A principal in admin responses: of three types, like the references of admin requests."""


class AdminGroupsListMembersResponse(common.PagedResponse):
    """A page of members."""

    members: list[NamedPrincipal]
    """The direct members."""


class GrantInfo(common.ResponseModel):
    """A role a principal holds on a resource."""

    principal: NamedPrincipal
    role: common.GrantRole
    given_by: NamedPrincipal | None = None
    """The owner who shared it; absent: an admin or an upload gave the role."""


class ResourceGrants(common.Versioned):
    """A resource with its grants."""

    resource: common.ResourceIdentifier
    grants: list[GrantInfo]
    """The grants on the resource."""
    organization_wide: bool
    """Whether every active user may read the resource."""


class AdminGrantsSetResponse(ResourceGrants):
    """The current grants."""


class AdminGrantsSetManyRequest(common.RequestModel):
    """Replace the grants on up to 1000 resources; all or none."""

    resources: Annotated[list[AdminGrantsSetRequest], Field(min_length=1, max_length=1000)]
    """The resources with grants, 1 to 1000, without repetition."""


class AdminGrantsSetManyResponse(common.ResponseModel):
    """Number of resources changed."""

    resource_count: int
    """Number of resources with replaced grants."""


class AdminGrantsListRequest(common.PagedRequest):
    """List the grants on a resource."""

    resource: common.ResourceReference


class AdminGrantsListResponse(common.PagedResponse, ResourceGrants):
    """A page of the grants on a resource."""


_ACCESS = NOT_FOUND | CONFIRMED
ADMIN_USERS_UPSERT = ApiOperation(
    "admin/users/upsert", AdminUsersUpsertRequest, AdminUsersUpsertResponse, ADMIN, CONFLICT | CONFIRMED
)
"""Create or change up to 1000 users, found by email; all or none. An inactive user's credentials stop at once.
A user is `{"email": …}` with any of `name`, `is_admin`, `active`, `password`; omitted values stay."""
ADMIN_USERS_LIST = ApiOperation("admin/users/list", AdminUsersListRequest, AdminUsersListResponse, ADMIN)
"""List the users: all, or those with the given `ids` (at most 1000) or matching `UserFilters`."""
ADMIN_GROUPS_UPSERT = ApiOperation(
    "admin/groups/upsert", AdminGroupsUpsertRequest, AdminGroupsUpsertResponse, ADMIN, KEYED | CONFLICT | _ACCESS
)
"""Create or change up to 1000 groups, found by `id`, else by `external_id`; all or none. A group is `{"name":
…}` with any of `id`, `external_id`, `members`; the given members replace all current members."""
ADMIN_GROUPS_LIST = ApiOperation("admin/groups/list", AdminGroupsListRequest, AdminGroupsListResponse, ADMIN)
"""List the groups, or only those with the given `ids` (at most 1000); `query` is part of a name."""
ADMIN_GROUPS_LIST_MEMBERS = ApiOperation(
    "admin/groups/listMembers", AdminGroupsListMembersRequest, AdminGroupsListMembersResponse, ADMIN, NOT_FOUND
)
"""Walk the direct members of a group: users, groups and service accounts."""
ADMIN_GROUPS_ADD_MEMBERS = ApiOperation(
    "admin/groups/addMembers", AdminGroupsAddMembersRequest, AdminGroupsAddMembersResponse, ADMIN, _ACCESS
)
"""Add members to a group; existing members stay."""
ADMIN_GROUPS_REMOVE_MEMBERS = ApiOperation(
    "admin/groups/removeMembers", AdminGroupsRemoveMembersRequest, AdminGroupsRemoveMembersResponse, ADMIN, _ACCESS
)
"""Remove members from a group; other principals are ignored."""
ADMIN_GRANTS_SET = ApiOperation(
    "admin/grants/set", AdminGrantsSetRequest, AdminGrantsSetResponse, ADMIN, CONFLICT | _ACCESS
)
"""Replace every grant on a resource; its owner stays. `organization_wide`: every active user may read it."""
ADMIN_GRANTS_SET_MANY = ApiOperation(
    "admin/grants/setMany", AdminGrantsSetManyRequest, AdminGrantsSetManyResponse, ADMIN, CONFLICT | _ACCESS
)
"""Replace the grants on up to 1000 resources, each with the arguments of `set`; all or none."""
ADMIN_GRANTS_LIST = ApiOperation("admin/grants/list", AdminGrantsListRequest, AdminGrantsListResponse, ADMIN, NOT_FOUND)
"""List the grants on a resource; each page also says whether the resource is organization-wide."""
