"""`carrel people sessions` and `end-sessions`: where somebody is signed in, and ending that."""

from typing import Annotated

import typer

from carrel.wire.sessions import PersonSession
from cli.choosing import AsJson, Yes, check_can_ask, is_confirmed
from cli.listing import Columns, say_done, show_list
from cli.outcome import client_of
from cli.persons import app
from cli.screen import Screen

_Email = Annotated[str, typer.Argument(metavar="EMAIL", help="The person's address.")]

COLUMNS: Columns[PersonSession] = {
    "session": lambda one: one.session_id,
    "what": lambda one: one.application_name or one.kind.lower(),
    "since": lambda one: one.created_at,
    "last used": lambda one: one.last_used_at,
    "device": lambda one: one.device,
    "address": lambda one: one.address,
}


@app.command()
def sessions(email: _Email, *, as_json: AsJson = False) -> None:
    """Show the browsers that somebody is signed in with, and the applications that act for them."""
    screen = Screen(as_json=as_json)
    with client_of(screen) as client:
        found = list(client.admin.sessions.list(email, page_size=1000))
    show_list(screen, "sessions", found, COLUMNS, empty=f"{email} is signed in nowhere.")


@app.command("end-sessions")
def end_sessions(
    email: _Email,
    *,
    session: Annotated[
        list[str] | None, typer.Option("--session", metavar="ID", help="Only this one, as listed; repeatable.")
    ] = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Sign somebody out everywhere, or end some of their sessions, from the next request on."""
    screen = Screen(as_json=as_json)
    check_can_ask(screen, yes=yes, action="end the sessions")
    if not is_confirmed(
        f"End {'these' if session else 'all'} sessions of {email}?", screen=screen, yes=yes, outcome="ended"
    ):
        return
    with client_of(screen) as client:
        ended = client.admin.sessions.end(email, session_ids=session).ended_count
    say_done(screen, "ended", f"{ended} {'session' if ended == 1 else 'sessions'} of {email} ended.", endedCount=ended)
