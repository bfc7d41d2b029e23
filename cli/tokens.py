"""`carrel tokens`: the tokens of service accounts."""

from typing import Annotated

import typer

import carrel
from carrel.wire.scopes import Scope
from carrel.wire.service_accounts import ServiceAccount
from cli.choosing import AsJson, PlanOnly, Yes, confirm, require_active
from cli.completing import names_of_accounts
from cli.keys import Expires
from cli.listing import print_json, say_done, show_list, to_json
from cli.outcome import connect
from cli.screen import Screen
from cli.service_accounts import ACCOUNT, Account, account_of

app = typer.Typer(no_args_is_help=True)

_Token = Annotated[str, typer.Argument(metavar="TOKEN", help="Name or id of the token.")]


@app.command("list")
def list_tokens(
    account: Annotated[
        str | None, typer.Argument(metavar="ACCOUNT", help=f"{ACCOUNT} Default: all.", autocompletion=names_of_accounts)
    ] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """List the tokens of service accounts, without values, including inactive tokens."""
    with connect(as_json=as_json) as (screen, client):
        chosen = None if account is None else account_of(account, client).service_account_id
        found = list(client.admin.service_account_tokens.list(chosen, page_size=1000))
        emails = {item.service_account_id: item.email for item in client.admin.service_accounts.list(page_size=1000)}
    show_list(
        screen,
        "tokens",
        found,
        {
            "name": lambda token: token.name,
            "account": lambda token: emails.get(token.service_account_id),
            "scopes": lambda token: token.scopes,
            "status": lambda token: token.status,
            "expires": lambda token: token.expires_at,
            "last used": lambda token: token.last_used_at or "never",
            "ends in": lambda token: token.hint,
            "id": lambda token: token.token_id,
        },
        empty="No tokens yet. Create a token with: carrel tokens create",
    )


@app.command()
def create(
    account: Account,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Purpose of the token.")],
    *,
    scope: Annotated[list[Scope], typer.Option(help="Scope of the token; repeatable.")],
    expires: Expires = None,
    plan_only: PlanOnly = False,
    as_json: AsJson = False,
) -> None:
    """Create a token, valid for a year unless --expires says otherwise, and print the value, only this time.

    With --plan: show the rights of the token without creating it."""
    with connect(as_json=as_json) as (screen, client):
        found = account_of(account, client)
        if plan_only:
            _show_reach(client, found, scope, screen=screen)
            return
        mint = client.admin.service_account_tokens.mint
        made = mint(found.service_account_id, name, scopes=scope, expires_at=expires)
    say_done(screen, "created", made.token, **to_json(made))
    until = f"until {made.expires_at:%Y-%m-%d}"
    screen.say(f"The token acts as {found.email} {until}. It is shown only once: store it as a secret.")


@app.command()
def revoke(token: _Token, *, yes: Yes = False, as_json: AsJson = False) -> None:
    """Revoke a token at once and permanently."""
    with connect(as_json=as_json, yes=yes, action="revoke it") as (screen, client):
        found = require_active(token, client.admin.service_account_tokens.list, kind="token")
        confirm(screen, f"Revoke {found.name}?", outcome="revoked")
        revoked = client.admin.service_account_tokens.revoke(found.token_id)
    say_done(screen, "revoked", f"Revoked {found.name}.", **to_json(revoked))


def _show_reach(client: "carrel.Carrel", account: ServiceAccount, scopes: list[Scope], *, screen: Screen) -> None:
    reach = client.admin.service_account_tokens.preview_reach(account.service_account_id, scopes)
    if screen.as_json:
        print_json(screen, "planned", **to_json(reach))
        return
    for count, what in (
        (reach.document_count, "documents to read"),
        (reach.editable_document_count, "documents to update"),
        (reach.collection_count, "collections to use"),
        (reach.agent_count, "agents to message"),
        (len(reach.endpoints), "operations to call"),
    ):
        screen.line(f"{what:<20} {count:>9,}")
    for warning in reach.warnings:
        screen.line(warning, style="yellow")
    screen.say("Nothing was created: this was the plan.")
