"""`carrel keys`: the API keys of programs that act for an owner."""

from typing import Annotated

import typer

from carrel.wire.api_keys import ApiKey
from cli.choosing import AsJson, Yes, confirm, require_active
from cli.listing import Columns, say_done, show_list, show_object, to_json
from cli.outcome import connect

app = typer.Typer(no_args_is_help=True)

_Key = Annotated[str, typer.Argument(metavar="KEY", help="Name or id of the key.")]

Expires = Annotated[str | None, typer.Option("--expires", metavar="TIME", help="Expiry, such as 2027-01-31T00:00:00Z.")]

COLUMNS: Columns[ApiKey] = {
    "name": lambda key: key.name,
    "owner": lambda key: key.owner_email,
    "status": lambda key: key.status,
    "acts for users": lambda key: key.may_act_for_users,
    "expires": lambda key: key.expires_at or "never",
    "last used": lambda key: key.last_used_at or "never",
    "ends in": lambda key: key.hint,
    "id": lambda key: key.api_key_id,
}


@app.command("list")
def list_keys(
    *,
    owner: Annotated[str | None, typer.Option(metavar="EMAIL", help="Only keys of this person.")] = None,
    as_json: AsJson = False,
) -> None:
    """List API keys, without values, including inactive keys."""
    with connect(as_json=as_json) as (screen, client):
        found = client.admin.api_keys.list(owner_email=owner, page_size=1000)
        show_list(screen, "apiKeys", found, COLUMNS, empty="No keys. Create a key with: carrel keys create")


@app.command()
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Purpose of the key.")],
    *,
    owner: Annotated[str | None, typer.Option(metavar="EMAIL", help="Owner. Default: you.")] = None,
    acts_for_users: Annotated[bool, typer.Option("--acts-for-users", help="Allow requests for other users.")] = False,
    expires: Expires = None,
    as_json: AsJson = False,
) -> None:
    """Create an API key, and print the value, only this time."""
    with connect(as_json=as_json) as (screen, client):
        create = client.admin.api_keys.create
        made = create(name, owner_email=owner, may_act_for_users=acts_for_users, expires_at=expires)
    say_done(screen, "created", made.api_key, **to_json(made))
    until = "until it is revoked" if made.expires_at is None else f"until {made.expires_at:%Y-%m-%d}"
    screen.say(f"The key acts as {made.owner_email} {until}. It is shown only once: store it as a secret.")


def whoami(*, as_json: AsJson = False) -> None:
    """Show the owner, the rights and the expiry of the key or token in CARREL_API_KEY. Its value is never shown."""
    with connect(as_json=as_json) as (screen, client):
        found = client.permissions.who_am_i()
    facts = {
        "Service": client.base_url,
        "Part of": found.organization_name,
        "Name": f"{found.credential_name} ({found.kind})",
        "Scopes": "everything that its owner can do" if found.scopes is None else found.scopes,
        "Admin": found.is_admin,
        "Expires": found.expires_at or "never",
    }
    show_object(screen, found, title=f"{found.name} <{found.email}>", facts=facts.items())


@app.command()
def revoke(key: _Key, *, yes: Yes = False, as_json: AsJson = False) -> None:
    """Revoke an API key at once and permanently."""
    with connect(as_json=as_json, yes=yes, action="revoke it") as (screen, client):
        found = require_active(key, client.admin.api_keys.list, kind="key")
        confirm(screen, f"Revoke {found.name}, which acts as {found.owner_email}?", outcome="revoked")
        revoked = client.admin.api_keys.revoke(found.api_key_id)
    say_done(screen, "revoked", f"Revoked {found.name}.", **to_json(revoked))
