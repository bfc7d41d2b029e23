"""Starting and stopping the parts of the service."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from sqlalchemy.engine import URL

from service import migrations
from service.index.ingestion.indexer import Indexer
from service.operate.bootstrap import bootstrap
from service.operate.deployment.restore_mark import refuse_marked
from service.operate.deployment.service import ensure_secret_key
from service.platform.database import POOL_WAIT_SECONDS, Database, driver_url
from service.platform.descriptors import INDEXING_CONNECTIONS
from service.platform.disk import open_guard
from service.platform.files import open_files
from service.platform.keys import Keys
from service.platform.logs import logger
from service.platform.postgres.host import warn_of_lost_clusters
from service.platform.postgres.server import SUPERUSER, EmbeddedPostgres, FolderLock
from service.platform.rate_limits import RateLimits, open_rate_limits
from service.platform.settings import Settings
from service.runtime import Runtime
from service.text.embedding import Embedders, open_embedders
from service.text.extraction import Extractor
from service.text.language_models import LanguageModels
from service.web.multipart import remove_leftovers

SUPERVISE_SECONDS = 1.0
# Two such waits, and the pauses between, are shorter than a claim on work lasts that is renewed on these connections.
INDEXING_WAIT_SECONDS = 10


@asynccontextmanager
async def open_runtime(
    settings: Settings,
    *,
    extractor: Extractor | None = None,
    embedders: Embedders | None = None,
    rate_limits: RateLimits | None = None,
) -> AsyncGenerator[Runtime]:
    """Start the parts that a service needs to answer requests, and stop them in reverse order at the end.

    An extractor, embedders and rate limits that are given are shared with others: they are used, and left open.

    Raises:
        DatabaseServerError: another service uses the data folder, or the embedded PostgreSQL can't start.
        DeploymentError: the database was set up with another secret key, or a backup is half restored.
    """
    async with AsyncExitStack() as stack:
        await asyncio.to_thread(settings.data_dir.mkdir, mode=0o711, parents=True, exist_ok=True)
        refuse_marked(settings.data_dir)
        server = await _start_embedded(stack, settings)
        url = await _migrate(settings, server)
        database = _connect(stack, url, settings, connections=settings.database_pool_size)
        key = await ensure_secret_key(database, given=settings.secret_key, data_dir=settings.data_dir)
        async with database.transaction(None) as connection:
            await bootstrap(connection, settings)
        embedders = embedders or await _open_embedders(stack, settings)
        files = await asyncio.to_thread(open_files, settings)
        runtime = Runtime(
            settings=settings,
            keys=Keys(key),
            database=database,
            files=files,
            disk=await asyncio.to_thread(open_guard, settings, files_folder=files.folder),
            extractor=extractor or await open_extractor(stack, settings),
            embedders=embedders,
            rate_limits=rate_limits or await stack.enter_async_context(open_rate_limits(settings)),
            models=_open_models(stack, settings),
            indexer=_open_indexer(stack, url, settings, embedders),
        )
        stack.push_async_callback(runtime.background.close)
        if server is not None:
            runtime.background.repeat("database-server", partial(_restart_when_dead, server), every=SUPERVISE_SECONDS)
        if extractor is None:
            runtime.background.spawn(runtime.extractor.warm())
        yield runtime


async def open_extractor(stack: AsyncExitStack, settings: Settings) -> Extractor:
    """Start the processes that read files; they end with the stack."""
    extractor = Extractor(
        workers=settings.extraction_workers,
        seconds=settings.extraction_seconds,
        memory_bytes=settings.extraction_memory_bytes,
    )
    stack.push_async_callback(asyncio.to_thread, extractor.close)
    return extractor


def _open_models(stack: AsyncExitStack, settings: Settings) -> LanguageModels:
    models = LanguageModels(settings)
    stack.push_async_callback(models.close)
    return models


async def _open_embedders(stack: AsyncExitStack, settings: Settings) -> Embedders:
    embedders = await open_embedders(settings)
    stack.push_async_callback(embedders.close)
    return embedders


async def _migrate(settings: Settings, server: EmbeddedPostgres | None) -> URL:
    """Migrate the database as its owner, and return the address at which the service connects with its own role."""
    if server is not None:
        owner, service = server.url(user=SUPERUSER), server.url()
    else:
        assert settings.database_url is not None  # noqa: S101 - else there is an embedded server
        owner = service = driver_url(settings.database_url.get_secret_value())
    await asyncio.to_thread(migrations.upgrade, owner)
    return service


def _connect(
    stack: AsyncExitStack, url: URL, settings: Settings, *, connections: int, wait_seconds: float = POOL_WAIT_SECONDS
) -> Database:
    seconds = settings.request_seconds
    database = Database(url, pool_size=connections, statement_seconds=seconds, wait_seconds=wait_seconds)
    stack.push_async_callback(database.close)
    return database


def _open_indexer(stack: AsyncExitStack, url: URL, settings: Settings, embedders: Embedders) -> Indexer:
    """Open the indexer with a connection pool of its own, so that requests wait only for requests."""
    database = _connect(stack, url, settings, connections=INDEXING_CONNECTIONS, wait_seconds=INDEXING_WAIT_SECONDS)
    indexer = Indexer(database, embedders, backlog_seconds=settings.indexing_backlog_seconds)
    stack.push_async_callback(indexer.close)
    return indexer


async def _start_embedded(stack: AsyncExitStack, settings: Settings) -> EmbeddedPostgres | None:
    """Start PostgreSQL in the data folder, or find it running there; None when the settings name another database."""
    if settings.database_url is not None:
        return None
    stack.callback(FolderLock(settings.data_dir).release)
    # The folder is this process's alone, so whatever lies there was cut off by a crash; it may be why a disk is full.
    await asyncio.to_thread(remove_leftovers, settings.uploads_dir)
    server = await asyncio.to_thread(EmbeddedPostgres, settings.data_dir)
    await asyncio.to_thread(warn_of_lost_clusters, settings.data_dir)
    # Before the start, which may fail when the server runs already.
    stack.push_async_callback(asyncio.to_thread, server.stop)
    await asyncio.to_thread(server.start)
    return server


async def _restart_when_dead(server: EmbeddedPostgres) -> None:
    """Start the embedded server again when it has died; requests get a 503 meanwhile."""
    if server.process() is None:
        logger.error("embedded_postgres_died")
        await asyncio.to_thread(server.restart)
