"""`carrel people sessions` and `end-sessions`: where somebody is signed in, and ending that."""

from typing import Annotated

import typer
from rich.table import Table

from carrel.directory.tables import printable
from carrel.wire.fields import format_instant
from carrel.wire.sessions import PersonSession
from cli.exit_codes import ExitCode
from cli.loading import AsJson
from cli.outcome import client_of, usage
from cli.persons import app
from cli.screen import Screen

_Email = Annotated[str, typer.Argument(metavar="EMAIL", help="The person's address.")]


@app.command()
def sessions(email: _Email, *, as_json: AsJson = False) -> None:
    """Show the browsers that somebody is signed in with, and the applications that act for them."""
    screen = Screen(as_json=as_json)
    with client_of(screen) as client:
        found = list(client.admin.sessions.list(email, page_size=1000))
    if as_json:
        rows = [one.model_dump(mode="json") for one in found]
        screen.json({"outcome": "listed", "exitCode": ExitCode.DONE, "sessions": rows})
    elif found:
        screen.show(_table(found))
    else:
        screen.say(f"{email} is signed in nowhere.")


@app.command("end-sessions")
def end_sessions(
    email: _Email,
    *,
    session: Annotated[
        list[str] | None, typer.Option("--session", metavar="ID", help="Only this one, as listed; repeatable.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="End them without asking.")] = False,
    as_json: AsJson = False,
) -> None:
    """Sign somebody out everywhere, or end some of their sessions, from the next request on."""
    screen = Screen(as_json=as_json)
    if not (yes or screen.can_ask):
        raise usage(screen, "There is no terminal to ask on: say --yes to end the sessions.")
    if not (yes or screen.confirm(f"End {'these' if session else 'all'} sessions of {email}?")):
        raise typer.Exit(ExitCode.DONE)
    with client_of(screen) as client:
        ended = client.admin.sessions.end(email, session_ids=session).ended_count
    if as_json:
        screen.json({"outcome": "ended", "exitCode": ExitCode.DONE, "endedCount": ended})
    else:
        screen.say(f"{ended} {'session' if ended == 1 else 'sessions'} of {email} ended.")


def _table(found: list[PersonSession]) -> Table:
    table = Table(box=None, pad_edge=False)
    for head in ("session", "what", "since", "last used", "device", "address"):
        table.add_column(head)
    for one in found:
        cells = (
            str(one.session_id),
            one.application_name or one.kind.value.lower(),
            format_instant(one.created_at),
            "" if one.last_used_at is None else format_instant(one.last_used_at),
            one.device or "",
            one.address or "",
        )
        table.add_row(*map(printable, cells))
    return table
