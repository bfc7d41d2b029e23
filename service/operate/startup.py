"""Starting and stopping the parts of the service."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar

from pydantic import SecretStr
from sqlalchemy.engine import URL
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from service import migrations
from service.index.ingestion.indexer import Indexer
from service.index.ingestion.sweeper import release_claims
from service.operate.archiving.queries import drop_slot
from service.operate.bootstrap import bootstrap
from service.operate.deployment.queries import key_fingerprint
from service.operate.deployment.service import ensure_secret_key, refuse_marked
from service.operate.distribution import is_distributed
from service.platform.database import CONNECT_SECONDS, POOL_WAIT_SECONDS, Database, driver_url
from service.platform.deployment_errors import ClusterError
from service.platform.descriptors import INDEXING_CONNECTIONS, database_connections
from service.platform.disk import open_guard
from service.platform.files import open_files
from service.platform.logs import logger
from service.platform.postgres.host import DatabaseServerError
from service.platform.postgres.server import DATABASE, SUPERUSER, EmbeddedPostgres, FolderLock
from service.platform.primary import NewestPrimary
from service.platform.rate_limits import RateLimits, open_rate_limits
from service.platform.secrets import Keys
from service.platform.settings import Settings
from service.platform.sharing import Share
from service.runtime import Runtime
from service.runtime.jobs import queries as job_queries
from service.runtime.standbys import Standby, Standbys
from service.text import languages
from service.text.embedding import MODEL_FOLDER, Arithmetic, Embedders, open_embedders
from service.text.language_models import LanguageModels
from service.text.reading import Extractor, Limits, PageReader
from service.text.reranking import Reranker
from service.web.multipart import remove_leftovers

# Two waits of this length, with pauses, are shorter than the claims that these connections renew.
INDEXING_WAIT_SECONDS = 10
EMBEDDED_CONNECT_SECONDS = 60
WARM_SECONDS = 3.0
# Without a free connection to a standby, the request goes to the primary.
STANDBY_WAIT_SECONDS = 0.5
STANDBY_CONNECT_SECONDS = 2
Part = TypeVar("Part", Database, Embedders, Indexer, LanguageModels, Reranker)


@dataclass(frozen=True)
class Prepared:
    """A database ready for serving: the address for the service's own role, and the secret key."""

    url: URL
    key: SecretStr


def start_embedded(stack: ExitStack, settings: Settings) -> EmbeddedPostgres | None:
    """Start or find PostgreSQL in the data folder until `stack` closes; None if the settings name another database.
    Blocks. Raises DatabaseServerError if in use or unable to start, DeploymentError for a half-restored backup."""
    try:
        settings.data_dir.mkdir(mode=0o711, parents=True, exist_ok=True)
    except OSError as error:
        msg = f"The data folder {settings.data_dir} can't be created: {error.strerror}. Change CARREL_DATA_DIR."
        raise DatabaseServerError(msg) from error
    refuse_marked(settings.data_dir)
    if settings.database_url is not None:
        if settings.archive_url is not None:
            raise ValueError(
                "CARREL_ARCHIVE_URL works only with the embedded database. Unset it, or unset CARREL_DATABASE_URL."
            )
        return None
    stack.callback(FolderLock(settings.data_dir).release)
    # Only this service uses the folder, so unfinished files are from a crash, and may be why the disk is full.
    remove_leftovers(settings.uploads_dir)
    if settings.files_url is None:
        open_files(settings).remove_leftovers()
    server = EmbeddedPostgres(
        settings.data_dir, connections=database_connections(settings), is_archived=settings.archive_url is not None
    )
    # Registered before the start, which may fail while the server runs.
    stack.callback(server.stop)
    server.start()
    if settings.archive_url is None:
        with server.connect(DATABASE) as connection:
            drop_slot(connection)
    return server


