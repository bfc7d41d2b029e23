"""The settings, as every command finds them."""

from typing import cast

import typer

from service.platform.settings import Settings


def settings_of(context: typer.Context) -> Settings:
    """Return the settings the commands were started with."""
    return cast("Settings", context.obj)
