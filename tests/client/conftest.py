"""Every case runs synchronously and asynchronously, against a real server in a thread."""

import inspect
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import anyio
import pytest
import pytest_asyncio

from carrel import AsyncCarrel, Carrel
from carrel.oauth import AsyncOAuthClient, OAuthClient
from tests.client.samples import DOCUMENT_ID
from tests.client.server import Server, serving

API_KEY = "svc_key_of_the_tests_0123456789abcdefghij"
ACCESS_TOKEN = "svc_at_of_the_tests_0123456789abcdefghij"


class Caller:
    """A client in either mode; `naps` are requested pauses, shortened to the share `pace`."""

    def __init__(self, client: Carrel | AsyncCarrel | OAuthClient | AsyncOAuthClient, *, pace: float = 0.0) -> None:
        self.client: Any = client
        self.naps: list[float] = []

        def nap(seconds: float) -> None:
            self.naps.append(seconds)
            time.sleep(seconds * pace)

        async def nap_async(seconds: float) -> None:
            self.naps.append(seconds)
            await anyio.sleep(seconds * pace)

        client._session.driver.sleep = nap_async if self.is_async else nap  # type: ignore[assignment]

    @property
    def is_async(self) -> bool:
        return isinstance(self.client, AsyncCarrel | AsyncOAuthClient)

    async def __call__(self, operate: Callable[[Any], Any]) -> Any:
        result = operate(self.client)
        return await result if inspect.isawaitable(result) else result

    async def walk(self, items: Any) -> list[Any]:
        return [item async for item in items] if self.is_async else list(items)

    async def enter(self, resource: Any) -> Any:
        if self.is_async:
            async with resource as entered:
                return entered
        with resource as entered:
            return entered

    async def close(self) -> None:
        await self(lambda client: client.close())


MakeCaller = Callable[..., Caller]


def delete(client: Any) -> Any:
    return client.catalog.delete_document(DOCUMENT_ID)


@pytest.fixture(scope="session")
def _server() -> Iterator[Server]:
    with serving() as server:
        yield server


@pytest.fixture
def server(_server: Server) -> Server:
    _server.script.clear()
    _server.received.clear()
    return _server


@pytest_asyncio.fixture(params=["sync", "async"])
async def open_client(request: pytest.FixtureRequest) -> AsyncIterator[MakeCaller]:
    made: list[Caller] = []

    def make(*arguments: Any, kinds: Any = (Carrel, AsyncCarrel), pace: float = 0.0, **options: Any) -> Caller:
        blocking, awaiting = kinds
        kind = blocking if request.param == "sync" else awaiting
        made.append(Caller(kind(*arguments, **options), pace=pace))
        return made[-1]

    yield make
    for caller in made:
        await caller.close()


@pytest.fixture
def make_caller(open_client: MakeCaller, server: Server) -> MakeCaller:
    return lambda **options: open_client(**{"api_key": API_KEY, "base_url": server.base_url, **options})


@pytest.fixture
def person(make_caller: MakeCaller) -> Caller:
    return make_caller(api_key=None, access_token=ACCESS_TOKEN)


@pytest.fixture
def caller(make_caller: MakeCaller) -> Caller:
    return make_caller()
