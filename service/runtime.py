"""What a running service holds, and how it comes up and goes down."""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from service.database import Database, driver_url
from service.logs import logger
from service.settings import Settings

SECRET_KEY_FILE = "secret.key"  # noqa: S105 - the file's name


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
    database: Database
    files: Any
    extractor: Any
    embedders: Any
    background: Background = field(default_factory=Background)


@asynccontextmanager
async def open_runtime(settings: Settings) -> AsyncGenerator[Runtime]:
    """Bring the service up to where it can answer, and take it down again in the opposite order."""
    async with AsyncExitStack() as stack:
        settings = settings.model_copy(update={"secret_key": settings.secret_key or kept_secret_key(settings.data_dir)})
        assert settings.database_url is not None  # noqa: S101 - the embedded server comes next
        database = Database(driver_url(settings.database_url.get_secret_value()), pool_size=settings.database_pool_size)
        stack.push_async_callback(database.close)
        runtime = Runtime(settings=settings, database=database, files=None, extractor=None, embedders=None)
        stack.push_async_callback(runtime.background.close)
        yield runtime


def kept_secret_key(data_dir: Path) -> SecretStr:
    """Read the data folder's secret key, made on first use (256 bits, readable by its owner alone)."""
    path = data_dir / SECRET_KEY_FILE
    if not path.exists():
        data_dir.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(f".{secrets.token_hex(4)}")
        partial.touch(mode=0o600)
        partial.write_text(secrets.token_urlsafe(32))
        partial.replace(path)
    return SecretStr(path.read_text().strip())
