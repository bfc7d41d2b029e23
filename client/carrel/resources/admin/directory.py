"""The import of a directory: users, groups and memberships from CSV files, through the operations of this API."""

from typing import TypeVar

from carrel._drivers import Flow
from carrel._operations import FlowOperation, Resource
from carrel.directory.importing import apply_plan, plan_import
from carrel.directory.plan import DirectoryChanges, DirectoryPlan
from carrel.directory.progress import OnProgress, unheard
from carrel.directory.tables import Table

M = TypeVar("M")


class Directory(Resource[M]):
    """The organization's people and groups as another directory has them: plan the changes, look, apply them."""

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
        `email`, `name`, and perhaps `isAdmin` and `active`; `groups` have `externalId` and `name`; `memberships` have
        `group` (an external id or name) and `member` (an address, or a group's external id). An empty cell leaves what
        is there. With memberships, every group that the tables name gets exactly the members given; service accounts
        stay where they are.

        `deactivate_missing` deactivates users whom the table leaves out, never who imports. A plan that would take more
        than a fifth of the active users, or of the memberships of these groups, has a `refusal`, unless `force`; ten
        are never too many, except of users left out. `skip_problems` leaves rows with problems out; then no member is
        removed, and nobody deactivated for being left out.

        Raises OSError for a path that can't be read, InvalidArgumentError, and what the operations on users and groups
        raise. What is wrong inside the tables is in the plan's `problems`."""
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
        """Apply the plan of a directory import, in requests of up to 1000 users or groups and 10,000 members.

        Stopped at any point, a new plan has what is left to do; done again, it changes nothing. What has changed since
        the plan was made stays, unless the plan names it. Raises PlanRefusedError, before anything is changed, for a
        plan with problems or a refusal, one made for another organization, or one that would lock out who applies it.
        """
        return apply_plan(plan, self._session.connection, progress=on_progress)