async def prepare(settings: Settings, server: EmbeddedPostgres | None) -> Prepared:
    """Migrate, check or make the secret key, bootstrap, and release an embedded database's claims on work. Raises
    DeploymentError: another key, or standbys of a distributed index."""
    url = await asyncio.to_thread(_migrate, settings, server)
    database = Database(url, pool_size=1, connect_seconds=EMBEDDED_CONNECT_SECONDS)
    try:
        key = await ensure_secret_key(database, given=settings.secret_key, data_dir=settings.data_dir)
        async with database.transaction(None) as connection:
            await bootstrap(connection, settings)
            distributed = await connection.run_sync(is_distributed)
        if server is not None:
            # The embedded database has only this service, so each claim is of an ended process. Later, releasing claims
            # would take work from live workers.
            await _release_all(database)
    finally:
        await database.close()
    if distributed and settings.database_replica_urls:
        raise ClusterError("Unset CARREL_DATABASE_REPLICA_URLS: a distributed index is read only from its coordinator.")
    return Prepared(url, key)


async def _release_all(database: Database) -> None:
    """Release the claims of documents and jobs. If that fails, as on a full disk, the claims expire."""
    try:
        await release_claims(database)
        async with database.transaction(None) as connection:
            await job_queries.release_all(connection)
    except (ExceptionGroup, SQLAlchemyError):
        logger.exception("claims_not_released")


@asynccontextmanager
async def open_runtime(
    settings: Settings,
    *,
    prepared: Prepared | None = None,
    share: Share | None = None,
    arithmetic: Sequence[Arithmetic] = (),
    extractor: Extractor | None = None,
    embedders: Embedders | None = None,
    rate_limits: RateLimits | None = None,
) -> AsyncGenerator[Runtime]:
    """Start the parts needed for requests, and stop them in reverse order. An unprepared database is started and
    prepared here. Given parts are shared, and stay open. Raises DatabaseServerError if PostgreSQL can't start or its
    folder is in use, DeploymentError for another secret key or a half-restored backup."""
    async with AsyncExitStack() as stack:
        share = share or Share()
        languages.keep_in(settings.data_dir / MODEL_FOLDER)
        if prepared is None:
            started = ExitStack()
            stack.push_async_callback(asyncio.to_thread, started.close)
            prepared = await prepare(settings, await asyncio.to_thread(start_embedded, started, settings))
        url, reranked = prepared.url, settings.reranking_url
        primary = NewestPrimary(share)
        database = _open_pool(stack, url, settings, primary, connections=settings.database_pool_size)
        # On a connection that stays open: `distribute-index` locks the key's row first and is refused while connections
        # are open. If it runs earlier, it ends before this read.
        async with database.transaction(None) as connection:
            await key_fingerprint(connection)
            database.is_distributed = await connection.run_sync(is_distributed)
        embedders = embedders or _close_with(stack, await open_embedders(settings, arithmetic=arithmetic))
        files = await asyncio.to_thread(open_files, settings)
        runtime = Runtime(
            settings=settings,
            keys=Keys(prepared.key),
            database=database,
            files=files,
            disk=await asyncio.to_thread(open_guard, settings, files_folder=files.folder, share=share),
            extractor=extractor or await open_extractor(stack, settings),
            embedders=embedders,
            rate_limits=rate_limits or await stack.enter_async_context(open_rate_limits(settings, share=share)),
            page_reader=_open_page_reader(stack, settings),
            models=_close_with(stack, LanguageModels(settings)),
            reranker=_close_with(stack, Reranker(reranked, settings, share=share)) if reranked else None,
            indexer=_open_indexer(stack, url, settings, embedders, primary=primary, share=share),
            standbys=_open_standbys(stack, settings),
            share=share,
        )
        stack.callback(runtime.copies.close)
        stack.push_async_callback(runtime.background.close)
        if extractor is None:
            runtime.background.spawn(_warm(runtime))
        yield runtime


async def _warm(runtime: Runtime) -> None:
    """Start the processes for reading files, at staggered times for the workers, after the service's start."""
    await asyncio.sleep(runtime.share.worker * WARM_SECONDS)
    await runtime.extractor.warm()


