"""The current organization. The number of requests grows with pages and groups, not with people."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar
from uuid import UUID

from carrel._calls import Call, Connection, perform
from carrel._drivers import Flow
from carrel._pages import Listing, fetch
from carrel.directory.progress import OnProgress, Progress
from carrel.directory.tables import Entries
from carrel.wire import admin as wire
from carrel.wire.api_keys import ADMIN_API_KEYS_LIST, AdminApiKeysListRequest, CredentialStatus
from carrel.wire.common import PagedResponse, ResponseModel
from carrel.wire.fields import normal_email
from carrel.wire.organization import ADMIN_ORGANIZATION_GET, AdminOrganizationGetRequest
from carrel.wire.service_accounts import ADMIN_SERVICE_ACCOUNTS_LIST, AdminServiceAccountsListRequest

Item = TypeVar("Item", bound=ResponseModel)
Page = TypeVar("Page", bound=PagedResponse)

Members = dict[UUID, Sequence[wire.NamedPrincipal]]

PAGE = 1000
HINT_LENGTH = 4


@dataclass(slots=True)
class State:
    """The organization's users by address, and the groups read. `callers`: possible callers (None: unknown)."""

    organization_id: UUID | None = None
    users: Mapping[str, wire.User] = field(default_factory=dict[str, wire.User])
    groups: Sequence[wire.Group] = ()
    members: Members = field(default_factory=Members)
    callers: frozenset[str] | None = None
    service_accounts: frozenset[str] = frozenset()

    def may_be_caller(self, user: wire.User) -> bool:
        """Return whether a user may be the caller: in `callers`, or an active admin if `callers` is unknown."""
        if self.callers is None:
            return user.is_admin and user.active
        return normal_email(user.email) in self.callers


def read_organization(connection: Connection) -> Flow[UUID]:
    """Read the id of the organization."""
    call = Call(ADMIN_ORGANIZATION_GET, AdminOrganizationGetRequest())
    return (yield from perform(call, connection)).parsed.organization_id


def read_users(connection: Connection, progress: OnProgress) -> Flow[dict[str, wire.User]]:
    """Read the users, by address."""
    listing = Listing(wire.ADMIN_USERS_LIST, wire.AdminUsersListRequest(page_size=PAGE), lambda page: page.users)
    users = yield from _walk(listing, connection, lambda done: progress(Progress("reading users", done, None)))
    return {normal_email(user.email): user for user in users}


def read_groups(connection: Connection, progress: OnProgress) -> Flow[list[wire.Group]]:
    """Read the groups."""
    listing = Listing(wire.ADMIN_GROUPS_LIST, wire.AdminGroupsListRequest(page_size=PAGE), lambda page: page.groups)
    return (yield from _walk(listing, connection, lambda done: progress(Progress("reading groups", done, None))))


def read_members(groups: Iterable[wire.Group], connection: Connection, progress: OnProgress) -> Flow[Members]:
    """Read the direct members of groups; empty groups need no request."""
    peopled = [group for group in groups if group.member_count]
    total, done = sum(group.member_count for group in peopled), 0
    members: Members = {}
    for group in peopled:
        listing = Listing(
            wire.ADMIN_GROUPS_LIST_MEMBERS,
            wire.AdminGroupsListMembersRequest(group_id=group.id, page_size=PAGE),
            lambda page: page.members,
        )
        members[group.id] = yield from _walk(listing, connection)
        done += len(members[group.id])
        progress(Progress("reading members", done, max(total, done)))
    return members


def read_callers(connection: Connection) -> Flow[frozenset[str] | None]:
    """Read the addresses of the credential's possible owners, by the end of working API keys; None if no key fits."""
    listing = Listing(ADMIN_API_KEYS_LIST, AdminApiKeysListRequest(page_size=PAGE), lambda page: page.api_keys)
    hint = connection.headers["Authorization"][-HINT_LENGTH:]
    keys = yield from _walk(listing, connection)
    alike = [key for key in keys if key.hint == hint and key.status is CredentialStatus.ACTIVE]
    return frozenset(normal_email(key.owner_email) for key in alike) or None


def read_service_accounts(connection: Connection) -> Flow[frozenset[str]]:
    """Read the addresses of service accounts."""
    request = AdminServiceAccountsListRequest(page_size=PAGE)
    listing = Listing(ADMIN_SERVICE_ACCOUNTS_LIST, request, lambda page: page.service_accounts)
    accounts = yield from _walk(listing, connection)
    return frozenset(normal_email(account.email) for account in accounts)


def has_unknown_addresses(entries: Entries, users: Mapping[str, wire.User]) -> bool:
    """Return whether an address in the files belongs to no user yet, so may belong to a service account."""
    named = [*(entries.users or ()), *(normal_email(entry.member) for entry in entries.memberships or ())]
    return any("@" in name and name not in users for name in named)


def affects_an_admin(entries: Entries, users: Mapping[str, wire.User]) -> bool:
    """Return whether a row takes access or a role from an active admin, who may be the caller."""
    for email, entry in (entries.users or {}).items():
        user = users.get(email)
        if user and user.is_admin and user.active and (entry.is_admin is False or entry.active is False):
            return True
    return False


def _walk(
    listing: Listing[Item, Page], connection: Connection, heard: Callable[[int], None] | None = None
) -> Flow[list[Item]]:
    items: list[Item] = []
    rest: Listing[Item, Page] | None = listing
    while rest is not None:
        page = yield from fetch(rest, connection)
        items += listing.items(page)
        if heard is not None:
            heard(len(items))
        rest = rest.after(page)
    return items
