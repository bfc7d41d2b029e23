"""Commands that are imported when they are called, so that `carrel --help` and completion take no time."""

from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup


class LazyCommand(TyperCommand):
    """The name and the help of a command, or of a group of commands, that is `place`, a `module:name`."""

    def __init__(self, name: str, place: str, help: str) -> None:  # noqa: A002 - typer's own name for it
        super().__init__(name, help=help)
        self.place = place

    def load(self) -> TyperCommand | TyperGroup:
        """Import the command, and return it."""
        module, _, attribute = self.place.partition(":")
        found = getattr(import_module(module), attribute)
        parent = typer.Typer(rich_markup_mode=None)
        if isinstance(found, typer.Typer):
            parent.add_typer(found, name=self.name, help=self.help)
        else:
            parent.command(self.name)(found)
        loaded: Any = typer.main.get_group(parent).commands[str(self.name)]
        return loaded


class LazyGroup(TyperGroup):
    """A group that shows its lazy commands by what is known of them, and imports the one that is called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the arguments name, and the arguments that are left for it."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command.load() if isinstance(command, LazyCommand) else command, rest
