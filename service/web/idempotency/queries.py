"""SQL of stored responses. The caller has authenticated, and sees only their own responses."""

from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from sqlalchemy import ColumnElement, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from service.platform.sql import delete_rows, matches
from service.schema.tables import kept_responses

KEPT_FOR = timedelta(hours=24)


@dataclass(frozen=True)
class Key:
    """The key of a stored response; `digest` is the SHA-256 of the client's idempotency key."""

    organization_id: UUID
    principal_id: UUID
    digest: str


@dataclass(frozen=True)
class Kept:
    """A stored response; `body` is None if the response showed a secret."""

    request_digest: bytes
    body: bytes | None
    headers: dict[str, str]


async def claim(connection: Connection, key: Key, *, request_digest: bytes) -> Kept | None:
    """Claim a key for the transaction (None), or return the response stored under the key. Concurrent requests wait for
    the transaction's end: after a commit they find the response, after a rollback the first takes the key."""
    values = insert(kept_responses).values(
        organization_id=key.organization_id,
        principal_id=key.principal_id,
        idempotency_key=key.digest,
        request_digest=request_digest,
    )
    renewed = values.on_conflict_do_update(
        index_elements=["organization_id", "principal_id", "idempotency_key"],
        set_={"request_digest": values.excluded.request_digest, "body": None, "created_at": func.now()},
        where=kept_responses.c.created_at < func.now() - KEPT_FOR,
    )
    claimed = await connection.execute(renewed.returning(kept_responses.c.idempotency_key))
    if claimed.first() is not None:
        return None
    columns = select(kept_responses.c.request_digest, kept_responses.c.body, kept_responses.c.headers)
    row = (await connection.execute(columns.where(_matches_key(key)))).one()
    return Kept(request_digest=row.request_digest, body=row.body, headers=row.headers)


async def keep(connection: Connection, key: Key, *, body: bytes, headers: dict[str, str]) -> None:
    await connection.execute(update(kept_responses).where(_matches_key(key)).values(body=body, headers=headers))


async def delete_old(connection: Connection, organization_id: UUID) -> None:
    old = kept_responses.c.created_at < func.now() - KEPT_FOR
    await delete_rows(connection, kept_responses, organization_id, old)


def _matches_key(key: Key) -> ColumnElement[bool]:
    return matches(kept_responses, key.organization_id, principal_id=key.principal_id, idempotency_key=key.digest)
