"""A run of a sync: values, and transactions for writing."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from pydantic import SecretStr
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.common import Role
from carrel.wire.docstore import DocstoreConfig
from carrel.wire.oversight import StorageLevel
from service.auth.callers import Caller, reload_caller
from service.domains.documents.collections.service import require_collection
from service.domains.documents.docstore import queries
from service.domains.documents.docstore.mapping import Target
from service.domains.documents.docstore.queries import StoredSync
from service.domains.documents.docstore.sources import SyncError
from service.permissions.service import resolve_readers
from service.platform.errors import ServiceError
from service.platform.secrets import SealError, unseal
from service.runtime import Runtime

if TYPE_CHECKING:
    from service.domains.documents.docstore.mongodb import MongoSource

# The longest time between two signs of life of a waiting run.
MOST_SILENT_SECONDS = 10


class OvertakenError(Exception):
    """The sync was changed, deleted, or run again, so this run may no longer write."""


class RunError(SyncError):
    """The run can't continue."""


def unseal_uri(runtime: Runtime, organization_id: UUID, sync: StoredSync) -> SecretStr:
    """Return a sync's address. Raises RunError `docstore_uri_lost`."""
    if sync.sealed_uri is None:
        raise RunError("docstore_uri_lost", "The address was lost with the secret key. Enter it in the sync again.")
    try:
        return unseal(runtime.keys.docstore_key(organization_id), row_id=sync.sync_id, sealed=sync.sealed_uri)
    except SealError as exc:
        raise RunError("docstore_uri_lost", "The address can't be decrypted. Enter it in the sync again.") from exc


@dataclass(frozen=True, slots=True)
class Run:
    """A begun run; `is_new` is False for the continuation of an interrupted run."""

    runtime: Runtime
    organization_id: UUID
    sync: StoredSync
    config: DocstoreConfig
    source: "MongoSource"
    is_new: bool

    @property
    def key(self) -> queries.SyncKey:
        return queries.SyncKey(self.organization_id, self.sync.sync_id)

    @property
    def target(self) -> Target:
        """Return the common name and collection of all documents."""
        return Target(str(self.sync.sync_id), self.sync.collection_id, self.config)

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[Connection]:
        """Open a transaction with the run's lock, once disks have room; OvertakenError if another run took over."""
        await self._wait_for_room()
        async with self._lock() as connection:
            yield connection

    @asynccontextmanager
    async def _lock(self) -> AsyncGenerator[Connection]:
        async with self.runtime.database.transaction(self.organization_id) as connection:
            if not await queries.lock_run(connection, self.key, attempt=self.sync.attempt):
                raise OvertakenError
            yield connection

    async def report_alive(self) -> None:
        """Record that the run is alive, once the disks have room. OvertakenError if another run has taken over."""
        await self._wait_for_room()
        await self._report_alive()

    async def _report_alive(self) -> None:
        async with self._lock() as connection:
            await queries.save_progress(connection, self.key)

    async def _wait_for_room(self) -> None:
        """Wait for room on the disks, and keep reporting the run as alive, because a report needs little room."""
        disk = self.runtime.disk
        while disk.level is not StorageLevel.OK:
            if not disk.is_full:
                await self._report_alive()
            with suppress(TimeoutError):
                async with asyncio.timeout(MOST_SILENT_SECONDS):
                    await disk.wait_for_room()

    async def caller(self, connection: Connection) -> Caller:
        """Return the run's principal with current rights; RunError when the principal may no longer sync."""
        caller = await reload_caller(
            connection,
            self.organization_id,
            principal_id=self.sync.principal_id,
            credential_id=self.sync.credential_id,
            acting_through=self.sync.acting_through_id,
            keys=self.runtime.keys,
        )
        if caller is None:
            raise RunError(
                "sync_owner_inactive",
                "The owner of this sync is no longer active. Ask an admin to choose another owner.",
            )
        try:
            await require_collection(connection, caller, collection_id=self.sync.collection_id, at_least=Role.EDITOR)
            await resolve_readers(connection, self.organization_id, self.config)
        except ServiceError as error:
            raise RunError(error.code, error.message) from error
        return caller
