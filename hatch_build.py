"""Refuse to build the whole project as a wheel: its packages have names that others use too."""

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class EditableOnly(BuildHookInterface[Any]):
    """Let the project be installed where it lies, and nowhere else."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - the hook's signature
        """Raise RuntimeError, saying what to install instead, for every version but the editable one."""
        if version != "editable":
            msg = "Install the SDK (pip install ./client), or the project where it lies (make setup; pip install -e .)"
            raise RuntimeError(msg)
