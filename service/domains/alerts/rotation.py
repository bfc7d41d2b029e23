"""Encrypting the secrets of webhooks again when the secret key changes."""

from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from service.domains.alerts.sending import queries
from service.platform.keys import Keys
from service.platform.sealing import reseal


async def reseal_secrets(connection: AsyncConnection, organization_id: UUID, *, old: Keys | None, new: Keys) -> None:
    """Encrypt every webhook's secret of an organization under the new key; one of a lost key is removed."""
    old_key, new_key = old and old.webhook_key(organization_id), new.webhook_key(organization_id)
    for rule_id, sealed in (await queries.lock_secrets(connection, organization_id)).items():
        values = {"sealed_secret": reseal(old_key, new_key, row_id=rule_id, sealed=sealed)}
        await queries.update_rule(connection, organization_id, rule_id=rule_id, values=values)
