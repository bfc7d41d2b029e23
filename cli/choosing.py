"""Which one is meant, and whether it may go: what commands that take a name, or delete, have in common."""

from collections.abc import Sequence
from typing import Annotated, TypeVar
from uuid import UUID

import typer

from carrel import InvalidArgumentError
from cli.outcome import usage
from cli.screen import Screen

T = TypeVar("T")

Yes = Annotated[bool, typer.Option("--yes", help="Do it without asking.")]
PlanOnly = Annotated[bool, typer.Option("--plan", help="Say what would change, and change nothing.")]


def id_in(text: str) -> UUID | None:
    """Return the id that a text is, None for a name."""
    try:
        return UUID(text)
    except ValueError:
        return None


def require_one(found: Sequence[T], *, kind: str, name: str, hint: str) -> T:
    """Return the only match of a name; raises InvalidArgumentError, which ends in the hint, for none or several."""
    if len(found) != 1:
        msg = f"There {f'are several {kind}s' if found else f'is no {kind}'} {name}; {hint}"
        raise InvalidArgumentError(msg)
    return found[0]


def check_can_ask(screen: Screen, *, yes: bool, action: str = "delete it") -> None:
    """End the command when there is a question to ask, and nobody to answer."""
    if not (yes or screen.can_ask):
        raise usage(screen, f"There is no terminal to ask on: say --yes to {action}.")


def check_plan(screen: Screen, *, plan_only: bool, yes: bool) -> None:
    """End the command when both a plan and the change are wanted, or there is nobody to ask which."""
    if plan_only and yes:
        raise usage(screen, "Say either --plan or --yes.")
    if not (plan_only or yes or screen.can_ask):
        raise usage(screen, "There is no terminal to ask on: say --plan to see what would end, or --yes to do it.")


def is_confirmed(question: str, *, screen: Screen, yes: bool, outcome: str = "deleted") -> bool:
    """Ask, unless that was said beforehand; say that nothing was done when the answer is no."""
    if yes or screen.confirm(question):
        return True
    screen.say(f"Nothing was {outcome}.")
    return False
