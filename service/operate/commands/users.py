"""`user set-password`, `user reset-second-factor` and `texts erase`."""

import asyncio
from typing import Annotated
from uuid import UUID

import typer

from carrel.wire.fields import normal_email
from service.domains.people.directory.users import set_password
from service.identity import queries
from service.identity.passwords import hash_password
from service.identity_server.interface import reset_for_operator
from service.operate.commands.context import (
    CommandError,
    ask_password,
    format_count,
    new_group,
    open_database,
    settings_of,
)
from service.operate.commands.organizations import find_organizations, name_organizations, switch_passwords_on
from service.platform.database import Database
from service.platform.settings import Settings

app = new_group("Users.")
texts = new_group("Texts that people wrote: queries, comments, conversations with agents.")

Email = Annotated[str, typer.Option(help="The user's address.")]
Organization = Annotated[str | None, typer.Option(help="The organization's name or id, if several have this address.")]


@app.command("set-password")
def set_password_of(
    context: typer.Context,
    email: Email,
    organization: Organization = None,
    allow_passwords: Annotated[
        bool, typer.Option("--allow-passwords", help="Switch passwords back on in the user's organization.")
    ] = False,
) -> None:
    """Set a user's password: asked for on a terminal, else read from a line of standard input."""
    settings, address = settings_of(context), normal_email(email)
    usable = asyncio.run(_set_password(settings, email=address, organization=organization, allow=allow_passwords))
    off = "" if usable else " Passwords are switched off in the organization. To switch them on, add --allow-passwords."
    typer.echo(f"The password of {email} was changed.{off}", err=True)


@app.command("reset-second-factor")
def reset_second_factor_of(context: typer.Context, email: Email, organization: Organization = None) -> None:
    """Remove a user's second factors and recovery codes, if lost and no admin is left to do so."""
    asyncio.run(_reset(settings_of(context), email=normal_email(email), organization=organization))
    typer.echo(f"{email} has no second factor now, and signs in with the password alone.", err=True)


@texts.command()
def erase(
    context: typer.Context, email: Annotated[str, typer.Option(help="Email address of the texts' author.")]
) -> None:
    """Erase a person's texts in every organization. The audit log and search log still show the actions."""
    count = asyncio.run(_erase(settings_of(context), email))
    typer.echo(f"{format_count(count, 'text')} erased. Earlier backups still contain them.", err=True)


async def _erase(settings: Settings, email: str) -> int:
    # Imported here, because it imports the whole service, which no other command needs.
    from service.domains.oversight.audit_log.erasure import erase_person  # noqa: PLC0415

    async with open_database(settings) as database:
        return await erase_person(database, email=email)


async def _reset(settings: Settings, *, email: str, organization: str | None) -> None:
    async with open_database(settings) as database:
        organization_id = await _find_organization(database, email=email, wanted=organization)
        async with database.transaction(organization_id) as connection:
            await reset_for_operator(connection, organization_id, email=email)


async def _set_password(settings: Settings, *, email: str, organization: str | None, allow: bool) -> bool:
    async with open_database(settings) as database:
        organization_id = await _find_organization(database, email=email, wanted=organization)
        password_hash = await hash_password(await asyncio.to_thread(ask_password))
        async with database.transaction(organization_id) as connection:
            if not await set_password(connection, organization_id, email=email, password_hash=password_hash):
                raise CommandError(f"{email} is no longer a user.")
            if allow:
                await switch_passwords_on(connection, organization_id)
            return (await queries.get_organization(connection, organization_id)).passwords_enabled


async def _find_organization(database: Database, *, email: str, wanted: str | None) -> UUID:
    organizations, among = await find_organizations(database, wanted)
    if not among:
        raise CommandError(f"There is no organization {wanted!r}. There are: {name_organizations(organizations)}.")
    knowing = [organization for organization in among if await _knows(database, organization.organization_id, email)]
    if not knowing:
        raise CommandError(f"There is no user {email} in {name_organizations(among)}. Check the address.")
    if len(knowing) > 1:
        raise CommandError(
            f"Several organizations have {email}. Choose one with --organization ID: {name_organizations(knowing)}."
        )
    return knowing[0].organization_id


async def _knows(database: Database, organization_id: UUID, email: str) -> bool:
    async with database.transaction(organization_id, read_only=True) as connection:
        found = await queries.find_principals(connection, organization_id, emails=[email], ids=())
    return any(principal.kind == "user" for principal in found)
