"""The store for counts shared by replicas, with a circuit breaker. Import on demand: the import takes 0.2 s."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from limits.aio.storage import RedisStorage
from limits.aio.strategies import FixedWindowRateLimiter
from limits.errors import StorageError
from redis.asyncio import ConnectionPool
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from service.platform.logs import logger

# A nearby store answers within a millisecond; a request waits no longer than this.
STORE_SECONDS = 0.5
# How long a failed store is not asked again, so that its failure delays few requests.
STORE_REST_SECONDS = 5.0
WARN_EVERY_SECONDS = 60.0


class SharedStore:
    """A Redis shared by replicas. After a failure or slow answer, it is not used for a while."""

    def __init__(self, url: str) -> None:
        self._pool: ConnectionPool = ConnectionPool.from_url(  # pyright: ignore[reportUnknownMemberType]
            url,
            socket_timeout=STORE_SECONDS,
            socket_connect_timeout=STORE_SECONDS,
            # Reconnect at once if the connection was closed while idle.
            retry=Retry(NoBackoff(), 1),
        )
        storage = RedisStorage(
            f"async+{url}",
            wrap_exceptions=True,
            implementation="redispy",
            connection_pool=self._pool,  # pyright: ignore[reportArgumentType] - declared for plain options alone
        )
        self.limiter = FixedWindowRateLimiter(storage)
        self._asked_again_at = 0.0
        self._warned_at = float("-inf")

    @asynccontextmanager
    async def briefly(self) -> AsyncGenerator[None]:
        """Use the store for a short time: if it fails or is slow, the block ends and the store rests for a while."""
        try:
            async with asyncio.timeout(STORE_SECONDS):
                yield
        except (StorageError, OSError, TimeoutError) as error:
            self._rest(error)

    @property
    def in_service(self) -> bool:
        return time.monotonic() >= self._asked_again_at

    async def greet(self) -> None:
        """Ping the store, so that an unavailable store is noticed at the start."""
        async with self.briefly():
            await self.limiter.storage.get("greeting")

    async def close(self) -> None:
        await self._pool.aclose()

    def _rest(self, error: Exception) -> None:
        now = time.monotonic()
        self._asked_again_at = now + STORE_REST_SECONDS
        if now - self._warned_at >= WARN_EVERY_SECONDS:
            self._warned_at = now
            # The error's text may contain the address, and with it a password.
            logger.warning("rate_limit_store_away", kind=type(error.__cause__ or error).__name__)
