"""`organization create` and `organization allow-passwords`."""

import asyncio
from collections.abc import Sequence
from typing import Annotated
from uuid import UUID

import typer
from pydantic import SecretStr, TypeAdapter, ValidationError
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.fields import EmailAddress, Label, normal_email
from service.audit.service import Change, record_unattended
from service.domains.people.directory.organizations import create_organization
from service.identity.passwords import hash_password
from service.identity.queries import Organization, list_organizations, update_organization
from service.operate.commands.context import CommandError, ask_password, new_group, open_database, settings_of
from service.platform import secrets
from service.platform.database import Database, enter_organization
from service.platform.identifiers import uuid7
from service.platform.settings import Settings

app = new_group("Organizations, which are separate from each other.")

_LABEL: TypeAdapter[str] = TypeAdapter(Label)
_EMAIL: TypeAdapter[str] = TypeAdapter(EmailAddress)


@app.command()
def create(
    context: typer.Context,
    name: Annotated[str, typer.Option(help="The organization's name.")],
    admin_email: Annotated[str, typer.Option(help="The first admin; the domain becomes the organization's.")],
    admin_password: Annotated[
        bool, typer.Option("--admin-password", help="Ask for a password, or read it from standard input.")
    ] = False,
) -> None:
    """Create an organization with a first admin, and print the organization's id and the admin's API key, once."""
    checked_name, email = _validate(_LABEL, name, "--name"), _validate(_EMAIL, admin_email, "--admin-email")
    password = ask_password() if admin_password else None
    key = secrets.mint(secrets.API_KEY)
    organization_id = asyncio.run(
        _create(settings_of(context), name=checked_name, email=normal_email(email), password=password, key=key)
    )
    typer.echo(f"organization_id={organization_id}")
    typer.echo(f"api_key={key.value.get_secret_value()}")


@app.command("allow-passwords")
def allow_passwords(
    context: typer.Context,
    name: Annotated[str | None, typer.Option(help="Its name or id, if there are several organizations.")] = None,
) -> None:
    """Allow sign-in with passwords again: the way back in if the organization's provider fails."""
    typer.echo(f"{asyncio.run(_allow(settings_of(context), name))} allows passwords.", err=True)


async def _allow(settings: Settings, wanted: str | None) -> str:
    async with open_database(settings) as database:
        organizations, among = await find_organizations(database, wanted)
        if len(among) != 1:
            raise CommandError(f"Choose an organization with --name. There are: {name_organizations(organizations)}.")
        async with database.transaction(among[0].organization_id) as connection:
            await switch_passwords_on(connection, among[0].organization_id)
    return among[0].name


async def find_organizations(
    database: Database, wanted: str | None
) -> tuple[Sequence[Organization], Sequence[Organization]]:
    """Return all organizations, and those with the wanted name or id (None: all)."""
    async with database.transaction(None, read_only=True) as connection:
        found = await list_organizations(connection)
    return found, [item for item in found if wanted in (None, item.name, str(item.organization_id))]


def name_organizations(organizations: Sequence[Organization]) -> str:
    return ", ".join(f"{item.name} ({item.organization_id})" for item in organizations[:20]) or "none"


async def switch_passwords_on(connection: Connection, organization_id: UUID) -> None:
    """Allow passwords in an organization, with an audit log entry."""
    await update_organization(connection, organization_id, values={"passwords_enabled": True})
    change = Change("organization.update", "organization", organization_id, {"passwordsEnabled": True})
    await record_unattended(connection, organization_id, change=change)


async def _create(
    settings: Settings, *, name: str, email: str, password: SecretStr | None, key: secrets.Secret
) -> UUID:
    password_hash = None if password is None else await hash_password(password)
    organization_id = uuid7()
    async with open_database(settings, new=True) as database, database.transaction(None) as connection:
        await enter_organization(connection, organization_id)
        await create_organization(
            connection,
            organization_id,
            name=name,
            admin_email=email,
            password_hash=password_hash,
            api_key=key,
            api_key_name="First",
        )
    return organization_id


def _validate(kind: TypeAdapter[str], text: str, option: str) -> str:
    try:
        return kind.validate_python(text)
    except ValidationError as error:
        raise CommandError(f"{option}: {error.errors()[0]['msg'].removeprefix('Value error, ')}.") from error
