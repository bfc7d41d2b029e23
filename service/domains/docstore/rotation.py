"""Encrypting the addresses of syncs again when the secret key changes."""

from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from service.domains.docstore import queries
from service.domains.docstore.sealing import SealError, seal, unseal
from service.platform.keys import Keys


async def reseal(connection: AsyncConnection, organization_id: UUID, *, old: Keys | None, new: Keys) -> None:
    """Encrypt every address of an organization under the new key.

    An address that can't be decrypted, because the old key is lost, is removed: its sync asks for the address again.
    """
    for sync_id, sealed in (await queries.lock_sealed_uris(connection, organization_id)).items():
        anew: bytes | None = None
        if old is not None:
            try:
                uri = unseal(old, organization_id, sync_id=sync_id, sealed=sealed)
                anew = seal(new, organization_id, sync_id=sync_id, uri=uri)
            except SealError:
                anew = None
        await queries.set_sealed_uri(connection, organization_id, sync_id=sync_id, sealed_uri=anew)
