"""Updating the people and groups of an organization from the files of a directory; see `client.admin.directory`."""

from carrel.directory.plan import (
    DirectoryChanges,
    DirectoryPlan,
    GroupAction,
    GroupChange,
    MembershipAction,
    MembershipChange,
    UserAction,
    UserChange,
)
from carrel.directory.progress import OnProgress, Progress
from carrel.directory.tables import Problem, Table

__all__ = [
    "DirectoryChanges",
    "DirectoryPlan",
    "GroupAction",
    "GroupChange",
    "MembershipAction",
    "MembershipChange",
    "OnProgress",
    "Problem",
    "Progress",
    "Table",
    "UserAction",
    "UserChange",
]
