"""admin/users, admin/groups: invitations, memberships, and effects of deleting groups; extensions, for admins."""

from datetime import timedelta
from typing import Annotated
from uuid import UUID

from pydantic import Field

from carrel.wire.access import ResourceCount
from carrel.wire.admin import Group, NamedGroup, NamedPrincipal, UserFilters
from carrel.wire.common import PagedRequest, PagedResponse, Principal, PrincipalReference, RequestModel, ResponseModel
from carrel.wire.fields import EmailAddress, Instant
from carrel.wire.operations import ADMIN, CONFIRMED, CONFLICT, KEYED, NOT_FOUND, SECRET, ApiOperation

INVITATION_LIFETIME = timedelta(days=7)


class AdminUsersCountRequest(UserFilters):
    """Count the users of `admin/users/list`."""


class AdminUsersCountResponse(ResponseModel):
    """Number of users."""

    count: int
    """Number of users."""


class AdminUsersInviteRequest(RequestModel):
    """Create an invitation, ending the earlier: a URL for a user to set a password, once, within 7 days."""

    email: EmailAddress
    """Email address of an active user."""


class AdminUsersInviteResponse(ResponseModel):
    """The new invitation."""

    url: str = Field(repr=False)
    """URL for setting a password; shown only once."""
    expires_at: Instant
    """When the invitation ends."""


class AdminGroupsListMembershipsRequest(PagedRequest):
    """List the groups of a user, group or service account, direct or nested."""

    member: PrincipalReference
    """The user, group or service account."""


class GroupMembership(Group):
    """A group of a principal."""

    direct: bool
    """Whether the principal is a direct member."""
    through: list[NamedGroup]
    """Groups through which the principal is a member."""


class AdminGroupsListMembershipsResponse(PagedResponse):
    """A page of memberships."""

    memberships: list[GroupMembership]
    """The groups, each once."""


class AdminUsersResetSecondFactorRequest(RequestModel):
    """Remove all second factors and recovery codes of a user who has lost them."""

    email: EmailAddress
    """Email address of the user."""


class AdminUsersResetSecondFactorResponse(ResponseModel):
    """How many second factors the user had."""

    removed_count: int
    """Number of removed second factors, without recovery codes."""


class AdminGroupsPreviewLossesRequest(RequestModel):
    """Preview who would lose access without a group, or without some of its members."""

    group_id: UUID
    members: Annotated[list[PrincipalReference] | None, Field(min_length=1, max_length=1000)] = None
    """Members to remove, 1 to 1000; absent: delete the group."""


class Loss(ResponseModel):
    """Resources that a principal would no longer be able to read."""

    principal: NamedPrincipal
    """The user or service account."""
    counts: list[ResourceCount]
    """A count for each existing type of resource, ordered by type."""


class AdminGroupsPreviewLossesResponse(ResponseModel):
    """The principals who would lose access, at present."""

    person_count: int
    """Number of active users and service accounts in the group, or in the group through these members."""
    losses: list[Loss]
    """Losses of the first 100 principals."""
    complete: bool
    """Whether all principals were examined."""


class AdminGroupsDeleteRequest(RequestModel):
    """Delete a group: its members immediately lose access granted only through the group."""

    group_id: UUID
    for_good: bool | None = None
    """Whether to delete the group for good, also from the trash; default: no."""


class AdminGroupsDeleteResponse(ResponseModel):
    """Effects of deleting the group."""

    group_id: UUID
    member_count: int
    """Number of direct members."""
    resource_count: int
    """Number of resources granted to the group."""


class AdminGroupsListTrashedRequest(PagedRequest):
    """List the deleted groups that can be restored."""


class TrashedGroup(AdminGroupsDeleteResponse):
    """A deleted group that can be restored, with the facts at the deletion."""

    name: str
    external_id: str | None = None
    """Identifier of the group in an outside directory."""
    deleted_at: Instant
    """When the group was deleted."""
    deleted_by: Principal | None = None
    """Person or service account that deleted the group; absent: an identity provider (SCIM)."""
    kept_until: Instant
    """When the group is deleted for good."""


class AdminGroupsListTrashedResponse(PagedResponse):
    """A page of deleted groups."""

    groups: list[TrashedGroup]
    """The groups, ordered by id."""


class AdminGroupsRestoreRequest(RequestModel):
    """Restore a deleted group."""

    group_id: UUID


class AdminGroupsRestoreResponse(AdminGroupsDeleteResponse):
    """The restored group, with its present numbers of members and grants."""


ADMIN_USERS_COUNT = ApiOperation("admin/users/count", AdminUsersCountRequest, AdminUsersCountResponse, ADMIN)
"""Count the users of `list` with the same filters."""
ADMIN_USERS_INVITE = ApiOperation(
    "admin/users/invite", AdminUsersInviteRequest, AdminUsersInviteResponse, ADMIN, KEYED | SECRET | CONFIRMED
)
"""Create an invitation: the user sets a password at `url`, once, within 7 days; the URL is shown only once. An
earlier invitation of the user ends. Treat the URL like a password."""
ADMIN_USERS_RESET_SECOND_FACTOR = ApiOperation(
    "admin/users/resetSecondFactor",
    AdminUsersResetSecondFactorRequest,
    AdminUsersResetSecondFactorResponse,
    ADMIN,
    CONFIRMED,
)
"""Remove all second factors and recovery codes of a user who has lost them. If the organization requires a
second factor, the user sets up a new factor at the next sign-in with a password."""
ADMIN_GROUPS_LIST_MEMBERSHIPS = ApiOperation(
    "admin/groups/listMemberships", AdminGroupsListMembershipsRequest, AdminGroupsListMembershipsResponse, ADMIN
)
"""List the groups of a user, group or service account, direct or nested."""
ADMIN_GROUPS_PREVIEW_LOSSES = ApiOperation(
    "admin/groups/previewLosses",
    AdminGroupsPreviewLossesRequest,
    AdminGroupsPreviewLossesResponse,
    ADMIN,
    NOT_FOUND,
    by_position=("group_id", "members"),
)
"""Preview who would lose access without these members in a group or, without `members`, without the group."""
ADMIN_GROUPS_DELETE = ApiOperation(
    "admin/groups/delete", AdminGroupsDeleteRequest, AdminGroupsDeleteResponse, ADMIN, KEYED | NOT_FOUND | CONFIRMED
)
"""Delete a group. The members immediately lose access granted only through the group. `restore` can restore the
group while the trash keeps a copy. The next directory import with the group creates a new group without
grants."""
ADMIN_GROUPS_LIST_TRASHED = ApiOperation(
    "admin/groups/listTrashed", AdminGroupsListTrashedRequest, AdminGroupsListTrashedResponse, ADMIN
)
"""List the deleted groups that can be restored, ordered by id."""
ADMIN_GROUPS_RESTORE = ApiOperation(
    "admin/groups/restore",
    AdminGroupsRestoreRequest,
    AdminGroupsRestoreResponse,
    ADMIN,
    KEYED | NOT_FOUND | CONFLICT | CONFIRMED,
)
"""Restore a deleted group with its id, and the members, parent groups and grants that are left.

Does not restore people who left since, members whom a sign-in provider added, and grants on resources that
were deleted or got other access. Raises ConflictError `group_name_taken` if another group has the group's
external id, or, without an external id, its name."""
