"""The plan of a directory import: to read, to keep as JSON, and to apply."""

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

Part: TypeAlias = Literal["users", "groups", "memberships", "problems"]


class UserAction(StrEnum):
    """The planned change to a user; `DEACTIVATE` is for users missing from the file."""

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
    """A user to create or change. None means unchanged; `name_before` is set when the name changes."""

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
    """The changes that make the organization equal to the files. `problems` lists wrong rows. With `skips_problems` the
    plan skips wrong rows, keeps members missing from the files, and deactivates users only by a row. `refusal`
    says why the whole plan looks like a mistake. `notes` lists surprises. You can save a plan as JSON
    (`model_dump_json`), review it, and apply it later in the same organization."""

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
        """Whether the plan has no changes."""
        return not (self.users or self.groups or self.memberships)

    @property
    def change_count(self) -> int:
        """The number of changes."""
        return len(self.users) + len(self.groups) + len(self.memberships)

    @property
    def deprived(self) -> frozenset[str]:
        """The addresses of users about to lose access or the admin role."""
        return frozenset(user.email for user in self.users if user.active is False or user.is_admin is False)

    def count(self, action: UserAction | GroupAction | MembershipAction) -> int:
        """Return the number of changes of a kind."""
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
    """The numbers of changes sent; the service accepted all of them."""

    users: int = 0
    deactivated_users: int = 0
    groups: int = 0
    members_added: int = 0
    members_removed: int = 0
