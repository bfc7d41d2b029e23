"""`carrel people reset-second-factor` and `second-factor`: who has to have one, and taking one away that was lost."""

from typing import Annotated

import typer

from carrel.wire.common import SecondFactorPolicy
from cli.choosing import AsJson, Yes, check_can_ask, is_confirmed
from cli.listing import say_done, to_json
from cli.outcome import client_of
from cli.screen import Screen
from cli.sessions import app

_EITHER = "an authenticator app or a passkey"
_WORDS = {
    SecondFactorPolicy.NOBODY: "Nobody has to have a second factor.",
    SecondFactorPolicy.ADMINS: f"Admins who sign in with a password have to have a second factor: {_EITHER}.",
    SecondFactorPolicy.EVERYBODY: f"Everybody who signs in with a password has to have a second factor: {_EITHER}.",
}


@app.command("second-factor")
def second_factor(
    of: Annotated[
        SecondFactorPolicy | None, typer.Argument(help="Who must have one from now on; nothing is changed without.")
    ] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Say who needs a second factor in addition to the password, or change it; an app or a passkey is one."""
    screen = Screen(as_json=as_json)
    with client_of(screen) as client:
        settings = client.admin.organization
        now = settings.get() if of is None else settings.update(second_factor=of)
    say_done(screen, "shown" if of is None else "changed", _WORDS[now.second_factor], secondFactor=now.second_factor)


@app.command("reset-second-factor")
def reset_second_factor(
    email: Annotated[str, typer.Argument(metavar="EMAIL", help="The person's address.")],
    *,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Take the second factors and recovery codes of somebody away who has lost them."""
    screen = Screen(as_json=as_json)
    check_can_ask(screen, yes=yes, action="take the second factors away")
    if not is_confirmed(
        f"{email} signs in with the password alone then. Take their second factors away?",
        screen=screen,
        yes=yes,
        outcome="reset",
    ):
        return
    with client_of(screen) as client:
        reset = client.admin.users.reset_second_factor(email)
    say_done(screen, "reset", f"{email} has no second factor any more.", **to_json(reset))
