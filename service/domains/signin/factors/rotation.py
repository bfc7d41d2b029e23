"""Encrypting the secrets of authenticator apps again when the secret key changes."""

from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from service.domains.signin.factors import queries
from service.platform.keys import Keys
from service.platform.sealing import reseal


async def reseal_factors(connection: AsyncConnection, organization_id: UUID, *, old: Keys | None, new: Keys) -> None:
    """Encrypt every secret of an organization under the new key.

    One of a lost key is removed, and its factor stays: a password alone doesn't become enough. A recovery code, or a
    reset by an admin or operator, lets the person in.
    """
    old_key, new_key = old and old.second_factor_key(organization_id), new.second_factor_key(organization_id)
    for factor_id, sealed in (await queries.lock_secrets(connection, organization_id)).items():
        resealed = reseal(old_key, new_key, row_id=factor_id, sealed=sealed)
        await queries.set_secret(connection, organization_id, factor_id=factor_id, sealed_secret=resealed)
