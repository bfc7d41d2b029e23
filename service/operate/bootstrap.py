"""The first organization, from the settings, on an empty database."""

from collections.abc import Callable
from typing import TypeVar

from pydantic import SecretStr
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.fields import is_address, normal_email
from service.domains.people.directory.organizations import create_organization
from service.identity import queries
from service.identity.passwords import accept_password, hash_password
from service.platform import secrets
from service.platform.database import enter_organization
from service.platform.identifiers import uuid7
from service.platform.logs import logger
from service.platform.settings import Settings

_Accepted = TypeVar("_Accepted")


async def bootstrap(connection: Connection, settings: Settings) -> None:
    """Create organization, admin and API key, if there is no organization yet; without an admin's address in the
    settings, only log a warning. Raises ValueError for bad settings."""
    if await queries.any_organization(connection):
        return
    if settings.bootstrap_admin_email is None:
        logger.warning("no_organization", advice="Set CARREL_BOOTSTRAP_ADMIN_EMAIL and CARREL_BOOTSTRAP_API_KEY.")
        return
    email = normal_email(settings.bootstrap_admin_email)
    if not is_address(email):
        raise ValueError("CARREL_BOOTSTRAP_ADMIN_EMAIL is not an email address.")
    api_key = _accept("API_KEY", settings.bootstrap_api_key, secrets.accept_api_key)
    password = _accept("ADMIN_PASSWORD", settings.bootstrap_admin_password, accept_password)
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


def _accept(name: str, value: SecretStr | None, accept: Callable[[SecretStr], _Accepted]) -> _Accepted | None:
    try:
        return None if value is None else accept(value)
    except ValueError as exc:
        raise ValueError(f"CARREL_BOOTSTRAP_{name} can't be used. {exc}") from exc
