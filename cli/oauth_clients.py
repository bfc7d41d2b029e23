"""`carrel oauth-clients`: applications with permission to act for people."""

from typing import Annotated
from uuid import UUID

import typer

from carrel.wire.oauth_clients import OAuthClient, OAuthConsent
from cli.choosing import AsJson, Yes, as_id, confirm, require_only
from cli.listing import Columns, print_json, say_done, show_list
from cli.outcome import connect, usage
from cli.screen import Screen

app = typer.Typer(no_args_is_help=True)

_Client = Annotated[UUID, typer.Argument(metavar="CLIENT", parser=as_id, help="Id from `carrel oauth-clients list`.")]
_Hosts = Annotated[list[str], typer.Argument(metavar="HOST…", help="For example claude.ai.")]

CLIENTS: Columns[OAuthClient] = {
    "client": lambda application: application.client_id,
    "name": lambda application: application.name,
    "status": lambda application: application.status,
    "calls": lambda application: application.audience,
    "scopes": lambda application: application.scopes,
    "described at": lambda application: application.document_url,
}
CONSENTS: Columns[OAuthConsent] = {
    "person": lambda consent: consent.email,
    "name": lambda consent: consent.application_name,
    "may": lambda consent: consent.scopes,
    "limited to": lambda item: "" if item.collection_ids is None else item.collection_names or "deleted collections",
    "since": lambda consent: consent.granted_at,
    "last used": lambda consent: consent.last_used_at or "never",
    "client": lambda consent: consent.client_id,
}


@app.command("list")
def list_clients(*, as_json: AsJson = False) -> None:
    """List the clients: registered clients, and clients described by a document."""
    with connect(as_json=as_json) as (screen, client):
        found = client.admin.oauth_clients.list(page_size=1000)
        show_list(screen, "oauthClients", found, CLIENTS, empty="No applications. Add them on the page OAuth clients.")


@app.command()
def consents(
    *,
    oauth_client: Annotated[UUID | None, typer.Option("--client", metavar="ID", help="For this application.")] = None,
    email: Annotated[str | None, typer.Option("--person", metavar="EMAIL", help="Of this person.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the consents of people to clients: since when, for which collections, and the last use."""
    with connect(as_json=as_json) as (screen, client):
        found = client.admin.oauth_clients.list_consents(client_id=oauth_client, email=email, page_size=1000)
        show_list(screen, "consents", found, CONSENTS, empty="No consents.")


@app.command()
def withdraw(
    oauth_client: _Client,
    *,
    email: Annotated[
        str | None, typer.Option("--person", metavar="EMAIL", help="Only for this person. Default: everyone.")
    ] = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Withdraw the consent of people to a client, from the next request on; they may consent again."""
    with connect(as_json=as_json, yes=yes, action="withdraw it") as (screen, client):
        found = list(client.admin.oauth_clients.list(ids=[oauth_client]))
        hint = "carrel oauth-clients list shows all with ids"
        match = require_only(found, kind="client", name=str(oauth_client), hint=hint)
        confirm(screen, f"Withdraw the consents of {email or 'everyone'} for {match.name}?", outcome="withdrawn")
        count = client.admin.oauth_clients.withdraw_consents(oauth_client, email=email).withdrawn_count
    words = f"{match.name} can no longer act for {count:,} {('person' if count == 1 else 'people')}."
    say_done(screen, "withdrawn", words, withdrawnCount=count)


@app.command()
def hosts(*, as_json: AsJson = False) -> None:
    """List the allowed hosts of client documents. People may connect the clients described on these hosts."""
    with connect(as_json=as_json) as (screen, client):
        allowed = client.admin.organization.get().client_document_hosts
    if as_json:
        print_json(screen, "listed", clientDocumentHosts=allowed)
        return
    if not allowed:
        screen.say("No hosts. Allow a host with: carrel oauth-clients allow-host")
    screen.lines(allowed)


@app.command("allow-host")
def allow_host(hosts: _Hosts, *, as_json: AsJson = False) -> None:
    """Allow hosts: people may connect every client described by a document on them."""
    with connect(as_json=as_json) as (screen, client):
        allowed = client.admin.organization.update(added_client_document_hosts=hosts)
    _say_allowed(screen, allowed.client_document_hosts)


@app.command("remove-host")
def remove_host(hosts: _Hosts, *, yes: Yes = False, as_json: AsJson = False) -> None:
    """Remove hosts, with the clients described there, and all consents and tokens."""
    gone = {host.strip().lower() for host in hosts}
    with connect(as_json=as_json, yes=yes, action="remove the host") as (screen, client):
        organization = client.admin.organization
        before = organization.get().client_document_hosts
        if unknown := sorted(gone - set(before)):
            raise usage(screen, f"Not in the list: {', '.join(unknown)}. carrel oauth-clients hosts shows the list.")
        confirm(screen, f"Remove {', '.join(sorted(gone))} and all clients described there?", outcome="taken away")
        allowed = organization.update(removed_client_document_hosts=gone)
    _say_allowed(screen, allowed.client_document_hosts)


def _say_allowed(screen: Screen, hosts: list[str]) -> None:
    say_done(screen, "changed", f"Allowed: {', '.join(hosts) or 'none'}.", clientDocumentHosts=hosts)