async def open_extractor(stack: AsyncExitStack, settings: Settings) -> Extractor:
    extractor = Extractor(
        workers=settings.extraction_workers,
        seconds=settings.extraction_seconds,
        memory_bytes=settings.extraction_memory_bytes,
        limits=Limits(reads_scans=settings.ocr),
    )
    stack.push_async_callback(asyncio.to_thread, extractor.close)
    return extractor


def _close_with(stack: AsyncExitStack, part: Part) -> Part:
    stack.push_async_callback(part.close)
    return part


def _open_page_reader(stack: AsyncExitStack, settings: Settings) -> PageReader:
    reader = PageReader(
        workers=max(settings.ocr_workers, 1),
        seconds=settings.ocr_seconds,
        memory_bytes=settings.ocr_memory_bytes,
        pixels=Limits().pixels,
    )
    stack.push_async_callback(asyncio.to_thread, reader.close)
    return reader


def _migrate(settings: Settings, server: EmbeddedPostgres | None) -> URL:
    """Migrate the database as its owner, and return the address for the service's own role."""
    if server is not None:
        owner, service = server.url(user=SUPERUSER), server.url()
    else:
        assert settings.database_url is not None  # noqa: S101 - else there is an embedded server
        owner = service = driver_url(settings.database_url.get_secret_value())
    try:
        migrations.upgrade(owner)
    except OperationalError as error:
        if server is not None or error.statement is not None:
            raise
        reason = " ".join(str(error.orig).split())
        raise DatabaseServerError(f"CARREL_DATABASE_URL: {reason} Check the address and the server.") from error
    return service


def _open_pool(
    stack: AsyncExitStack,
    url: URL,
    settings: Settings,
    primary: NewestPrimary,
    *,
    connections: int,
    wait_seconds: float = POOL_WAIT_SECONDS,
) -> Database:
    database = Database(
        url,
        pool_size=connections,
        statement_seconds=settings.request_seconds,
        wait_seconds=wait_seconds,
        # The embedded server is starting or running: on a busy machine, wait longer.
        connect_seconds=CONNECT_SECONDS if settings.database_url else EMBEDDED_CONNECT_SECONDS,
        primary=primary,
    )
    return _close_with(stack, database)


def _open_standbys(stack: AsyncExitStack, settings: Settings) -> Standbys:
    if settings.database_replica_urls and settings.database_url is None:
        msg = "CARREL_DATABASE_REPLICA_URLS needs CARREL_DATABASE_URL: the embedded database has no standbys."
        raise ValueError(msg)
    standbys: list[Standby] = []
    for number, given in enumerate(settings.database_replica_urls, start=1):
        url = driver_url(given.get_secret_value(), setting="CARREL_DATABASE_REPLICA_URLS")
        pool, watch = (
            _close_with(
                stack,
                Database(
                    url,
                    pool_size=connections,
                    statement_seconds=settings.request_seconds,
                    wait_seconds=STANDBY_WAIT_SECONDS,
                    connect_seconds=STANDBY_CONNECT_SECONDS,
                ),
            )
            for connections in (settings.database_pool_size, 1)
        )
        place = f"{url.host or url.query.get('host')}:{url.port or 5432}"
        standbys.append(Standby(number, place, pool=pool, watch=watch))
    return Standbys(standbys)


def _open_indexer(
    stack: AsyncExitStack, url: URL, settings: Settings, embedders: Embedders, *, primary: NewestPrimary, share: Share
) -> Indexer:
    """Open the indexer with a separate connection pool, so requests never wait for indexing."""
    database = _open_pool(
        stack, url, settings, primary, connections=INDEXING_CONNECTIONS, wait_seconds=INDEXING_WAIT_SECONDS
    )
    return _close_with(
        stack, Indexer(database, embedders, backlog_seconds=settings.indexing_backlog_seconds, share=share)
    )
