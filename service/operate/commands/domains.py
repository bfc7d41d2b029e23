"""The commands `domains list`, `confirm` and `withdraw`: the organization whose provider serves a domain."""

import asyncio
from collections.abc import Mapping
from typing import Annotated
from uuid import UUID

import typer
from sqlalchemy.exc import IntegrityError

from service.identity.queries import list_organizations
from service.identity_server.interface import Claim, confirm_domain, list_claims
from service.operate.commands.context import CommandError, new_group, open_database, settings_of
from service.platform.database import Database
from service.platform.settings import Settings

app = new_group("Domains that organizations claim for their sign-in providers.")

Domain = Annotated[str, typer.Argument(help="The domain, such as example.com.")]
Organization = Annotated[str | None, typer.Option(help="The organization's name or id, when several claim the domain.")]


@app.command("list")
def list_all(context: typer.Context) -> None:
    """Print each domain, whether it is confirmed, and the claiming organization."""
    claims, names = asyncio.run(_read(settings_of(context)))
    for claim in claims:
        state = "waiting" if claim.confirmed_at is None else "confirmed"
        typer.echo(f"{claim.domain}\t{state}\t{names[claim.organization_id]} ({claim.organization_id})")
    if not claims:
        typer.echo("No organization has claimed a domain.", err=True)


@app.command()
def confirm(context: typer.Context, domain: Domain, organization: Organization = None) -> None:
    """Confirm an organization's domain. People with an address in the domain then sign in with its provider."""
    name, changed = asyncio.run(_set_confirmed(settings_of(context), domain.lower(), organization, confirmed=True))
    if changed:
        typer.echo(f"{domain} is confirmed for {name}. Its provider now handles addresses of this domain.", err=True)
    else:
        typer.echo(f"{domain} was already confirmed for {name}. Nothing was changed.", err=True)


@app.command()
def withdraw(context: typer.Context, domain: Domain, organization: Organization = None) -> None:
    """Withdraw a domain from an organization. People already signed in stay signed in."""
    name, _ = asyncio.run(_set_confirmed(settings_of(context), domain.lower(), organization, confirmed=False))
    typer.echo(f"{domain} is no longer confirmed for {name}.", err=True)


async def _read(settings: Settings) -> tuple[list[Claim], Mapping[UUID, str]]:
    async with open_database(settings) as database:
        return await _claims(database)


async def _claims(database: Database) -> tuple[list[Claim], Mapping[UUID, str]]:
    async with database.transaction(None, read_only=True) as connection:
        names = {item.organization_id: item.name for item in await list_organizations(connection)}
        return await list_claims(connection), names


async def _set_confirmed(settings: Settings, domain: str, wanted: str | None, *, confirmed: bool) -> tuple[str, bool]:
    async with open_database(settings) as database:
        claims, names = await _claims(database)
        claim = _choose_claim(claims, names, domain=domain, wanted=wanted, confirmed=confirmed)
        try:
            changed = await confirm_domain(database, claim.organization_id, domain=domain, confirmed=confirmed)
        except IntegrityError as error:
            holders = [names[each.organization_id] for each in claims if each.domain == domain and each.confirmed_at]
            holder = holders[0] if holders else "another organization"  # confirmed since the claims were read
            message = f"{domain} is confirmed for {holder}. Withdraw that confirmation first."
            raise CommandError(message) from error
    return names[claim.organization_id], changed


def _choose_claim(
    claims: list[Claim], names: Mapping[UUID, str], *, domain: str, wanted: str | None, confirmed: bool
) -> Claim:
    of_domain = [claim for claim in claims if claim.domain == domain]
    among = [item for item in of_domain if wanted in (None, names[item.organization_id], str(item.organization_id))]
    if not confirmed:
        among = [item for item in among if item.confirmed_at is not None]
    if not of_domain:
        raise CommandError(
            f"No organization claims {domain}. First, an admin adds the domain to a sign-in provider, on the page "
            "Sign-in of the workbench or with `carrel providers`."
        )
    if not among:
        state = "claimed" if confirmed else "claimed or confirmed"
        owner = "any organization" if wanted is None else wanted
        raise CommandError(
            f"Nothing to do: {domain} is not {state} for {owner}. It is claimed by {_list_claimants(of_domain, names)}."
        )
    if len(among) > 1:
        message = f"Several organizations claim {domain}. Add --organization: {_list_claimants(among, names)}."
        raise CommandError(message)
    return among[0]


def _list_claimants(claims: list[Claim], names: Mapping[UUID, str]) -> str:
    return ", ".join(f"{names[claim.organization_id]} ({claim.organization_id})" for claim in claims)
