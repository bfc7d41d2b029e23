"""The SCIM library's storage of people and groups, in a thread. A write locks the organization first."""

import hashlib
import json
from collections.abc import Awaitable, Callable
from itertools import accumulate
from typing import Any, Concatenate, ParamSpec, TypeVar, cast
from uuid import UUID

import scim2_models as scim
from anyio import from_thread
from scim2_models.path import FilterNode
from scim2_server.storage import ScimStorage, SearchPage
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from service.domains.people.scim import groups, queries, users
from service.domains.people.scim.models import MOST_MEMBERS, MOST_RESULTS, Group, Member, User, to_condition
from service.domains.people.scim.queries import ScimCaller, Search, StoredGroup, StoredMember, StoredUser
from service.identity import queries as direct
from service.identity.queries import lock_organization
from service.platform.identifiers import to_uuid

KINDS = {"user": "User", "group": "Group"}
Given = ParamSpec("Given")
Found = TypeVar("Found")


class Storage(ScimStorage):
    """The people and groups of a token's organization."""

    def __init__(self, connection: Connection, caller: ScimCaller, *, writes: bool, trash_days: int) -> None:
        self._connection = connection
        self._caller = caller
        self._is_to_lock = writes
        self._trash_days = trash_days

    def get(
        self,
        resource_type: scim.ResourceType,
        resource_id: str,
        *,
        response_parameters: scim.ResponseParameters[Any] | None = None,
    ) -> scim.Resource[Any]:
        """Return a person or a group. Members of a group are left out if the answer omits them."""
        if resource_type.name == "User":
            return _to_user(self._require_user(resource_id))
        return self._with_members([self._require_group(resource_id)], response_parameters)[0]

    def search(
        self, resource_types: list[scim.ResourceType], search_request: scim.SearchRequest[Any], *, position: Any = None
    ) -> SearchPage:
        """Return a page and the total, people before groups. A page ends early to limit the number of members."""
        del position  # there are no cursors
        total, found = 0, list[scim.Resource[Any]]()
        start = search_request.start_index_0 or 0
        count = MOST_RESULTS if search_request.count is None else search_request.count
        for kind in sorted(resource_type.name or "" for resource_type in resource_types)[::-1]:
            search = _to_search(search_request, offset=max(start - total, 0), limit=count - len(found))
            if kind == "User":
                number, people = self._ask(queries.search_users, search=search)
                found += map(_to_user, people)
            else:
                number, rows = self._ask(queries.search_groups, search=search)
                found += self._with_members(self._cut(rows, search_request), search_request)
            total += number
        return SearchPage(total, found)

    def create(self, resource_type: scim.ResourceType, resource: scim.Resource[Any]) -> scim.Resource[Any]:
        if isinstance(resource, User):
            created = self._change(users.create_user, resource)
        else:
            created = self._change(groups.create_group, cast("Group", resource))
        return self.get(resource_type, str(created))

    def update(
        self, resource_type: scim.ResourceType, resource: scim.Resource[Any], *, expected_version: str | None = None
    ) -> scim.Resource[Any]:
        resource_id = resource.id or ""
        if isinstance(resource, User):
            self._change(users.change_user, self._require_user(resource_id, expected_version), resource)
        else:
            group = self._require_group(resource_id, expected_version)
            self._change(groups.change_group, group, cast("Group", resource))
        return self.get(resource_type, resource_id)

    def delete(
        self, resource_type: scim.ResourceType, resource_id: str, *, expected_version: str | None = None
    ) -> None:
        """Delete a group, or end all access of a person and hide the person."""
        if resource_type.name == "User":
            self._change(users.delete_user, self._require_user(resource_id, expected_version))
        else:
            group = self._require_group(resource_id, expected_version)
            self._change(groups.delete_group, group, trash_days=self._trash_days)

    def change_members(self, resource_id: str, *, added: set[UUID], removed: set[UUID]) -> None:
        if added or removed:
            group_id = self._require_group(resource_id).principal_id
            self._change(groups.change_members, group_id=group_id, added=added, removed=removed)

    def get_bare_group(self, resource_id: str) -> scim.Resource[Any]:
        """Return a group with its version, without reading the members."""
        return _to_group(self._require_group(resource_id), members=None)

    def _require_user(self, resource_id: str, expected_version: str | None = None) -> StoredUser:
        user_id = to_uuid(resource_id)
        found = None if user_id is None else self._ask(queries.find_visible_user, user_id=user_id)
        if found is None:
            raise scim.NotFoundException(detail="There is no User with this id. Find the User with a filter.")
        _require_version(user_version(found), expected_version)
        return found

    def _require_group(self, resource_id: str, expected_version: str | None = None) -> StoredGroup:
        group_id = to_uuid(resource_id)
        found = None if group_id is None else self._ask(queries.find_group, group_id=group_id)
        if found is None:
            raise scim.NotFoundException(detail="There is no Group with this id. Find the Group with a filter.")
        _require_version(group_version(found), expected_version)
        return found

    def _with_members(
        self, rows: list[StoredGroup], parameters: scim.ResponseParameters[Any] | None
    ) -> list[scim.Resource[Any]]:
        if not _wants_members(parameters):
            return [_to_group(row, members=None) for row in rows]
        members: dict[UUID, list[StoredMember]] = {row.principal_id: [] for row in rows}
        for member in self._ask(queries.list_members, group_ids=list(members)):
            members[member.group_id].append(member)
        return [_to_group(row, members=members[row.principal_id]) for row in rows]

    def _cut(self, rows: list[StoredGroup], parameters: scim.ResponseParameters[Any]) -> list[StoredGroup]:
        """Return the first groups, at least one, with few enough members together to show."""
        if not _wants_members(parameters):
            return rows
        marked = self._ask(direct.mark_members, group_ids=[row.principal_id for row in rows])
        totals = accumulate(marked[row.principal_id][0] if row.principal_id in marked else 0 for row in rows)
        fitting = zip(rows, totals, strict=True)
        return [row for place, (row, total) in enumerate(fitting) if not place or total <= MOST_MEMBERS]

    def _ask(
        self,
        query: Callable[Concatenate[Connection, UUID, Given], Awaitable[Found]],
        *args: Given.args,
        **kwargs: Given.kwargs,
    ) -> Found:
        return self._run(lambda connection: query(connection, self._caller.organization_id, *args, **kwargs))

    def _change(
        self,
        rule: Callable[Concatenate[Connection, ScimCaller, Given], Awaitable[Found]],
        *args: Given.args,
        **kwargs: Given.kwargs,
    ) -> Found:
        return self._run(lambda connection: rule(connection, self._caller, *args, **kwargs))

    def _run(self, work: Callable[[Connection], Awaitable[Found]]) -> Found:
        async def run() -> Found:
            if self._is_to_lock:
                self._is_to_lock = False
                await lock_organization(self._connection, self._caller.organization_id)
            return await work(self._connection)

        return from_thread.run(run)


