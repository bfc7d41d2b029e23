"""The plan of a directory import: to read, to keep as JSON, and to apply.

It is carried out in a few large requests, safe to stop anywhere. People and groups come first, then joins, departures
and deactivations: nobody who moves is in neither group. Each request is all or none and can be repeated. Later
additions to a group stay, unless the plan names them."""

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Literal, TypeAlias, cast, get_args
from uuid import UUID

from pydantic import BaseModel, Field

from carrel.directory.tables import Problem
from carrel.errors import PlanRefusedError
from carrel.wire.common import ResponseModel
from carrel.wire.frames import frame_of

if TYPE_CHECKING:
    import pandas as pd
from collections.abc import Iterator, Mapping
from typing import TypeVar

from carrel._calls import Call, Connection, perform
from carrel._drivers import Flow
from carrel.directory.progress import OnProgress, Progress
from carrel.wire import admin
from carrel.wire.common import GroupReference, PrincipalReference, UserReference
from carrel.wire.operations import ApiOperation

Part: TypeAlias = Literal["users", "groups", "memberships", "problems"]


class UserAction(StrEnum):
    """The planned change to a user; `DEACTIVATE` is for users that the file leaves out."""

    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DEACTIVATE = "DEACTIVATE"


class GroupAction(StrEnum):
    """The planned change to a group."""

    CREATE = "CREATE"
    RENAME = "RENAME"


class MembershipAction(StrEnum):
    """The planned change to a membership."""

    ADD = "ADD"
    REMOVE = "REMOVE"


class UserChange(ResponseModel):
    """A user to create or change; values of None stay as they are, `name_before` is set when the name changes."""

    action: UserAction
    email: str
    name: str | None = None
    is_admin: bool | None = None
    active: bool | None = None
    name_before: str | None = None


class GroupChange(ResponseModel):
    """A group to create or rename."""

    action: GroupAction
    external_id: str
    name: str
    group_id: UUID | None = None
    name_before: str | None = None


class MembershipChange(ResponseModel):
    """A member (an address or a group) to add to a group or remove; `group_id` is None for a new group."""

    action: MembershipAction
    group: str
    member_type: Literal["user", "group"]
    member: str
    group_id: UUID | None = None
    member_group_id: UUID | None = None


