"""Encrypting the client secrets of sign-in providers again when the secret key changes."""

from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from service.domains.signin.providers import queries
from service.platform.keys import Keys
from service.platform.sealing import reseal


async def reseal_client_secrets(
    connection: AsyncConnection, organization_id: UUID, *, old: Keys | None, new: Keys
) -> None:
    """Encrypt every client secret of an organization under the new key; one of a lost key is removed.

    ID tokens that sessions keep are not: at most they are not shown when somebody signs out.
    """
    old_key, new_key = old and old.provider_key(organization_id), new.provider_key(organization_id)
    for provider_id, sealed in (await queries.lock_secrets(connection, organization_id)).items():
        values = {"sealed_secret": reseal(old_key, new_key, row_id=provider_id, sealed=sealed)}
        await queries.update_provider(connection, organization_id, provider_id=provider_id, values=values)
