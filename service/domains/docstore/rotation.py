"""Encrypting the addresses of syncs again when the secret key changes."""

from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from service.domains.docstore import queries
from service.platform.keys import Keys
from service.platform.sealing import reseal


async def reseal_uris(connection: AsyncConnection, organization_id: UUID, *, old: Keys | None, new: Keys) -> None:
    """Encrypt every address of an organization under the new key.

    An address that can't be decrypted, because the old key is lost, is removed: its sync asks for the address again.
    """
    old_key, new_key = old and old.docstore_key(organization_id), new.docstore_key(organization_id)
    for sync_id, sealed in (await queries.lock_sealed_uris(connection, organization_id)).items():
        resealed = reseal(old_key, new_key, row_id=sync_id, sealed=sealed)
        await queries.set_sealed_uri(connection, organization_id, sync_id=sync_id, sealed_uri=resealed)
