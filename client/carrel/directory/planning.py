"""Comparing the files with the organization, and planning the changes."""

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias
from uuid import UUID

from carrel.directory import plan
from carrel.directory.state import State
from carrel.directory.tables import Entries, MembershipEntry, Problem, UserEntry, printable
from carrel.wire.admin import Group, NamedGroup, NamedUser, User
from carrel.wire.fields import normal_email


@dataclass(frozen=True, slots=True)
class Target:
    """A group in the files, existing or to be created; `name` is the name after the import."""

    external_id: str | None
    name: str
    existing: Group | None = None

    @property
    def key(self) -> str:
        """The unique key of a group, new groups included."""
        return str(self.existing.id) if self.existing else f"new {self.external_id}"

    @property
    def label(self) -> str:
        """The name of the group in the files."""
        return self.external_id or self.name

    @property
    def group_id(self) -> UUID | None:
        """The group's id, None for a group to be created."""
        return self.existing.id if self.existing else None


class Targets:
    """The groups of the files and of the organization, found by external id or, if unique, by name."""

    def __init__(self, entries: Entries, groups: Sequence[Group]) -> None:
        existing = {group.external_id: group for group in groups if group.external_id is not None}
        self.given = [
            Target(entry.external_id, entry.name, existing.get(entry.external_id))
            for entry in (entries.groups or {}).values()
        ]
        given = {target.external_id for target in self.given}
        others = [Target(group.external_id, group.name, group) for group in groups if group.external_id not in given]
        self.by_key = {target.key: target for target in (*self.given, *others)}
        self.by_external_id = {t.external_id: t for t in self.by_key.values() if t.external_id is not None}
        self._given_by_name, self._others_by_name = _by_name(self.given), _by_name(others)

    def find(self, name: str) -> Target:
        """Return the group of an external id or name; raises LookupError with the reason."""
        if (found := self.by_external_id.get(name)) is not None:
            return found
        named = self._given_by_name.get(name) or self._others_by_name.get(name) or []
        if len(named) == 1:
            return named[0]
        what = "several groups are called" if named else "there is no group"
        how = "use the external id" if named else "add it to the groups"
        raise LookupError(f"group: {what} {printable(name)}; {how}")

    def twins(self) -> Iterator[Target]:
        """Yield groups to be created whose name belongs to an existing group without an external id."""
        for target in self.given:
            named = self._others_by_name.get(target.name, ())
            if target.existing is None and any(other.external_id is None for other in named):
                yield target


def _by_name(targets: Iterable[Target]) -> dict[str, list[Target]]:
    named: dict[str, list[Target]] = {}
    for target in targets:
        named.setdefault(target.name, []).append(target)
    return named


def select_named_groups(entries: Entries, targets: Targets) -> list[Group]:
    """Return the existing groups among the groups in the files, or named by a membership there."""
    named = {target.key: target for target in targets.given}
    for entry in entries.memberships or ():
        with contextlib.suppress(LookupError):
            target = targets.find(entry.group)
            named[target.key] = target
    return [target.existing for target in named.values() if target.existing]


# A larger share at once suggests a damaged file; an ordinary day has this few changes, unless users are missing.
MOST_TAKEN = 0.2
FEW = 10

Member: TypeAlias = tuple[Literal["user", "group"], str]
"""An address, or a group's key."""


@dataclass(slots=True)
class Wanted:
    """The members that each group in the files should have, by group key; problems of rows go to `problems`."""

    members: dict[str, dict[Member, None]] = field(default_factory=dict[str, dict[Member, None]])
    problems: list[Problem] = field(default_factory=list[Problem])


def members_by_group(entries: Entries, targets: Targets, state: State) -> Wanted:
    """Return the members of each group, from the memberships file."""
    wanted = Wanted()
    if entries.memberships is None:
        return wanted
    for target in targets.given:
        wanted.members[target.key] = {}
    known = state.users.keys() | (entries.users or {}).keys()
    for entry in entries.memberships:
        try:
            group = targets.find(entry.group)
            member = _find_member(entry, targets, known=known, state=state)
        except LookupError as exc:
            wrong = Problem(file=entries.names["memberships"], line=entry.line, message=str(exc.args[0]))
            wanted.problems.append(wrong)
        else:
            wanted.members.setdefault(group.key, {})[member] = None
    return wanted


def _find_member(entry: MembershipEntry, targets: Targets, *, known: AbstractSet[str], state: State) -> Member:
    group, email = targets.by_external_id.get(entry.member), normal_email(entry.member)
    who = printable(entry.member)
    if group is not None and email in known:
        raise LookupError(f"member: {who} is a user's address and a group's external id; change one of them")
    if group is not None:
        return "group", group.key
    if email in known:
        return "user", email
    if email in state.service_accounts:
        raise LookupError(f"member: {who} is a service account; an import leaves those in their groups, and adds none")
    raise LookupError(f"member: there is no user or group {who}; add it to the users or the groups")


