"""What a running service holds, and how it comes up and goes down."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy.engine import URL

from service import migrations
from service.clock import Clock
from service.database import Database, driver_url
from service.deployment.restore_mark import refuse_marked
from service.deployment.service import settle_secret_key
from service.embedded import SUPERUSER, EmbeddedPostgres, FolderLock
from service.embedded_host import DatabaseServerError
from service.embedding import Embedders, open_embedders
from service.extraction import Extractor
from service.files import FileStore, open_files
from service.identity.bootstrap import bootstrap
from service.jobs.queue import Jobs
from service.keys import Keys
from service.language_models import LanguageModels
from service.logs import logger
from service.multipart import remove_leftovers
from service.rate_limits import RateLimits, open_rate_limits
from service.settings import Settings

SUPERVISE_SECONDS = 1.0


class Background:
    """Tasks that outlive the request that started them; a failure is logged and ends only its own task."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run `work` beside the requests. What must survive a crash is to be found again by the sweeper."""
        task = asyncio.create_task(_logged(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Cancel what still runs and wait until it has stopped."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def _logged(work: Coroutine[Any, Any, Any]) -> None:
    try:
        await work
    except Exception:  # noqa: BLE001 - a background task has nobody else to tell
        logger.exception("background_task_failed")


@dataclass(frozen=True)
class Runtime:
    """The parts every endpoint and rule may ask for."""

    settings: Settings
    keys: Keys
    database: Database
    files: FileStore
    extractor: Extractor
    embedders: Embedders
    rate_limits: RateLimits
    models: LanguageModels
    jobs: Jobs = field(default_factory=Jobs)
    background: Background = field(default_factory=Background)
    clock: Clock = field(default_factory=Clock)


@asynccontextmanager
async def open_runtime(
    settings: Settings,
    *,
    extractor: Extractor | None = None,
    embedders: Embedders | None = None,
    rate_limits: RateLimits | None = None,
) -> AsyncGenerator[Runtime]:
    """Bring the service up to where it can answer, and take it down again in the opposite order.

    An extractor, embedders and rate limits that are given are shared with others: they are used, and left open.

    Raises:
        DatabaseServerError: another service uses the data folder, or the embedded PostgreSQL can't start.
        DeploymentError: the database was set up with another secret key, or a backup is half restored.
    """
    async with AsyncExitStack() as stack:
        await asyncio.to_thread(settings.data_dir.mkdir, mode=0o711, parents=True, exist_ok=True)
        refuse_marked(settings.data_dir)
        database = await _open_database(stack, settings)
        key = await settle_secret_key(database, given=settings.secret_key, data_dir=settings.data_dir)
        async with database.transaction(None) as connection:
            await bootstrap(connection, settings)
        runtime = Runtime(
            settings=settings,
            keys=Keys(key),
            database=database,
            files=await asyncio.to_thread(open_files, settings),
            extractor=extractor or await open_extractor(stack, settings),
            embedders=embedders or await _open_embedders(stack, settings),
            rate_limits=rate_limits or await stack.enter_async_context(open_rate_limits(settings)),
            models=_open_models(stack, settings),
        )
        stack.push_async_callback(runtime.background.close)
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


async def _open_database(stack: AsyncExitStack, settings: Settings) -> Database:
    """Start or find PostgreSQL, migrate it as its owner, and connect as the service's restricted role."""
    if settings.database_url is None:
        owner, service = await _start_embedded(stack, settings.data_dir)
        # The folder is this process's alone, so whatever lies there was cut off by a crash.
        await asyncio.to_thread(remove_leftovers, settings.uploads_dir)
    else:
        owner = service = driver_url(settings.database_url.get_secret_value())
    await asyncio.to_thread(migrations.upgrade, owner)
    database = Database(service, pool_size=settings.database_pool_size, statement_seconds=settings.request_seconds)
    stack.push_async_callback(database.close)
    return database


async def _start_embedded(stack: AsyncExitStack, data_dir: Path) -> tuple[URL, URL]:
    stack.callback(FolderLock(data_dir).release)
    server = await asyncio.to_thread(EmbeddedPostgres, data_dir)
    await asyncio.to_thread(server.start)
    stack.push_async_callback(asyncio.to_thread, server.stop)
    watch = asyncio.create_task(_keep_running(server))
    stack.push_async_callback(_cancel, watch)
    return server.url(user=SUPERUSER), server.url()


async def _keep_running(server: EmbeddedPostgres) -> None:
    """Start the embedded server again when it has died; requests get a 503 meanwhile."""
    while True:
        await asyncio.sleep(SUPERVISE_SECONDS)
        if server.process() is None:
            logger.error("embedded_postgres_died")
            try:
                await asyncio.to_thread(server.start)
            except DatabaseServerError:
                logger.exception("embedded_postgres_does_not_start")


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
