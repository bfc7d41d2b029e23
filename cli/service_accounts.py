"""`carrel service-accounts`: accounts for programs, with tokens and without a password."""

from typing import Annotated

import typer

import carrel
from carrel.wire.api_keys import CredentialStatus
from carrel.wire.common import ServiceAccountReference
from carrel.wire.service_accounts import ServiceAccount, ServiceAccountToken
from cli.choosing import AsJson, Yes, confirm, id_in, require_only
from cli.completing import names_of_accounts
from cli.listing import Columns, say_done, show_list, show_object, to_json
from cli.outcome import connect
from flows.operations.formatting import count_text

app = typer.Typer(no_args_is_help=True)

ACCOUNT = "Email address, name or id of a service account."
Account = Annotated[str, typer.Argument(metavar="ACCOUNT", help=ACCOUNT, autocompletion=names_of_accounts)]

COLUMNS: Columns[ServiceAccount] = {
    "name": lambda account: account.display_name,
    "address": lambda account: account.email,
    "created": lambda account: account.created_at,
    "id": lambda account: account.service_account_id,
}


@app.command("list")
def list_accounts(
    *, query: Annotated[str | None, typer.Option(help="Part of the name or address.")] = None, as_json: AsJson = False
) -> None:
    """List service accounts."""
    with connect(as_json=as_json) as (screen, client):
        found = client.admin.service_accounts.list(query=query, page_size=1000)
        empty = "No service accounts yet. To create: carrel service-accounts create"
        show_list(screen, "serviceAccounts", found, COLUMNS, empty=empty if query is None else "No match.")


@app.command()
def show(account: Account, *, as_json: AsJson = False) -> None:
    """Show a service account, its groups, tokens and number of readable documents."""
    with connect(as_json=as_json) as (screen, client):
        found = account_of(account, client)
        tokens = list(client.admin.service_account_tokens.list(found.service_account_id, page_size=1000))
        reference = ServiceAccountReference(id=found.service_account_id)
        groups = [item for item in client.admin.groups.list_memberships(reference, page_size=1000) if not item.through]
        reach = client.admin.access.count_resources(readable_by=reference)
    facts = [("address", found.email), ("id", found.service_account_id), ("created", found.created_at)]
    facts += [("can read", f"{reach.total:,} resources"), *(("in", group.name) for group in groups)]
    facts += [("token", _token(token)) for token in tokens]
    show_object(
        screen,
        found,
        title=found.display_name,
        facts=facts,
        memberships=[to_json(membership) for membership in groups],
        canRead=[to_json(count) for count in reach.counts],
        tokens=[to_json(item) for item in tokens],
    )


@app.command()
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the account, such as the program.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Create a service account, at first without read access."""
    with connect(as_json=as_json) as (screen, client):
        made = client.admin.service_accounts.create(name)
    words = f"Created {made.display_name} <{made.email}>. Create a token with: carrel tokens create {made.email}"
    say_done(screen, "created", words, **to_json(made))


@app.command()
def delete(account: Account, *, yes: Yes = False, as_json: AsJson = False) -> None:
    """Delete a service account: the tokens stop at once, and all memberships end. Uploads stay."""
    with connect(as_json=as_json, yes=yes) as (screen, client):
        found = account_of(account, client)
        tokens = client.admin.service_account_tokens.list(found.service_account_id, page_size=1000)
        working = sum(token.status is CredentialStatus.ACTIVE for token in tokens)
        question = f"Delete {found.display_name} <{found.email}>? {count_text(working, 'active token')} will stop."
        confirm(screen, question)
        ended = client.admin.service_accounts.delete(found.service_account_id)
    words = f"Deleted {found.display_name}. {count_text(ended.revoked_token_count, 'active token')} stopped working."
    say_done(screen, "deleted", words, **to_json(ended))


def account_of(name: str, client: "carrel.Carrel") -> ServiceAccount:
    """Return the service account with an address, name or id; raises InvalidArgumentError for none or several."""
    accounts = client.admin.service_accounts
    if id_in(name) is not None:
        found = list(accounts.list(ids=[name]))
    else:
        found = [item for item in accounts.list(query=name, page_size=1000) if name in {item.email, item.display_name}]
    hint = "carrel service-accounts list shows all accounts"
    return require_only(found, kind="service account", name=name, hint=hint)


def _token(token: ServiceAccountToken) -> str:
    ends = f", until {token.expires_at:%Y-%m-%d}" if token.status is CredentialStatus.ACTIVE else ""
    return f"{token.name} (…{token.hint}): {token.status}{ends}"
