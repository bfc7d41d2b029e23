"""The import of a directory: users, groups and memberships from CSV files, through the API's operations."""

from typing import TypeVar

from carrel._drivers import Flow
from carrel._operations import FlowOperation, Resource
from carrel.directory.importing import apply_plan, plan_import
from carrel.directory.plan import DirectoryChanges, DirectoryPlan
from carrel.directory.progress import OnProgress, unheard
from carrel.directory.tables import Table

M = TypeVar("M")


class Directory(Resource[M]):
    """The organization's people and groups, imported from another directory: plan, review and apply the changes."""

    @FlowOperation
    def plan(
        self,
        *,
        users: Table | None = None,
        groups: Table | None = None,
        memberships: Table | None = None,
        deactivate_missing: bool = False,
        skip_problems: bool = False,
        force: bool = False,
        on_progress: OnProgress = unheard,
    ) -> Flow[DirectoryPlan]:
        """Return the plan of a directory import from these tables; changes nothing.

        A table is the path of a CSV file, its bytes, an open file, or rows as mappings. `users` have the columns
        `email`, `name`, and optionally `isAdmin` and `active`; `groups` have `externalId` and `name`; `memberships`
        have `group` (an external id or name) and `member` (an address, or a group's external id). An empty cell leaves
        the value unchanged. With memberships, every group named in the tables gets exactly the members given; service
        accounts keep their groups. `deactivate_missing` deactivates users missing from the table, except the importing
        user. A plan that removes more than a fifth of the active users, or of these groups' memberships, has a
        `refusal`, unless `force`. Up to ten removals are always allowed, except for missing users. `skip_problems`
        skips rows with problems; then no member is removed, and no user deactivated for missing from the table. The
        plan's `problems` list mistakes inside the tables. Raises OSError for an unreadable path, InvalidArgumentError,
        and the errors of the operations on users and groups."""
        return plan_import(
            {"users": users, "groups": groups, "memberships": memberships},
            self._session.connection,
            deactivate_missing=deactivate_missing,
            skip_problems=skip_problems,
            force=force,
            progress=on_progress,
        )

    @FlowOperation
    def apply(self, plan: DirectoryPlan, *, on_progress: OnProgress = unheard) -> Flow[DirectoryChanges]:
        """Apply the plan of a directory import, in requests of up to 1000 users or groups and 10,000 members. After an
        interruption, a new plan has the remaining changes; repeating a plan changes nothing. Changes made since the
        plan stay, unless the plan names them. Raises PlanRefusedError, before any change, for a plan with problems or a
        refusal, a plan made for another organization, or a plan that would lock out the caller."""
        return apply_plan(plan, self._session.connection, progress=on_progress)
