"""Every case runs synchronously and asynchronously, against a real server in a thread."""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest
import pytest_asyncio

from carrel import AsyncCarrel, Carrel
from carrel.oauth import AsyncOAuthClient, OAuthClient
from tests.client.server import Server, serving

API_KEY = "svc_key_of_the_tests_0123456789abcdefghij"


class Caller:
    """A client in one of its two modes; `naps` are the pauses it asked for, which take no time unless they are real."""

    def __init__(
        self, client: Carrel | AsyncCarrel | OAuthClient | AsyncOAuthClient, *, real_pauses: bool = False
    ) -> None:
        self.client: Any = client
        self.naps: list[float] = []
        if real_pauses:
            return
        nap: Callable[[float], None] | Callable[[float], Awaitable[None]] = self.naps.append
        if self.is_async:

            async def nap(seconds: float) -> None:
                self.naps.append(seconds)

        client._session.driver.sleep = nap  # type: ignore[assignment]

    @property
    def is_async(self) -> bool:
        """Whether calls are awaited."""
        return isinstance(self.client, AsyncCarrel | AsyncOAuthClient)

    async def __call__(self, operate: Callable[[Any], Any]) -> Any:
        """Return what an operation on the client comes to, in either mode."""
        result = operate(self.client)
        return await result if inspect.isawaitable(result) else result

    async def walk(self, items: Any) -> list[Any]:
        """Return what an iterator or asynchronous iterator yields."""
        return [item async for item in items] if self.is_async else list(items)

    async def close(self) -> None:
        """Close the client."""
        await self(lambda client: client.close())


MakeCaller = Callable[..., Caller]


@pytest.fixture(scope="session")
def _server() -> Iterator[Server]:
    with serving() as server:
        yield server


@pytest.fixture
def server(_server: Server) -> Server:
    """The misbehaving server, its script and memory empty."""
    _server.script.clear()
    _server.received.clear()
    return _server


@pytest_asyncio.fixture(params=["sync", "async"])
async def make_caller(request: pytest.FixtureRequest, server: Server) -> AsyncIterator[MakeCaller]:
    """Make clients in this run's mode, for the misbehaving server unless told otherwise."""
    made: list[Caller] = []

    def make(**options: Any) -> Caller:
        kind = Carrel if request.param == "sync" else AsyncCarrel
        made.append(Caller(kind(**{"api_key": API_KEY, "base_url": server.base_url, **options})))
        return made[-1]

    yield make
    for caller in made:
        await caller.close()


@pytest.fixture
def caller(make_caller: MakeCaller) -> Caller:
    """A client with its defaults."""
    return make_caller()
