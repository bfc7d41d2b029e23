"""The two operations of an import, as flows: make a plan, and apply a plan."""

import os
from collections.abc import Iterable, Mapping
from functools import partial
from typing import cast

from carrel._calls import Connection
from carrel._drivers import Flow, run_in_thread
from carrel.directory import state as organization
from carrel.directory.applying import Applying
from carrel.directory.plan import DirectoryChanges, DirectoryPlan
from carrel.directory.planning import Targets, make_plan, select_named_groups
from carrel.directory.progress import OnProgress
from carrel.directory.tables import Entries, Table, read_entries
from carrel.errors import InvalidArgumentError, PlanRefusedError


def plan_import(
    tables: Mapping[str, Table | None],
    connection: Connection,
    *,
    deactivate_missing: bool,
    skip_problems: bool,
    force: bool,
    progress: OnProgress,
) -> Flow[DirectoryPlan]:
    """Return a plan, and change nothing; only with problems if a file can't be used. A table of None leaves its part of
    the organization unchanged. Raises InvalidArgumentError without tables, and OSError."""
    if all(table is None for table in tables.values()):
        raise InvalidArgumentError("Give at least one of users, groups and memberships")
    if deactivate_missing and tables["users"] is None:
        raise InvalidArgumentError("deactivate_missing needs the users: who isn't among them is deactivated")
    at_hand = {kind: _take_rows(table) for kind, table in tables.items()}
    entries = yield from run_in_thread(lambda: read_entries(**at_hand))
    if any(not problem.skippable for problem in entries.problems):
        return DirectoryPlan(problems=entries.problems, skips_problems=skip_problems, notes=entries.notes)
    state = organization.State(organization_id=(yield from organization.read_organization(connection)))
    targets = yield from _load(state, entries, connection, progress)
    if deactivate_missing or organization.affects_an_admin(entries, state.users):
        state.callers = yield from organization.read_callers(connection)
    plan = partial(make_plan, deactivate_missing=deactivate_missing, skip_problems=skip_problems, force=force)
    return (yield from run_in_thread(lambda: plan(entries, targets, state)))


def apply_plan(plan: DirectoryPlan, connection: Connection, *, progress: OnProgress) -> Flow[DirectoryChanges]:
    """Apply a plan, also an older plan or a plan made with another credential. Raises PlanRefusedError."""
    plan.check()
    yield from _require_safe(plan, connection)
    return (yield from Applying(plan, connection, progress).run())


def _load(state: organization.State, entries: Entries, connection: Connection, progress: OnProgress) -> Flow[Targets]:
    if entries.users is not None or entries.memberships is not None:
        state.users = yield from organization.read_users(connection, progress)
        if organization.has_unknown_addresses(entries, state.users):
            state.service_accounts = yield from organization.read_service_accounts(connection)
    if entries.groups is not None or entries.memberships is not None:
        state.groups = yield from organization.read_groups(connection, progress)
    targets = Targets(entries, state.groups)
    if entries.memberships is not None:
        named = yield from run_in_thread(lambda: select_named_groups(entries, targets))
        state.members = yield from organization.read_members(named, connection, progress)
    return targets


def _require_safe(plan: DirectoryPlan, connection: Connection) -> Flow[None]:
    if plan.organization_id not in {None, (yield from organization.read_organization(connection))}:
        raise PlanRefusedError("Nothing was changed: this plan is for another organization. Make a new plan")
    callers = (yield from organization.read_callers(connection)) if plan.deprived else None
    locked_out = (callers or frozenset()) & plan.deprived
    if locked_out:
        emails = ", ".join(sorted(locked_out))
        msg = f"Nothing was changed: {emails} may be the importing user, who would be locked out. Make a new plan"
        raise PlanRefusedError(msg)


def _take_rows(table: Table | None) -> Table | None:
    """Return the table; rows from a program's iterator are read first, in the caller's thread."""
    if table is None or isinstance(table, str | os.PathLike | bytes) or hasattr(table, "read"):
        return table
    return list(cast("Iterable[Mapping[str, object]]", table))
