"""The parts of every command: its group, its settings, and its error, of which only the message is printed."""

from typing import cast

import typer

from service.platform.settings import Settings


class CommandError(Exception):
    """The command can't be carried out; the message says what to do instead."""


def settings_of(context: typer.Context) -> Settings:
    return cast("Settings", context.obj)


def new_group(about: str) -> typer.Typer:
    """Make a group of commands, which stays a group though it has a single command."""
    group = typer.Typer(no_args_is_help=True, help=about)
    group.callback(help=about)(lambda: None)
    return group
