"""The parts of every command: its group, its settings, what it asks and how it prints, and its error, of which only the
message is printed."""

import getpass
import sys
from typing import cast

import typer
from pydantic import SecretStr, TypeAdapter, ValidationError

from carrel.wire.fields import Password
from service.platform.settings import Settings

_PASSWORD: TypeAdapter[SecretStr] = TypeAdapter(Password)


class CommandError(Exception):
    """The command can't be carried out; the message says what to do instead."""


def settings_of(context: typer.Context) -> Settings:
    return cast("Settings", context.obj)


def new_group(about: str) -> typer.Typer:
    """Make a group of commands, which stays a group though it has a single command."""
    group = typer.Typer(no_args_is_help=True, help=about)
    group.callback(help=about)(lambda: None)
    return group


def format_count(count: int, what: str) -> str:
    """Format a count with its noun: `1 document`, `70 documents`."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def format_size(count: int) -> str:
    return f"{count / 1e3:,.0f} kB" if count < 1e6 else f"{count / 1e6:,.1f} MB"


def ask_password() -> SecretStr:
    """Ask for a password twice, without echo, on a terminal; else read one line of standard input. Never is it taken
    from the command line, where other users and the shell's history would see it."""
    if sys.stdin.isatty():
        first, second = getpass.getpass("Password: "), getpass.getpass("The same again: ")
        if first != second:
            raise CommandError("The two are not the same. Nothing was changed.")
    else:
        first = sys.stdin.readline().removesuffix("\n").removesuffix("\r")
    try:
        return _PASSWORD.validate_python(first)
    except ValidationError as error:
        raise CommandError("A password has 8 to 1024 characters, none of them NUL. Nothing was changed.") from error
