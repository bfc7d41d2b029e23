"""However many find a token ended, in threads, tasks and processes, the service is asked for another once."""

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import trio

from carrel import AsyncCarrel, Carrel
from carrel.oauth import (
    FileTokenStore,
    MemoryTokenStore,
    OAuthClient,
    SignInRequiredError,
    StoredTokens,
    Tokens,
    TokenStore,
)
from tests.harness.services import RunningService
from tests.oauth.flow import SCOPE, App, a_person, an_app, later, works
from tests.oauth.sdk import callback, ended, newly, token_requests

opened: list[OAuthClient] = []
MANY = 50
PROCESSES = 4
Start = Callable[..., "subprocess.Popen[str]"]
KINDS = ["ended by the application's clock", "ended by the service's clock"]

# Asks for the session's token in five threads when told to, and prints what they got; with `die`, the process is killed
# when it has new tokens, before they are stored.
PROCESS = """
import json, os, signal, sys
from concurrent.futures import ThreadPoolExecutor
from carrel import Carrel
from carrel._drivers import SyncDriver
from carrel.oauth import FileTokenStore, OAuthClient
folder, client_id, client_secret, auth_url, mode = sys.argv[1:]
store = FileTokenStore(folder)
if mode == "die":
    store.put = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
oauth = OAuthClient(client_id, client_secret, redirect_uri="https://app.example.test/callback", auth_url=auth_url)
source = oauth.token_source(store, "ada")
print("ready", flush=True)
sys.stdin.readline()
with ThreadPoolExecutor(5) as threads:
    got = list(threads.map(lambda _: SyncDriver(oauth._http).run(source.current()), range(5)))
print(json.dumps(got))
"""


def oauth_of(app: App) -> OAuthClient:
    """The application's client, closed after the test."""
    own = {"redirect_uri": app.redirect_uri, "auth_url": app.service.base_url}
    opened.append(OAuthClient(app.client_id, app.client_secret, scopes=[SCOPE], **own))
    return opened[-1]


@pytest.fixture(autouse=True)
def _close_clients() -> Iterator[None]:
    yield
    while opened:
        opened.pop().close()


def signed_in(service: RunningService, store: TokenStore) -> tuple[App, Tokens]:
    """An application, and Ada's tokens, in the store as well."""
    app = an_app(service)
    oauth = oauth_of(app)
    request = oauth.authorization_request()
    tokens = oauth.exchange(callback(a_person(service), request.url), request)
    store.put("ada", tokens)
    return app, tokens


@pytest.fixture(params=KINDS)
def session(request: pytest.FixtureRequest, service: RunningService) -> tuple[RunningService, StoredTokens]:
    """Ada's session, whose access token has ended by one of the two clocks."""
    store = MemoryTokenStore()
    app, tokens = signed_in(service, store)
    if request.param == KINDS[0]:
        store.put("ada", ended(tokens))
    else:
        later(service, hours=1, seconds=1)
    return service, oauth_of(app).token_source(store, "ada")


def test_fifty_threads_refresh_once(session: tuple[RunningService, StoredTokens]) -> None:
    """All of them are answered."""
    service, source = session
    with Carrel(tokens=source, base_url=service.base_url) as client, ThreadPoolExecutor(MANY) as threads:
        found = newly(service, lambda: list(threads.map(client.search.search_document_catalog, ["anything"] * MANY)))
    assert found == [200]


async def search_in(client: AsyncCarrel) -> None:
    """Search, as one of the tasks."""
    answer = await client.search.search_document_catalog("anything")
    assert answer.results == []


async def test_fifty_tasks_refresh_once(session: tuple[RunningService, StoredTokens]) -> None:
    """All of them are answered, in asyncio."""
    service, source = session
    before = token_requests(service)
    async with AsyncCarrel(tokens=source, base_url=service.base_url) as client, asyncio.TaskGroup() as tasks:
        for _ in range(MANY):
            tasks.create_task(search_in(client))
    assert token_requests(service) == [*before, 200]


def test_fifty_tasks_of_trio_refresh_once(session: tuple[RunningService, StoredTokens]) -> None:
    """All of them are answered, in trio."""
    service, source = session

    async def search_in_all() -> None:
        async with AsyncCarrel(tokens=source, base_url=service.base_url) as client, trio.open_nursery() as nursery:
            for _ in range(MANY):
                nursery.start_soon(search_in, client)

    assert newly(service, lambda: trio.run(search_in_all)) == [200]


