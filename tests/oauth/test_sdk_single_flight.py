"""However many callers find a token expired, in threads, tasks and processes, it is refreshed once."""

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import anyio
import pytest

from carrel import AsyncCarrel, Carrel
from carrel.oauth import FileTokenStore, MemoryTokenStore, OAuthClient, SignInRequiredError, StoredTokens, Tokens
from tests.harness.cases import script
from tests.oauth.flow import SCOPE, App, Person, later, works
from tests.oauth.sdk import callback, ended, newly_by

MANY = 50
PROCESSES = 4
Start = Callable[..., "subprocess.Popen[str]"]
KINDS = ["ended by the application's clock", "ended by the service's clock"]

# Asks for the session's token in five threads when told to, and prints what they got; with `die`, the process is killed
# when it has new tokens, before they are stored.
PROCESS = script("single_flight_process.txt")


@pytest.fixture
def oauth(app: App) -> Iterator[OAuthClient]:
    own = {"redirect_uri": app.redirect_uri, "auth_url": app.service.base_url, "scopes": [SCOPE]}
    with OAuthClient(app.client_id, app.client_secret, **own) as client:
        yield client


@pytest.fixture
def tokens(oauth: OAuthClient, ada: Person) -> Tokens:
    request = oauth.authorization_request()
    return oauth.exchange(callback(ada, request.url), request)


@pytest.fixture(params=KINDS)
def source(request: pytest.FixtureRequest, service, oauth: OAuthClient, tokens: Tokens) -> StoredTokens:
    store = MemoryTokenStore()
    store.put("ada", ended(tokens) if request.param == KINDS[0] else tokens)
    if request.param != KINDS[0]:
        later(service, hours=1, seconds=1)
    return oauth.token_source(store, "ada")


def test_fifty_threads_refresh_once(service, source: StoredTokens) -> None:
    with Carrel(tokens=source, base_url=service.base_url) as client, ThreadPoolExecutor(MANY) as threads:
        search = client.search.search_document_catalog
        assert newly_by(service, lambda: list(threads.map(search, ["anything"] * MANY))) == [200]


async def search_in(client: AsyncCarrel) -> None:
    assert (await client.search.search_document_catalog("anything")).results == []


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_fifty_tasks_refresh_once(service, source: StoredTokens, backend: str) -> None:

    async def search_in_all() -> None:
        async with AsyncCarrel(tokens=source, base_url=service.base_url) as client, anyio.create_task_group() as tasks:
            for _ in range(MANY):
                tasks.start_soon(search_in, client)

    assert newly_by(service, lambda: anyio.run(search_in_all, backend=backend)) == [200]


def test_threads_and_tasks_with_sources_of_their_own_refresh_once(service, oauth, tokens):
    """A web application makes a source for each request; only the store coordinates them."""
    store = MemoryTokenStore()
    store.put("ada", ended(tokens))

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

    assert newly_by(service, all_at_once) == [200]


@pytest.fixture
def store(tmp_path, tokens: Tokens) -> FileTokenStore:
    store = FileTokenStore(tmp_path / "tokens")
    store.put("ada", ended(tokens))
    return store


@pytest.fixture
def start(tmp_path, app: App) -> Iterator[Start]:
    started: list[subprocess.Popen[str]] = []

    def start(mode: str = "live") -> "subprocess.Popen[str]":
        arguments = [str(tmp_path / "tokens"), app.client_id, app.client_secret, app.service.base_url, mode]
        command = [sys.executable, "-c", PROCESS, *arguments]
        started.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_processes_refresh_once(service, store: FileTokenStore, start: Start) -> None:
    processes = [start() for _ in range(PROCESSES)]
    assert [process.stdout.readline() for process in processes if process.stdout] == ["ready\n"] * PROCESSES

    def go() -> list[str]:
        for process in processes:
            assert process.stdin
            process.stdin.write("\n")
            process.stdin.flush()
        return [token for process in processes for token in json.loads(process.communicate(timeout=60)[0])]

    got: list[str] = []
    assert newly_by(service, lambda: got.extend(go())) == [200]
    stored = store.get("ada")
    assert stored is not None
    assert got == [stored.access_token] * 5 * PROCESSES
    assert works(service, stored.access_token)


@pytest.mark.parametrize("seconds", [1, 11])
def test_killed_between_refresh_and_store_the_person_signs_in_again(service, oauth, store, start, seconds):
    """The stored refresh token is already used: the next caller gets an error, asks once, and blocks no lock."""
    left_behind, process = store.get("ada"), start(mode="die")
    assert newly_by(service, lambda: process.communicate("\n", timeout=60)) == [200]
    assert process.returncode == -signal.SIGKILL
    assert store.get("ada") == left_behind
    later(service, seconds=seconds)
    with Carrel(tokens=oauth.token_source(store, "ada"), base_url=service.base_url) as client:

        def search_twice() -> None:
            for _ in range(2):
                with pytest.raises(SignInRequiredError):
                    client.search.search_document_catalog("anything")

        assert newly_by(service, search_twice) == [400]
    assert store.get("ada") is None


class Unlocked(MemoryTokenStore):
    """A store with a useless lock: right after the first read, another process refreshes."""

    def __init__(self, oauth: OAuthClient) -> None:
        super().__init__()
        self._other: OAuthClient | None = oauth

    def get(self, key: str, /) -> Tokens | None:
        found = super().get(key)
        other, self._other = self._other, None
        if other and found:
            self.put(key, other.refresh(found))
        return found


def test_a_race_that_no_lock_holds_is_lost_without_harm(service, oauth, tokens):
    store = Unlocked(oauth)
    store.put("ada", ended(tokens))
    with Carrel(tokens=oauth.token_source(store, "ada"), base_url=service.base_url) as client:
        assert newly_by(service, lambda: client.search.search_document_catalog("anything")) == [200, 400]
