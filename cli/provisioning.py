"""`carrel provisioning`: tokens for identity providers to maintain people and groups (SCIM)."""

from typing import Annotated

import typer

from carrel.wire.scim_tokens import ScimToken
from cli.choosing import AsJson, Yes, confirm, require_active
from cli.keys import Expires
from cli.listing import Columns, say_done, show_list, to_json
from cli.outcome import connect

app = typer.Typer(no_args_is_help=True)

_Token = Annotated[str, typer.Argument(metavar="TOKEN", help="Name or id of the token.")]

COLUMNS: Columns[ScimToken] = {
    "name": lambda token: token.name,
    "status": lambda token: token.status,
    "expires": lambda token: token.expires_at or "never",
    "last request": lambda token: token.last_used_at or "none yet",
    "ends in": lambda token: token.hint,
    "id": lambda token: token.token_id,
}


@app.command("list")
def list_tokens(*, as_json: AsJson = False) -> None:
    """List the tokens of identity providers, without values, including inactive tokens."""
    with connect(as_json=as_json) as (screen, client):
        found = client.admin.scim_tokens.list(page_size=1000)
        show_list(screen, "tokens", found, COLUMNS, empty="No tokens. Create a token with: carrel provisioning create")


@app.command()
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the provider, such as Entra.")],
    *,
    expires: Expires = None,
    as_json: AsJson = False,
) -> None:
    """Create a token for an identity provider, and print the value, only this time."""
    with connect(as_json=as_json) as (screen, client):
        made = client.admin.scim_tokens.create(name, expires_at=expires)
    say_done(screen, "created", made.token, **to_json(made))
    screen.say(f"Enter it in the provider, with the URL {made.base_url}. It is shown only once.")


@app.command()
def revoke(token: _Token, *, yes: Yes = False, as_json: AsJson = False) -> None:
    """Revoke a token at once and permanently."""
    with connect(as_json=as_json, yes=yes, action="revoke it") as (screen, client):
        found = require_active(token, client.admin.scim_tokens.list, kind="token", command="provisioning")
        confirm(screen, f"Revoke {found.name}?", outcome="revoked")
        revoked = client.admin.scim_tokens.revoke(found.token_id)
    say_done(screen, "revoked", f"Revoked {found.name}.", **to_json(revoked))
