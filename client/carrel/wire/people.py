"""admin/users, admin/groups: invitations, memberships, and what ends with a group; extensions, for admins."""

from datetime import timedelta
from typing import Annotated
from uuid import UUID

from pydantic import Field

from carrel.wire.access import ResourceCount
from carrel.wire.admin import Group, NamedGroup, NamedPrincipal, UserFilters
from carrel.wire.common import PagedRequest, PagedResponse, PrincipalReference, RequestModel, ResponseModel
from carrel.wire.fields import EmailAddress, Instant
from carrel.wire.operations import ADMIN, CONFIRMED, KEYED, NOT_FOUND, SECRET, ApiOperation

INVITATION_LIFETIME = timedelta(days=7)


class AdminUsersCountRequest(UserFilters):
    """Count what `admin/users/list` lists."""


class AdminUsersCountResponse(ResponseModel):
    """How many users there are."""

    count: int
    """Number of users."""


class AdminUsersInviteRequest(RequestModel):
    """Make an invitation for a user: an address at which they set a password, once, within 7 days.

    It ends the invitation that the user had."""

    email: EmailAddress
    """Email address of an active user."""


class AdminUsersInviteResponse(ResponseModel):
    """The new invitation."""

    url: str = Field(repr=False)
    """Address at which the user sets a password; shown this once."""
    expires_at: Instant
    """When the invitation ends."""


class AdminGroupsListMembershipsRequest(PagedRequest):
    """List the groups that a user, group or service account is in, directly or through other groups."""

    member: PrincipalReference
    """The user, group or service account."""


class GroupMembership(Group):
    """A group that somebody is in."""

    direct: bool
    """Whether the group lists them as a member itself."""
    through: list[NamedGroup]
    """Their groups that are members of this one: how they come to be in it."""


class AdminGroupsListMembershipsResponse(PagedResponse):
    """One page of memberships."""

    memberships: list[GroupMembership]
    """The groups, each once."""


class AdminUsersResetSecondFactorRequest(RequestModel):
    """Take all second factors and recovery codes of a user away, who has lost them."""

    email: EmailAddress
    """Email address of the user."""


class AdminUsersResetSecondFactorResponse(ResponseModel):
    """How many second factors the user had."""

    removed_count: int
    """Number of second factors that were taken away; recovery codes are not counted."""


class AdminGroupsPreviewLossesRequest(RequestModel):
    """Ask who would read less without a group, or without some of its members being in it."""

    group_id: UUID
    members: Annotated[list[PrincipalReference] | None, Field(min_length=1, max_length=1000)] = None
    """Members that would be removed, 1 to 1000; absent: the group would be deleted."""


class Loss(ResponseModel):
    """What somebody could not read any more."""

    principal: NamedPrincipal
    """The user or service account."""
    counts: list[ResourceCount]
    """A count for each type of resource that there is any of, ordered by type."""


class AdminGroupsPreviewLossesResponse(ResponseModel):
    """Who would read less, as things are now."""

    person_count: int
    """Number of active users and service accounts who are in the group, or in it through these members."""
    losses: list[Loss]
    """Those of the first 100 of them who would read less."""
    complete: bool
    """Whether all of them were looked at."""


class AdminGroupsDeleteRequest(RequestModel):
    """Delete a group: its members stop reading at once what only it opened to them."""

    group_id: UUID


class AdminGroupsDeleteResponse(ResponseModel):
    """What went with the group."""

    group_id: UUID
    member_count: int
    """Number of direct members that it had."""
    resource_count: int
    """Number of resources that were granted to it."""


ADMIN_USERS_COUNT = ApiOperation("admin/users/count", AdminUsersCountRequest, AdminUsersCountResponse, ADMIN)
"""Count the users that `list` walks with the same filters."""
ADMIN_USERS_INVITE = ApiOperation(
    "admin/users/invite", AdminUsersInviteRequest, AdminUsersInviteResponse, ADMIN, KEYED | SECRET | CONFIRMED
)
"""Make an invitation: `url` is where the user sets a password, once, within 7 days; it is shown this once.

It ends the invitation that the user had. Send it as you would send a password."""
ADMIN_USERS_RESET_SECOND_FACTOR = ApiOperation(
    "admin/users/resetSecondFactor",
    AdminUsersResetSecondFactorRequest,
    AdminUsersResetSecondFactorResponse,
    ADMIN,
    CONFIRMED,
)
"""Take all second factors and recovery codes of a user away, who has lost them.

If the organization demands a second factor of them, they set one up when they next sign in with their password."""
ADMIN_GROUPS_LIST_MEMBERSHIPS = ApiOperation(
    "admin/groups/listMemberships", AdminGroupsListMembershipsRequest, AdminGroupsListMembershipsResponse, ADMIN
)
"""Walk the groups that a user, group or service account is in, directly or through other groups."""
ADMIN_GROUPS_PREVIEW_LOSSES = ApiOperation(
    "admin/groups/previewLosses",
    AdminGroupsPreviewLossesRequest,
    AdminGroupsPreviewLossesResponse,
    ADMIN,
    NOT_FOUND,
    by_position=("group_id", "members"),
)
"""Tell who would read less without these members being in a group, or, without `members`, without the group."""
ADMIN_GROUPS_DELETE = ApiOperation(
    "admin/groups/delete", AdminGroupsDeleteRequest, AdminGroupsDeleteResponse, ADMIN, KEYED | NOT_FOUND | CONFIRMED
)
"""Delete a group: its members stop reading at once what only it opened to them.

The next import of a directory that has the group makes it again, without what it was granted."""
