"""`carrel provisioning`: the tokens by which an identity provider keeps people and groups (SCIM)."""

from typing import Annotated

import typer

from carrel.wire.scim_tokens import ScimToken
from cli.choosing import AsJson, Yes, check_can_ask, is_confirmed, working_one
from cli.keys import Expires
from cli.listing import Columns, say_done, show_list, to_json
from cli.outcome import client_of
from cli.screen import Screen

app = typer.Typer(no_args_is_help=True)

COLUMNS: Columns[ScimToken] = {
    "name": lambda one: one.name,
    "status": lambda one: one.status,
    "expires": lambda one: one.expires_at or "never",
    "last request": lambda one: one.last_used_at or "none yet",
    "ends in": lambda one: one.hint,
    "id": lambda one: one.token_id,
}


@app.command("list")
def list_tokens(*, as_json: AsJson = False) -> None:
    """List the tokens of identity providers, without their values; those that have stopped too."""
    screen = Screen(as_json=as_json)
    with client_of(screen) as client:
        found = list(client.admin.scim_tokens.list(page_size=1000))
    show_list(screen, "tokens", found, COLUMNS, empty="There is none: carrel provisioning create makes one.")


@app.command()
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Whose token it is, such as Entra.")],
    *,
    expires: Expires = None,
    as_json: AsJson = False,
) -> None:
    """Create a token for an identity provider, and print its value: this once."""
    screen = Screen(as_json=as_json)
    with client_of(screen) as client:
        made = client.admin.scim_tokens.create(name, expires_at=expires)
    say_done(screen, "created", made.token, **to_json(made))
    screen.say(f"Give it to the provider, with the address {made.base_url}. It is shown this once.")


@app.command()
def revoke(
    token: Annotated[str, typer.Argument(metavar="TOKEN", help="Its name or id.")],
    *,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Stop a token at once, for good."""
    screen = Screen(as_json=as_json)
    check_can_ask(screen, yes=yes, action="revoke it")
    with client_of(screen) as client:
        one = working_one(token, client.admin.scim_tokens.list, kind="token", command="provisioning")
        if not is_confirmed(f"Revoke {one.name}?", screen=screen, yes=yes, outcome="revoked"):
            return
        revoked = client.admin.scim_tokens.revoke(one.token_id)
    say_done(screen, "revoked", f"Revoked {one.name}: no request with it is taken any more.", **to_json(revoked))
