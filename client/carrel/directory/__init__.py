"""Bringing the people and groups of an organization to what a directory says; see `client.admin.directory`."""

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
from carrel.directory.state import OnProgress, Progress
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