class DirectoryPlan(ResponseModel):
    """The changes that make the organization equal to the files, and what prevents them.
    `problems` are of the files; with `skips_problems` the rows that have them are left out, and then nothing is removed
    for being left out: no member, and no user is deactivated but by a row that says so. `refusal` says why the plan as
    a whole looks like a mistake. `notes` say what one might not expect. A plan has no state of the connection: it can
    be kept (`model_dump_json`), read by a person, and applied later, in the organization it was made for."""

    organization_id: UUID | None = None
    users: list[UserChange] = Field(default_factory=list[UserChange])
    groups: list[GroupChange] = Field(default_factory=list[GroupChange])
    memberships: list[MembershipChange] = Field(default_factory=list[MembershipChange])
    unchanged_users: int = 0
    unchanged_groups: int = 0
    unchanged_memberships: int = 0
    problems: list[Problem] = Field(default_factory=list[Problem])
    skips_problems: bool = False
    refusal: str | None = None
    notes: list[str] = Field(default_factory=list[str])

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to change."""
        return not (self.users or self.groups or self.memberships)

    @property
    def change_count(self) -> int:
        """The number of changes."""
        return len(self.users) + len(self.groups) + len(self.memberships)

    @property
    def deprived(self) -> frozenset[str]:
        """The addresses of users who lose their access, or their role as admin."""
        return frozenset(one.email for one in self.users if one.active is False or one.is_admin is False)

    def count(self, action: UserAction | GroupAction | MembershipAction) -> int:
        """Return the number of changes of one kind."""
        return sum(row.action is action for row in (*self.users, *self.groups, *self.memberships))

    def check(self) -> None:
        """Raise PlanRefusedError unless the plan may be applied."""
        fatal = [problem for problem in self.problems if not problem.skippable or not self.skips_problems]
        if fatal:
            first = fatal[0]
            more = f" (and {len(fatal) - 1} more)" if len(fatal) > 1 else ""
            raise PlanRefusedError(f"Nothing was changed: {first.file}, line {first.line}: {first.message}{more}")
        if self.refusal:
            raise PlanRefusedError(f"Nothing was changed: {self.refusal}")

    def to_frame(self, part: Part) -> "pd.DataFrame":
        """Return the users, groups, memberships or problems of the plan as a pandas DataFrame, a row each."""
        rows = cast("Sequence[BaseModel]", getattr(self, part))
        return frame_of(rows, get_args(type(self).model_fields[part].annotation)[0])


class DirectoryChanges(ResponseModel):
    """The numbers of changes that were sent to the service, which accepted them all."""

    users: int = 0
    deactivated_users: int = 0
    groups: int = 0
    members_added: int = 0
    members_removed: int = 0


T = TypeVar("T")
Sent = TypeVar("Sent", admin.AdminGroupsAddMembersRequest, admin.AdminGroupsRemoveMembersRequest)
Model = TypeVar("Model", bound=ResponseModel)

MOST_UPSERTED = 1000
MOST_MEMBERS = 10_000
PATIENCE = 300.0


class Applying:
    """A plan being carried out; `_ids` are of created groups by external id, `_empty` those without members."""

    def __init__(self, plan: DirectoryPlan, connection: Connection, progress: OnProgress) -> None:
        self._plan = plan
        self._connection = connection
        self._progress = progress
        self._done = 0
        self._ids: dict[str, UUID] = {}
        self._empty: set[str] = set()

    def run(self) -> Flow[DirectoryChanges]:
        """Carry out the whole plan, and return what was sent."""
        plan = self._plan
        missing = [change for change in plan.users if change.action is UserAction.DEACTIVATE]
        added = [change for change in plan.memberships if change.action is MembershipAction.ADD]
        removed = [change for change in plan.memberships if change.action is MembershipAction.REMOVE]
        yield from self._users([change for change in plan.users if change.action is not UserAction.DEACTIVATE])
        yield from self._groups()
        yield from self._add(added)
        yield from self._change(
            _by_group(removed), admin.AdminGroupsRemoveMembersRequest, admin.ADMIN_GROUPS_REMOVE_MEMBERS
        )
        yield from self._users(missing)
        return DirectoryChanges(
            users=len(plan.users) - len(missing),
            deactivated_users=len(missing),
            groups=len(plan.groups),
            members_added=len(added),
            members_removed=len(removed),
        )

    def _users(self, changes: Sequence[UserChange]) -> Flow[None]:
        for batch in _batches(changes, MOST_UPSERTED):
            request = admin.AdminUsersUpsertRequest(
                users=[
                    admin.UserUpsert(email=one.email, name=one.name, is_admin=one.is_admin, active=one.active)
                    for one in batch
                ]
            )
            yield from self._send(Call(admin.ADMIN_USERS_UPSERT, request, patience=PATIENCE))
            self._tell("users", len(batch))

    def _groups(self) -> Flow[None]:
        for batch in _batches(self._plan.groups, MOST_UPSERTED):
            groups = [
                admin.GroupUpsert(external_id=one.external_id, name=one.name)
                if one.action is GroupAction.CREATE
                else admin.GroupUpsert(id=one.group_id, name=one.name)
                for one in batch
            ]
            answer = yield from self._upsert_groups(groups)
            named = {group.external_id: group for group in answer.groups if group.external_id is not None}
            self._ids |= {name: group.id for name, group in named.items()}
            self._empty |= {name for name, group in named.items() if name and not group.member_count}
            self._tell("groups", len(batch))

    def _add(self, changes: Sequence[MembershipChange]) -> Flow[None]:
        created = {one.external_id: one.name for one in self._plan.groups if one.action is GroupAction.CREATE}
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
        yield from self._change(others, admin.AdminGroupsAddMembersRequest, admin.ADMIN_GROUPS_ADD_MEMBERS)

    def _fill(self, groups: Sequence[tuple[str, Sequence[MembershipChange]]], names: Mapping[str, str]) -> Flow[None]:
        for packed in _pack(groups):
            yield from self._upsert_groups(
                [
                    admin.GroupUpsert(
                        id=self._group_id(None, label),
                        name=names[label],
                        members=[self._reference(one) for one in members],
                    )
                    for label, members in packed
                ]
            )
            self._tell("memberships", sum(len(members) for _, members in packed))

    def _change(
        self, groups: Sequence[Sequence[MembershipChange]], request: type[Sent], operation: ApiOperation[Sent, Model]
    ) -> Flow[None]:
        for members in groups:
            for batch in _batches(members, MOST_MEMBERS):
                group_id = self._group_id(batch[0].group_id, batch[0].group)
                sent = request(group_id=group_id, members=[self._reference(one) for one in batch])
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
            msg = f"The plan names the group {label}, which it neither knows nor creates; make a new plan"
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


def _pack(
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
