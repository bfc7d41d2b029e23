"""Apply a plan in a few large, repeatable requests, safe to stop: people and groups first, then joins, departures and
deactivations, so a moving person is always in a group. Later additions to a group stay, unless the plan names them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar
from uuid import UUID

from carrel._calls import Call, Connection, perform
from carrel._drivers import Flow
from carrel.directory.plan import (
    DirectoryChanges,
    DirectoryPlan,
    GroupAction,
    MembershipAction,
    MembershipChange,
    UserAction,
    UserChange,
)
from carrel.directory.progress import OnProgress, Progress
from carrel.errors import PlanRefusedError
from carrel.wire import admin
from carrel.wire.common import GroupReference, PrincipalReference, ResponseModel, UserReference
from carrel.wire.operations import ApiOperation

T = TypeVar("T")
Sent = TypeVar("Sent", admin.AdminGroupsAddMembersRequest, admin.AdminGroupsRemoveMembersRequest)
Model = TypeVar("Model", bound=ResponseModel)

MOST_UPSERTED = 1000
MOST_MEMBERS = 10_000
PATIENCE = 300.0


class Applying:
    """A plan being applied. `_ids`: created groups' ids by external id; `_empty`: external ids of empty new groups."""

    def __init__(self, plan: DirectoryPlan, connection: Connection, progress: OnProgress) -> None:
        self._plan = plan
        self._connection = connection
        self._progress = progress
        self._done = 0
        self._ids: dict[str, UUID] = {}
        self._empty: set[str] = set()

    def run(self) -> Flow[DirectoryChanges]:
        """Apply the whole plan, and return the changes sent."""
        plan = self._plan
        missing = [change for change in plan.users if change.action is UserAction.DEACTIVATE]
        added = [change for change in plan.memberships if change.action is MembershipAction.ADD]
        removed = [change for change in plan.memberships if change.action is MembershipAction.REMOVE]
        yield from self._send_users([change for change in plan.users if change.action is not UserAction.DEACTIVATE])
        yield from self._send_groups()
        yield from self._add_members(added)
        yield from self._change_members(
            _by_group(removed), admin.AdminGroupsRemoveMembersRequest, admin.ADMIN_GROUPS_REMOVE_MEMBERS
        )
        yield from self._send_users(missing)
        return DirectoryChanges(
            users=len(plan.users) - len(missing),
            deactivated_users=len(missing),
            groups=len(plan.groups),
            members_added=len(added),
            members_removed=len(removed),
        )

    def _send_users(self, changes: Sequence[UserChange]) -> Flow[None]:
        for batch in _batches(changes, MOST_UPSERTED):
            request = admin.AdminUsersUpsertRequest(
                users=[
                    admin.UserUpsert(email=item.email, name=item.name, is_admin=item.is_admin, active=item.active)
                    for item in batch
                ]
            )
            yield from self._send(Call(admin.ADMIN_USERS_UPSERT, request, patience=PATIENCE))
            self._tell("users", len(batch))

    def _send_groups(self) -> Flow[None]:
        for batch in _batches(self._plan.groups, MOST_UPSERTED):
            groups = [
                admin.GroupUpsert(external_id=change.external_id, name=change.name)
                if change.action is GroupAction.CREATE
                else admin.GroupUpsert(id=change.group_id, name=change.name)
                for change in batch
            ]
            answer = yield from self._upsert_groups(groups)
            named = {group.external_id: group for group in answer.groups if group.external_id is not None}
            self._ids |= {name: group.id for name, group in named.items()}
            self._empty |= {name for name, group in named.items() if name and not group.member_count}
            self._tell("groups", len(batch))

    def _add_members(self, changes: Sequence[MembershipChange]) -> Flow[None]:
        created = {group.external_id: group.name for group in self._plan.groups if group.action is GroupAction.CREATE}
        small: list[tuple[str, Sequence[MembershipChange]]] = []
        others: list[Sequence[MembershipChange]] = []
        for members in _by_group(changes):
            label = members[0].group
            is_new = members[0].group_id is None and label in created and label in self._empty
            if is_new and len(members) <= MOST_MEMBERS:
                small.append((label, members))
            else:
                others.append(members)
        yield from self._fill(small, created)
        yield from self._change_members(others, admin.AdminGroupsAddMembersRequest, admin.ADMIN_GROUPS_ADD_MEMBERS)

    def _fill(self, groups: Sequence[tuple[str, Sequence[MembershipChange]]], names: Mapping[str, str]) -> Flow[None]:
        for packed in _pack_groups(groups):
            yield from self._upsert_groups(
                [
                    admin.GroupUpsert(
                        id=self._group_id(None, label),
                        name=names[label],
                        members=[self._reference(member) for member in members],
                    )
                    for label, members in packed
                ]
            )
            self._tell("memberships", sum(len(members) for _, members in packed))

    def _change_members(
        self, groups: Sequence[Sequence[MembershipChange]], request: type[Sent], operation: ApiOperation[Sent, Model]
    ) -> Flow[None]:
        for members in groups:
            for batch in _batches(members, MOST_MEMBERS):
                group_id = self._group_id(batch[0].group_id, batch[0].group)
                sent = request(group_id=group_id, members=[self._reference(change) for change in batch])
                yield from self._send(Call(operation, sent, patience=PATIENCE))
                self._tell("memberships", len(batch))

    def _upsert_groups(self, groups: list[admin.GroupUpsert]) -> Flow[admin.AdminGroupsUpsertResponse]:
        request = admin.AdminGroupsUpsertRequest(groups=groups)
        return (yield from self._send(Call(admin.ADMIN_GROUPS_UPSERT, request, patience=PATIENCE)))

    def _send(self, call: Call[Model]) -> Flow[Model]:
        return (yield from perform(call, self._connection)).parsed

    def _group_id(self, group_id: UUID | None, label: str) -> UUID:
        found = group_id or self._ids.get(label)
        if found is None:
            msg = f"The plan names the group {label}, which it doesn't contain. Make a new plan"
            raise PlanRefusedError(msg)
        return found

    def _reference(self, change: MembershipChange) -> PrincipalReference:
        if change.member_type == "user":
            return UserReference(email=change.member)
        return GroupReference(id=self._group_id(change.member_group_id, change.member))

    def _tell(self, stage: str, number: int) -> None:
        self._done += number
        self._progress(Progress(stage, self._done, self._plan.change_count))


def _batches(items: Sequence[T], most: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), most):
        yield items[start : start + most]


def _by_group(changes: Sequence[MembershipChange]) -> list[list[MembershipChange]]:
    groups: dict[UUID | str, list[MembershipChange]] = {}
    for change in changes:
        groups.setdefault(change.group_id or change.group, []).append(change)
    return list(groups.values())


def _pack_groups(
    groups: Sequence[tuple[str, Sequence[MembershipChange]]],
) -> Iterator[list[tuple[str, Sequence[MembershipChange]]]]:
    packed: list[tuple[str, Sequence[MembershipChange]]] = []
    size = 0
    for label, members in groups:
        if packed and (size + len(members) > MOST_MEMBERS or len(packed) == MOST_UPSERTED):
            yield packed
            packed, size = [], 0
        packed.append((label, members))
        size += len(members)
    if packed:
        yield packed
