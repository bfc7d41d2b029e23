"""Which one is meant, and whether it may go: what commands that take a name, or delete, have in common."""

from collections.abc import Sequence
from typing import Annotated, TypeVar

import typer

from carrel import InvalidArgumentError
from cli.outcome import usage
from cli.screen import Screen

T = TypeVar("T")

Yes = Annotated[bool, typer.Option("--yes", help="Delete without asking.")]


def require_one(found: Sequence[T], *, kind: str, name: str, hint: str) -> T:
    """Return the only match of a name; raises InvalidArgumentError, which ends in the hint, for none or several."""
    if len(found) != 1:
        msg = f"There {f'are several {kind}s' if found else f'is no {kind}'} {name}; {hint}"
        raise InvalidArgumentError(msg)
    return found[0]


def check_can_ask(screen: Screen, *, yes: bool) -> None:
    """End the command when there is a question to ask, and nobody to answer."""
    if not (yes or screen.can_ask):
        raise usage(screen, "There is no terminal to ask on: say --yes to delete it.")


def may_delete(question: str, *, screen: Screen, yes: bool) -> bool:
    """Ask, unless that was said beforehand; say that nothing was deleted when the answer is no."""
    if yes or screen.confirm(question):
        return True
    screen.say("Nothing was deleted.")
    return False