def user_version(user: StoredUser) -> str:
    return _version(user.name, user.email, user.external_id, user.active)


def group_version(group: StoredGroup) -> str:
    return _version(group.name, group.external_id, group.member_mark)


def _version(*parts: object) -> str:
    return f'W/"{hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]}"'


def _require_version(version: str, expected: str | None) -> None:
    if expected not in {None, version}:
        raise scim.PreconditionFailedException


def _to_user(row: StoredUser) -> scim.Resource[Any]:
    return User(
        id=str(row.principal_id),
        external_id=row.external_id,
        user_name=row.email,
        # Leave out a default name, so that a client can remove the name.
        display_name=None if row.name == users.default_name(row.email) else row.name,
        active=row.active,
        meta=scim.Meta(resource_type="User", created=row.created_at, version=user_version(row)),
    )


def _to_group(row: StoredGroup, *, members: list[StoredMember] | None) -> scim.Resource[Any]:
    # The database's rows need no validation, which is slow for many members.
    shown = [
        Member.model_construct(
            value=str(member.principal_id), type=kind, ref=scim.Reference[Any](f"{kind}s/{member.principal_id}")
        )
        for member in members or ()
        if (kind := KINDS[member.kind])
    ]
    return Group(
        id=str(row.principal_id),
        external_id=row.external_id,
        display_name=row.name,
        members=shown or None,
        meta=scim.Meta(resource_type="Group", created=row.created_at, version=group_version(row)),
    )


def _to_search(request: scim.SearchRequest[Any], *, offset: int, limit: int) -> Search:
    node: FilterNode | None = None if request.filter is None else request.filter.ast
    return Search(
        condition=None if node is None else to_condition(node),
        sort_by=None if request.sort_by is None else str(request.sort_by),
        descending=request.sort_order is scim.SearchRequest.SortOrder.descending,
        offset=offset,
        limit=max(limit, 0),
    )


def _wants_members(parameters: scim.ResponseParameters[Any] | None) -> bool:
    if parameters is None:
        return True
    if parameters.attributes:
        return any("members" in str(attribute).lower() for attribute in parameters.attributes)
    return not any(str(path).lower().endswith("members") for path in parameters.excluded_attributes or ())
