"""The first organization, from the settings, on an empty database."""

from pydantic import SecretStr
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.fields import normal_email
from service.domains.people.directory.organizations import create_organization
from service.identity import queries
from service.identity.passwords import hash_password
from service.platform import secrets
from service.platform.database import enter_organization
from service.platform.identifiers import uuid7
from service.platform.logs import logger
from service.platform.settings import Settings


async def bootstrap(connection: Connection, settings: Settings) -> None:
    """Create organization, admin and API key, if there is no organization yet. Raises ValueError for bad settings."""
    if await queries.any_organization(connection):
        return
    if settings.bootstrap_admin_email is None:
        logger.warning("no_organization", advice="Set CARREL_BOOTSTRAP_ADMIN_EMAIL and CARREL_BOOTSTRAP_API_KEY.")
        return
    email = _email(settings.bootstrap_admin_email)
    api_key = _api_key(settings.bootstrap_api_key)
    password = settings.bootstrap_admin_password
    password_hash = None if password is None else await hash_password(password)
    await queries.lock_bootstrap(connection)
    if await queries.any_organization(connection):
        return
    organization_id = uuid7()
    await enter_organization(connection, organization_id)
    await create_organization(
        connection,
        organization_id,
        name=email.rpartition("@")[2],
        admin_email=email,
        password_hash=password_hash,
        api_key=api_key,
    )
    logger.info("organization_created", organization_id=str(organization_id))


def _email(text: str) -> str:
    email = normal_email(text)
    local, _, domain = email.rpartition("@")
    if not local or not domain or any(char.isspace() for char in email):
        raise ValueError("CARREL_BOOTSTRAP_ADMIN_EMAIL is not an email address.")
    return email


def _api_key(value: SecretStr | None) -> secrets.Secret | None:
    if value is None:
        return None
    try:
        return secrets.accept_api_key(value)
    except ValueError as exc:
        raise ValueError(f"CARREL_BOOTSTRAP_API_KEY can't be used. {exc}") from exc