def test_threads_and_tasks_with_sources_of_their_own_refresh_once(service: RunningService) -> None:
    """The store holds them apart, as a web application makes a source for each request."""
    store = MemoryTokenStore()
    app, tokens = signed_in(service, store)
    store.put("ada", ended(tokens))
    oauth = oauth_of(app)

    def search(_: int) -> None:
        with Carrel(tokens=oauth.token_source(store, "ada"), base_url=service.base_url) as client:
            client.search.search_document_catalog("anything")

    async def search_once() -> None:
        async with AsyncCarrel(tokens=oauth.token_source(store, "ada"), base_url=service.base_url) as client:
            await search_in(client)

    async def search_in_ten() -> None:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(10):
                tasks.create_task(search_once())

    def all_at_once() -> None:
        with ThreadPoolExecutor(20) as threads:
            running = [threads.submit(asyncio.run, search_in_ten()), *(threads.submit(search, n) for n in range(19))]
            assert [each.result() for each in running] == [None] * 20

    assert newly(service, all_at_once) == [200]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start processes that use Ada's tokens in `tmp_path`."""
    started: list[subprocess.Popen[str]] = []

    def start(app: App, mode: str = "live") -> "subprocess.Popen[str]":
        arguments = [str(tmp_path / "tokens"), app.client_id, app.client_secret, app.service.base_url, mode]
        command = [sys.executable, "-c", PROCESS, *arguments]
        started.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_processes_refresh_once(service: RunningService, tmp_path: Path, start: Start) -> None:
    """Four processes of five threads share a folder: one request, and all have what it gave."""
    store = FileTokenStore(tmp_path / "tokens")
    app, tokens = signed_in(service, store)
    store.put("ada", ended(tokens))
    processes = [start(app) for _ in range(PROCESSES)]
    assert [process.stdout.readline() for process in processes if process.stdout] == ["ready\n"] * PROCESSES

    def go() -> list[str]:
        for process in processes:
            assert process.stdin
            process.stdin.write("\n")
            process.stdin.flush()
        return [token for process in processes for token in json.loads(process.communicate(timeout=60)[0])]

    got: list[str] = []
    assert newly(service, lambda: got.extend(go())) == [200]
    stored = store.get("ada")
    assert stored is not None
    assert got == [stored.access_token] * 5 * PROCESSES
    assert works(service, stored.access_token)


@pytest.mark.parametrize("seconds", [1, 11])
def test_killed_between_refresh_and_store_the_person_signs_in_again(
    service: RunningService, tmp_path: Path, start: Start, seconds: int
) -> None:
    """The refresh token left behind is used: the next who needs one is told so, asks once, and holds no lock up."""
    store = FileTokenStore(tmp_path / "tokens")
    app, tokens = signed_in(service, store)
    store.put("ada", ended(tokens))
    process = start(app, mode="die")
    assert newly(service, lambda: process.communicate("\n", timeout=60)) == [200]
    assert process.returncode == -signal.SIGKILL
    assert store.get("ada") == ended(tokens)
    later(service, seconds=seconds)
    source = oauth_of(app).token_source(store, "ada")
    with Carrel(tokens=source, base_url=service.base_url) as client:

        def search_twice() -> None:
            for _ in range(2):
                with pytest.raises(SignInRequiredError):
                    client.search.search_document_catalog("anything")

        assert newly(service, search_twice) == [400]
    assert store.get("ada") is None


class Unlocked(MemoryTokenStore):
    """A store whose lock holds nobody off: right after the first read, somebody else has refreshed."""

    def __init__(self, oauth: OAuthClient) -> None:
        super().__init__()
        self._other: OAuthClient | None = oauth

    def get(self, key: str, /) -> Tokens | None:
        """Return what is there, and have it replaced."""
        found = super().get(key)
        other, self._other = self._other, None
        if other and found:
            self.put(key, other.refresh(found))
        return found


def test_a_race_that_no_lock_holds_is_lost_without_harm(service: RunningService) -> None:
    """Whoever comes second is refused, and goes on with what the first has stored."""
    app, tokens = signed_in(service, MemoryTokenStore())
    oauth = oauth_of(app)
    store = Unlocked(oauth)
    store.put("ada", ended(tokens))
    with Carrel(tokens=oauth.token_source(store, "ada"), base_url=service.base_url) as client:
        client.search.search_document_catalog("anything")
    assert token_requests(service) == [200, 200, 400]