def make_plan(
    entries: Entries, targets: Targets, state: State, *, deactivate_missing: bool, skip_problems: bool, force: bool
) -> plan.DirectoryPlan:
    """Return the plan. If the files have problems, absence from the files removes nothing."""
    users, unchanged_users, problems = _plan_users(entries, state)
    groups = [change for target in targets.given if (change := _plan_group(target))]
    wanted = members_by_group(entries, targets, state)
    problems = [*entries.problems, *problems, *wanted.problems]
    memberships, unchanged_memberships, notes = _plan_members(wanted, targets, state)
    twins = (
        f"A group {printable(target.name)} without an external id stays unchanged; {printable(target.label)} is new"
        for target in targets.twins()
    )
    notes = [*entries.notes, *twins, *notes]
    if problems:
        memberships = [change for change in memberships if change.action is plan.MembershipAction.ADD]
        notes.append("While rows have problems, missing users stay active and missing members stay")
    elif deactivate_missing:
        for email, user in state.users.items():
            if not user.active or email in (entries.users or {}):
                continue
            if state.may_be_caller(user):
                notes.append(f"{printable(user.email)} isn't in the file but may be the importing user: left active")
            else:
                users.append(plan.UserChange(action=plan.UserAction.DEACTIVATE, email=user.email, active=False))
    return plan.DirectoryPlan(
        organization_id=state.organization_id,
        users=users,
        groups=groups,
        memberships=memberships,
        unchanged_users=unchanged_users,
        unchanged_groups=len(targets.given) - len(groups),
        unchanged_memberships=unchanged_memberships,
        problems=problems,
        skips_problems=skip_problems,
        refusal=None if force else _refusal(users, memberships, unchanged_memberships, state),
        notes=notes,
    )


def _plan_users(entries: Entries, state: State) -> tuple[list[plan.UserChange], int, list[Problem]]:
    changes: list[plan.UserChange] = []
    problems: list[Problem] = []
    unchanged = 0
    for entry in (entries.users or {}).values():
        if wrong := _find_danger(entry, state):
            problems.append(Problem(file=entries.names["users"], line=entry.line, message=wrong))
            continue
        if (change := _plan_user(entry, state.users.get(entry.email))) is None:
            unchanged += 1
        else:
            changes.append(change)
    return changes, unchanged, problems


def _find_danger(entry: UserEntry, state: State) -> str | None:
    if entry.email in state.service_accounts:
        return f"email: {printable(entry.email)} is a service account's address"
    user = state.users.get(entry.email)
    if user and state.may_be_caller(user):
        if entry.active is False and user.active:
            return f"active: {printable(entry.email)} may be the importing user, who would be locked out"
        if entry.is_admin is False and user.is_admin:
            return f"isAdmin: {printable(entry.email)} may be the importing user, who would no longer be an admin"
    return None


def _plan_user(entry: UserEntry, user: User | None) -> plan.UserChange | None:
    given: dict[str, Any] = {"name": entry.name, "is_admin": entry.is_admin, "active": entry.active}
    if user is None:
        return plan.UserChange(action=plan.UserAction.CREATE, email=entry.email, **given)
    changes = {member: value for member, value in given.items() if value not in {None, getattr(user, member)}}
    if not changes:
        return None
    before = user.name if "name" in changes else None
    return plan.UserChange(action=plan.UserAction.UPDATE, email=entry.email, name_before=before, **changes)


def _plan_group(target: Target) -> plan.GroupChange | None:
    external_id = target.external_id or ""
    if target.existing is None:
        return plan.GroupChange(action=plan.GroupAction.CREATE, external_id=external_id, name=target.name)
    if target.existing.name == target.name:
        return None
    return plan.GroupChange(
        action=plan.GroupAction.RENAME,
        external_id=external_id,
        name=target.name,
        group_id=target.existing.id,
        name_before=target.existing.name,
    )


def _plan_members(wanted: Wanted, targets: Targets, state: State) -> tuple[list[plan.MembershipChange], int, list[str]]:
    added: list[plan.MembershipChange] = []
    removed: list[plan.MembershipChange] = []
    unchanged = others = 0
    for key, members in wanted.members.items():
        target = targets.by_key[key]
        current: dict[Member, None] = {}
        for principal in state.members.get(target.group_id, ()) if target.group_id else ():
            if isinstance(principal, NamedUser):
                current["user", normal_email(principal.email)] = None
            elif isinstance(principal, NamedGroup):
                current["group", str(principal.id)] = None
            else:
                others += 1
        new = [member for member in members if member not in current]
        unchanged += len(members) - len(new)
        added += [_to_change(plan.MembershipAction.ADD, target, member, targets) for member in new]
        gone = [member for member in current if member not in members]
        removed += [_to_change(plan.MembershipAction.REMOVE, target, member, targets) for member in gone]
    note = f"{others} memberships of service accounts stay, because an import doesn't change them"
    return added + removed, unchanged, [note] if others else []


def _to_change(action: plan.MembershipAction, group: Target, member: Member, targets: Targets) -> plan.MembershipChange:
    kind, key = member
    inner = targets.by_key[key] if kind == "group" else None
    return plan.MembershipChange(
        action=action,
        group=group.label,
        group_id=group.group_id,
        member_type=kind,
        member=inner.label if inner else key,
        member_group_id=inner.group_id if inner else None,
    )


def _refusal(
    users: Sequence[plan.UserChange], memberships: Sequence[plan.MembershipChange], unchanged: int, state: State
) -> str | None:
    """Return the reason for refusing too many removals of users or memberships; `unchanged` counts toward the total."""
    active = sum(user.active for user in state.users.values())
    missing = sum(change.action is plan.UserAction.DEACTIVATE for change in users)
    inactive = sum(change.action is not plan.UserAction.CREATE and change.active is False for change in users)
    removed = sum(change.action is plan.MembershipAction.REMOVE for change in memberships)
    if missing > MOST_TAKEN * active:
        what = f"{missing} of {active} active users are missing from the file and would be deactivated"
    elif inactive > max(FEW, MOST_TAKEN * active):
        what = f"{inactive} of {active} active users would be deactivated"
    elif removed > max(FEW, MOST_TAKEN * (removed + unchanged)):
        what = f"{removed} of {removed + unchanged} memberships would be removed"
    else:
        return None
    return f"{what}, which is more than {MOST_TAKEN:.0%}; if you want this, plan it with force"
