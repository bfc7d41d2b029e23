"""The settings of a command, and its error, of which only the message is printed."""

from typing import cast

import typer

from service.platform.settings import Settings


class CommandError(Exception):
    """The command can't be carried out; the message says what to do instead."""


def settings_of(context: typer.Context) -> Settings:
    """Return the settings the commands were started with."""
    return cast("Settings", context.obj)
