"""admin/users, admin/groups, admin/grants: the people of an organization and what they are granted."""

from collections.abc import Sequence
from typing import TypedDict, TypeVar, Unpack, cast
from uuid import UUID

from carrel._calls import Call
from carrel._operations import ListOperation, Operation, Raw, Resource
from carrel._pages import Listing
from carrel.resources._arguments import Id, Members, as_any, as_list
from carrel.resources.permissions import reference_to
from carrel.wire import admin as wire
from carrel.wire import owners, people
from carrel.wire.common import PrincipalReference, ResourceIdentifier, ResourceReference

M = TypeVar("M")


class UserFilters(TypedDict, total=False):
    """Filters on users; filters narrow together, and one that is None narrows nothing.

    `query` is part of a name or an address. `active`, `is_admin`, `signed_in` (ever, with a browser) and `in_group`
    (any) leave those of whom that is true, or with False those of whom it isn't.
    """

    query: str | None
    active: bool | None
    is_admin: bool | None
    signed_in: bool | None
    in_group: bool | None


class Users(Resource[M]):
    """The organization's users."""

    @property
    def with_raw_response(self) -> "Users[Raw[M]]":
        """The operations of the resource, returning the whole HTTP answer (`.headers`, `.request_id`, `.parsed`)."""
        return Users(self._session.as_raw())

    @Operation
    def upsert(self, users: Sequence[wire.UserUpsert | Members]) -> Call[wire.AdminUsersUpsertResponse]:
        """Create or change up to 1000 users, found by email; all or none. An inactive user's credentials stop at once.

        A user is `{"email": …}` with any of `name`, `is_admin`, `active`, `password`; what is left out stays.
        """
        request = wire.AdminUsersUpsertRequest(users=as_list(wire.UserUpsert, users))
        return Call(wire.ADMIN_USERS_UPSERT, request)

    @ListOperation
    def list(
        self,
        *,
        ids: Sequence[Id] | None = None,
        page_size: int = 100,
        page_token: str | None = None,
        **filters: Unpack[UserFilters],
    ) -> Listing[wire.ListedUser, wire.AdminUsersListResponse]:
        """Walk the users: all, unless `ids` (at most 1000) or `UserFilters` narrow them."""
        request = wire.AdminUsersListRequest(
            **filters, ids=as_list(UUID, ids), page_size=page_size, page_token=page_token
        )
        return Listing(wire.ADMIN_USERS_LIST, request, lambda page: page.users)

    @Operation
    def plan_offboarding(
        self, email: str, *, new_owner: PrincipalReference | Members | None = None
    ) -> Call[owners.AdminUsersPlanOffboardingResponse]:
        """Say what `offboard` would end and hand over, and what nobody else may read; nothing is changed."""
        request = owners.AdminUsersPlanOffboardingRequest(
            email=email, new_owner=cast("PrincipalReference | None", new_owner)
        )
        return Call(owners.ADMIN_USERS_PLAN_OFFBOARDING, request)

    @Operation
    def offboard(
        self, email: str, *, new_owner: PrincipalReference | Members | None = None
    ) -> Call[owners.AdminUsersOffboardResponse]:
        """End all access of a user at once, then give what they own to `new_owner`, which may be left out if nothing.

        Deactivates them, revokes their API keys and the tokens of applications, signs their browsers out, and takes
        them out of their groups. While `remaining` of the answer has any, call it again; it is harmless to repeat.
        """
        request = owners.AdminUsersOffboardRequest(email=email, new_owner=cast("PrincipalReference | None", new_owner))
        return Call(owners.ADMIN_USERS_OFFBOARD, request)

    @Operation
    def invite(self, email: str) -> Call[people.AdminUsersInviteResponse]:
        """Make an invitation: `url` is where the user sets a password, once, within 7 days; it is shown this once.

        It ends the invitation that the user had. Send it as you would send a password.
        """
        return Call(people.ADMIN_USERS_INVITE, people.AdminUsersInviteRequest(email=email))

    @Operation
    def reset_second_factor(self, email: str) -> Call[people.AdminUsersResetSecondFactorResponse]:
        """Take all second factors and recovery codes of a user away, who has lost them.

        If the organization demands a second factor of them, they set one up when they next sign in with their password.
        """
        request = people.AdminUsersResetSecondFactorRequest(email=email)
        return Call(people.ADMIN_USERS_RESET_SECOND_FACTOR, request)

    @Operation
    def count(self, **filters: Unpack[UserFilters]) -> Call[people.AdminUsersCountResponse]:
        """Count the users that `list` walks with the same filters."""
        return Call(people.ADMIN_USERS_COUNT, people.AdminUsersCountRequest(**filters))


