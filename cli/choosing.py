"""Shared by commands with a name argument or a deletion: choosing the named object and asking for confirmation."""

from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, TypeVar
from uuid import UUID

import typer

from carrel import InvalidArgumentError
from carrel.wire.api_keys import ApiKey, CredentialStatus
from carrel.wire.scim_tokens import ScimToken
from carrel.wire.service_accounts import ServiceAccountToken
from cli.screen import Screen

T = TypeVar("T")
C = TypeVar("C", ApiKey, ScimToken, ServiceAccountToken)

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object, for programs.")]
Yes = Annotated[bool, typer.Option("--yes", help="Skip the confirmation.")]
PlanOnly = Annotated[bool, typer.Option("--plan", help="Show the changes without making them.")]
PartOfName = Annotated[str | None, typer.Option(help="Part of the name.")]
Since = Annotated[str | None, typer.Option(metavar="TIME", help="From this time on, such as 2026-01-31T00:00:00Z.")]


def id_in(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def as_id(text: str) -> UUID:
    if (found := id_in(text)) is None:
        raise typer.BadParameter(f"{text!r} is not an id. --help names the command that lists the ids.")
    return found


def require_only(found: Sequence[T], *, kind: str, name: str, hint: str) -> T:
    """Return the only match of a name; raises InvalidArgumentError with the hint for none or several."""
    if len(found) != 1:
        raise InvalidArgumentError(f"There {f'are several {kind}s' if found else f'is no {kind}'} {name}; {hint}")
    return found[0]


def require_active(name: str, listed: Callable[..., Iterable[C]], *, kind: str, command: str = "") -> C:
    """Return the key or token with the id, or the active key with the name; `command` lists them (default: `kind`)."""
    if id_in(name) is not None:
        found = list(listed(ids=[name]))
    else:
        found = [one for one in listed(page_size=1000) if one.name == name and one.status is CredentialStatus.ACTIVE]
    hint = f"carrel {command or f'{kind}s'} list shows all with ids"
    return require_only(found, kind=f"active {kind}", name=name, hint=hint)


def confirm(screen: Screen, question: str, *, outcome: str = "deleted") -> None:
    """Ask for confirmation; after a no, report that no change was made, and end the command."""
    if not screen.confirm(question):
        screen.say(f"Nothing was {outcome}.")
        raise typer.Exit
