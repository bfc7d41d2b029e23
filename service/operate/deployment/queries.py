"""SQL of the deployment's single row, outside any organization, and of the secrets sealed under its key."""

from collections.abc import Callable
from typing import Any, NamedTuple
from uuid import UUID

from sqlalchemy import Column, column, func, select, table, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from service.platform.database import APPLICATION_NAME
from service.platform.secrets import Keys, reseal
from service.platform.sql import count_rows
from service.schema.alerts import alert_rules
from service.schema.catalog import docstore_syncs
from service.schema.signin import second_factors, sign_in_providers
from service.schema.tables import deployment


class Sealed(NamedTuple):
    secret: Column[Any]
    row_id: Column[Any]
    key: Callable[[Keys, UUID], bytes]


# Secrets that a lost key makes unreadable. Afterwards a sync needs its address again, a person with an authenticator
# app needs a recovery code or a reset, and a provider needs its client secret again. Sessions' ID tokens are not
# listed: without them, only the sign-out at the provider is incomplete.
SEALED = (
    Sealed(docstore_syncs.c.sealed_uri, docstore_syncs.c.sync_id, Keys.docstore_key),
    Sealed(second_factors.c.sealed_secret, second_factors.c.factor_id, Keys.second_factor_key),
    Sealed(alert_rules.c.sealed_secret, alert_rules.c.alert_rule_id, Keys.webhook_key),
    Sealed(sign_in_providers.c.sealed_secret, sign_in_providers.c.provider_id, Keys.provider_key),
)


async def key_fingerprint(connection: Connection) -> bytes | None:
    """Return the fingerprint of the database's secret key; None before the first start."""
    return (await connection.execute(select(deployment.c.key_fingerprint))).scalar_one_or_none()


async def insert_key_fingerprint(connection: Connection, *, fingerprint: bytes) -> None:
    """Store the fingerprint of the secret key, unless already stored."""
    await connection.execute(insert(deployment).values(key_fingerprint=fingerprint).on_conflict_do_nothing())


async def lock_key_fingerprint(connection: Connection) -> bytes | None:
    """Lock and return the fingerprint, as the table's owner. A starting service waits until the commit."""
    await connection.execute(text("LOCK TABLE deployment IN ACCESS EXCLUSIVE MODE"))
    return await key_fingerprint(connection)


async def count_services(connection: Connection) -> int:
    """Return the number of the database's connections by services and commands."""
    activity = table("pg_stat_activity", column("datname"), column("application_name"))
    is_here = activity.c.datname == func.current_database()
    return await count_rows(connection, is_here, activity.c.application_name == APPLICATION_NAME)


async def replace_key_fingerprint(connection: Connection, *, fingerprint: bytes) -> None:
    """Replace the fingerprint of the secret key. Only the database's owner may do so."""
    await connection.execute(update(deployment).values(key_fingerprint=fingerprint))


async def reseal_secrets(connection: Connection, organization_id: UUID, *, old: Keys | None, new: Keys) -> None:
    """Encrypt every secret of an organization under the new key. Secrets of a lost key (None) are removed."""
    for sealed in SEALED:
        old_key, new_key = old and sealed.key(old, organization_id), sealed.key(new, organization_id)
        for row_id, value in (await lock_sealed(connection, organization_id, sealed=sealed)).items():
            columns = sealed.secret.table.c
            own = update(sealed.secret.table).where(
                columns.organization_id == organization_id, columns[sealed.row_id.name] == row_id
            )
            resealed = reseal(old_key, new_key, row_id=row_id, sealed=value)
            await connection.execute(own.values({sealed.secret.name: resealed}))


async def lock_sealed(connection: Connection, organization_id: UUID, *, sealed: Sealed) -> dict[UUID, bytes]:
    """Lock an organization's rows with a sealed secret; return the secrets by row id."""
    own = sealed.secret.table.c.organization_id == organization_id
    secrets = select(sealed.row_id, sealed.secret).where(own, sealed.secret.is_not(None))
    statement = secrets.order_by(sealed.row_id).with_for_update()
    return {row[0]: row[1] for row in await connection.execute(statement)}