class Groups(Resource[M]):
    """Groups of users, service accounts and other groups; a cycle of groups is harmless.

    A member is `{"type": "user", "email": …}`, `{"type": "group", "id": …}` or `{"type": "serviceAccount", "id": …}`.
    """

    @property
    def with_raw_response(self) -> "Groups[Raw[M]]":
        """The operations of the resource, returning the whole HTTP answer (`.headers`, `.request_id`, `.parsed`)."""
        return Groups(self._session.as_raw())

    @Operation
    def upsert(self, groups: Sequence[wire.GroupUpsert | Members]) -> Call[wire.AdminGroupsUpsertResponse]:
        """Create or change up to 1000 groups, found by `id`, else by `external_id`; all or none.

        A group is `{"name": …}` with any of `id`, `external_id`, `members`; members given replace those it has.
        """
        request = wire.AdminGroupsUpsertRequest(groups=as_list(wire.GroupUpsert, groups))
        return Call(wire.ADMIN_GROUPS_UPSERT, request)

    @ListOperation
    def list(
        self,
        *,
        query: str | None = None,
        ids: Sequence[Id] | None = None,
        page_size: int = 100,
        page_token: str | None = None,
    ) -> Listing[wire.Group, wire.AdminGroupsListResponse]:
        """Walk the groups, those of `ids` (at most 1000) if they are given; `query` is part of a name."""
        request = wire.AdminGroupsListRequest(
            query=query, ids=as_list(UUID, ids), page_size=page_size, page_token=page_token
        )
        return Listing(wire.ADMIN_GROUPS_LIST, request, lambda page: page.groups)

    @ListOperation
    def list_members(
        self, group_id: Id, *, page_size: int = 100, page_token: str | None = None
    ) -> Listing[wire.NamedPrincipal, wire.AdminGroupsListMembersResponse]:
        """Walk the direct members of a group: users, groups and service accounts."""
        request = wire.AdminGroupsListMembersRequest(
            group_id=as_any(UUID, group_id), page_size=page_size, page_token=page_token
        )
        return Listing(wire.ADMIN_GROUPS_LIST_MEMBERS, request, lambda page: page.members)

    @ListOperation
    def list_memberships(
        self, member: PrincipalReference | Members, *, page_size: int = 100, page_token: str | None = None
    ) -> Listing[people.GroupMembership, people.AdminGroupsListMembershipsResponse]:
        """Walk the groups that a user, group or service account is in, directly or through other groups."""
        request = people.AdminGroupsListMembershipsRequest(
            member=cast("PrincipalReference", member), page_size=page_size, page_token=page_token
        )
        return Listing(people.ADMIN_GROUPS_LIST_MEMBERSHIPS, request, lambda page: page.memberships)

    @Operation
    def add_members(
        self, group_id: Id, members: Sequence[PrincipalReference | Members]
    ) -> Call[wire.AdminGroupsAddMembersResponse]:
        """Add members to a group; those in it already stay."""
        request = wire.AdminGroupsAddMembersRequest(
            group_id=as_any(UUID, group_id), members=as_any(list[PrincipalReference], [*members])
        )
        return Call(wire.ADMIN_GROUPS_ADD_MEMBERS, request)

    @Operation
    def remove_members(
        self, group_id: Id, members: Sequence[PrincipalReference | Members]
    ) -> Call[wire.AdminGroupsRemoveMembersResponse]:
        """Remove members from a group; those not in it are passed over."""
        request = wire.AdminGroupsRemoveMembersRequest(
            group_id=as_any(UUID, group_id), members=as_any(list[PrincipalReference], [*members])
        )
        return Call(wire.ADMIN_GROUPS_REMOVE_MEMBERS, request)

    @Operation
    def preview_losses(
        self, group_id: Id, members: Sequence[PrincipalReference | Members] | None = None
    ) -> Call[people.AdminGroupsPreviewLossesResponse]:
        """Tell who would read less without these members being in a group, or, without `members`, without the group."""
        request = people.AdminGroupsPreviewLossesRequest(
            group_id=as_any(UUID, group_id),
            members=None if members is None else as_any(list[PrincipalReference], [*members]),
        )
        return Call(people.ADMIN_GROUPS_PREVIEW_LOSSES, request)

    @Operation
    def delete(self, group_id: Id) -> Call[people.AdminGroupsDeleteResponse]:
        """Delete a group: its members stop reading at once what only it opened to them.

        The next import of a directory that has the group makes it again, without what it was granted.
        """
        return Call(people.ADMIN_GROUPS_DELETE, people.AdminGroupsDeleteRequest(group_id=as_any(UUID, group_id)))


class Grants(Resource[M]):
    """Grants: the roles that principals hold on a document, collection or agent.

    A grant is `{"principal": …, "role": "VIEWER" or "EDITOR"}`, its principal as a group's member.
    """

    @property
    def with_raw_response(self) -> "Grants[Raw[M]]":
        """The operations of the resource, returning the whole HTTP answer (`.headers`, `.request_id`, `.parsed`)."""
        return Grants(self._session.as_raw())

    @Operation
    def set(
        self,
        resource: ResourceReference | ResourceIdentifier | Members,
        grants: Sequence[wire.Grant | Members],
        *,
        organization_wide: bool = False,
    ) -> Call[wire.AdminGrantsSetResponse]:
        """Replace every grant on a resource; its owner stays. `organization_wide`: every active user may read it."""
        request = wire.AdminGrantsSetRequest(
            resource=reference_to(resource), grants=as_list(wire.Grant, grants), organization_wide=organization_wide
        )
        return Call(wire.ADMIN_GRANTS_SET, request)

    @Operation
    def set_many(
        self, resources: Sequence[wire.AdminGrantsSetRequest | Members]
    ) -> Call[wire.AdminGrantsSetManyResponse]:
        """Replace the grants on up to 1000 resources, each given with what `set` takes; all or none."""
        request = wire.AdminGrantsSetManyRequest(resources=as_list(wire.AdminGrantsSetRequest, resources))
        return Call(wire.ADMIN_GRANTS_SET_MANY, request)

    @ListOperation
    def list(
        self,
        resource: ResourceReference | ResourceIdentifier | Members,
        *,
        page_size: int = 100,
        page_token: str | None = None,
    ) -> Listing[wire.GrantInfo, wire.AdminGrantsListResponse]:
        """Walk the grants on a resource; its pages also tell whether it is organization-wide."""
        request = wire.AdminGrantsListRequest(
            resource=reference_to(resource), page_size=page_size, page_token=page_token
        )
        return Listing(wire.ADMIN_GRANTS_LIST, request, lambda page: page.grants)
