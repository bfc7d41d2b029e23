"""admin/users, admin/groups: invitations, memberships, and what ends with a group; extensions, for admins."""

from datetime import timedelta
from typing import ClassVar

from pydantic import Field

from carrel.wire.admin import Group, NamedGroup, UserFilters
from carrel.wire.common import PagedRequest, PagedResponse, PrincipalReference, RequestModel, ResponseModel
from carrel.wire.fields import EmailAddress, Instant
from carrel.wire.operations import ADMIN, KEYED, SECRET, ApiOperation

INVITATION_LIFETIME = timedelta(days=7)


class AdminUsersCountRequest(UserFilters):
    """Count what `admin/users/list` lists."""


class AdminUsersCountResponse(ResponseModel):
    """How many users there are."""

    count: int
    """Number of users."""


class AdminUsersInviteRequest(RequestModel):
    """Make an invitation for a user: an address at which they set a password, once, within 7 days.

    It ends the invitation that the user had.
    """

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

    rows_in: ClassVar[str] = "memberships"
    memberships: list[GroupMembership]
    """The groups, each once."""


ADMIN_USERS_COUNT = ApiOperation("admin/users/count", AdminUsersCountRequest, AdminUsersCountResponse, ADMIN)
ADMIN_USERS_INVITE = ApiOperation(
    "admin/users/invite", AdminUsersInviteRequest, AdminUsersInviteResponse, ADMIN, KEYED | SECRET
)
ADMIN_GROUPS_LIST_MEMBERSHIPS = ApiOperation(
    "admin/groups/listMemberships", AdminGroupsListMembershipsRequest, AdminGroupsListMembershipsResponse, ADMIN
)
