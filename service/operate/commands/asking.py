"""Reading a password: never from the command line, where other users and the shell's history would see it."""

import getpass
import sys

from pydantic import SecretStr, TypeAdapter, ValidationError

from carrel.wire.fields import Password
from service.operate.commands.context import CommandError

_PASSWORD: TypeAdapter[SecretStr] = TypeAdapter(Password)


def ask_password() -> SecretStr:
    """Ask for a password twice, without echo, on a terminal; else read one line of standard input."""
    if sys.stdin.isatty():
        first, second = getpass.getpass("Password: "), getpass.getpass("The same again: ")
        if first != second:
            raise CommandError("The two are not the same. Nothing was changed.")
    else:
        first = sys.stdin.readline().removesuffix("\n").removesuffix("\r")
    return _check(first)


def _check(text: str) -> SecretStr:
    try:
        return _PASSWORD.validate_python(text)
    except ValidationError as error:
        raise CommandError("A password has 8 to 1024 characters, none of them NUL. Nothing was changed.") from error
