"""Stores of tokens, and renewals of sessions when network, disk or caller fails."""

import asyncio
import os
import stat
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import anyio
import anyio.to_thread
import pytest

from carrel import errors
from carrel._drivers import AsyncDriver, Flow, SyncDriver, Work
from carrel.oauth import FileTokenStore, MemoryTokenStore, StoredTokens, Tokens, TokenStore

T = TypeVar("T")
KEYS = ["ada", "", "../../etc/passwd", "a/b", "x" * 10_000, "\0", "é\udc80", ".", "CON"]
GONE = "Send the person to authorize the application again"
UNAVAILABLE = errors.TokenRequestError("busy", status=503, code="temporarily_unavailable")


def tokens(number: int, *, seconds: float = 3600) -> Tokens:
    ends = datetime.now(UTC) + timedelta(seconds=seconds)
    return Tokens(access_token=f"at-{number}", refresh_token=f"rt-{number}", expires_at=ends, scope="a")


@pytest.fixture(params=["memory", "files"])
def store(request: pytest.FixtureRequest, tmp_path) -> TokenStore:
    return MemoryTokenStore() if request.param == "memory" else FileTokenStore(tmp_path / "deep" / "tokens")


@pytest.fixture
def expired(store: TokenStore) -> TokenStore:
    store.put("ada", tokens(1, seconds=0))
    return store


class Server:
    """Refreshes by script: with the next tokens, or an error; `asked` are the received refresh tokens."""

    def __init__(self, *answers: Tokens | Exception) -> None:
        self.asked: list[str | None] = []
        self._answers = list(answers)

    def __call__(self, tokens: Tokens) -> Tokens:
        self.asked.append(tokens.refresh_token)
        answer = self._answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer


# Drivers of flows that send no requests.
BLOCKING = SyncDriver(None, time.sleep)  # type: ignore[arg-type]
AWAITING = AsyncDriver(None)  # type: ignore[arg-type]


def current(source: StoredTokens) -> str:
    return BLOCKING.run(source.current())


def renewed(source: StoredTokens, refused: str) -> str | None:
    return BLOCKING.run(source.renewed(refused))


def stored(store: TokenStore) -> str | None:
    kept = store.get("ada")
    return kept and kept.access_token


@pytest.mark.parametrize("key", KEYS, ids=range(len(KEYS)))
def test_a_store_keeps_what_it_is_given(store: TokenStore, key: str) -> None:
    store.put("another", tokens(0))
    assert store.get(key) is None
    store.delete(key)
    for number in (1, 2):
        kept = tokens(number)
        store.put(key, kept)
        assert store.get(key) == kept
    store.delete(key)
    assert store.get(key) is None
    assert store.get("another") is not None


def test_a_lock_holds_off_others_of_its_key(store: TokenStore) -> None:
    inside: list[int] = []
    most: list[int] = []

    def work(_: int) -> None:
        with store.lock("ada"):
            inside.append(1)
            most.append(len(inside))
            time.sleep(0.001)
            inside.pop()

    with ThreadPoolExecutor(10) as threads:
        list(threads.map(work, range(30)))
    assert set(most) == {1}
    assert len(most) == 30


def test_a_lock_of_memory_is_forgotten_when_nobody_holds_it() -> None:
    store = MemoryTokenStore()
    for number in range(1000):
        with store.lock(str(number)):
            assert len(store._locks) == 1
    assert len(store._locks) == 0


def test_files_are_their_owners_alone(tmp_path) -> None:
    before = os.umask(0)
    try:
        store = FileTokenStore(tmp_path / "tokens")
        with store.lock("ada"):
            store.put("ada", tokens(1))
        store.put("ada", tokens(2))
    finally:
        os.umask(before)
    files = sorted(store.folder.iterdir(), key=lambda path: path.suffix)
    assert [path.suffix for path in files] == [".json", ".lock"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    assert stat.S_IMODE(store.folder.stat().st_mode) == 0o700
    assert not [path for path in files if "ada" in path.name]
    assert repr(store) == f"FileTokenStore('{tmp_path / 'tokens'}')"


def test_a_folder_others_may_write_to_is_refused(tmp_path) -> None:
    """Other users could put foreign tokens there."""
    for mode in (0o770, 0o707, 0o777):
        tmp_path.chmod(mode)
        with pytest.raises(errors.ConfigurationError, match="private folder"):
            FileTokenStore(tmp_path)
    tmp_path.chmod(0o755)
    FileTokenStore(tmp_path)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b"\xff", b'{"access_token": "a b"}', b"x" * 10_000])
def test_a_file_without_tokens_counts_as_none(tmp_path, content: bytes) -> None:
    store = FileTokenStore(tmp_path / "tokens")
    store._path("ada").write_bytes(content)
    assert store.get("ada") is None
    store.put("ada", kept := tokens(1))
    assert store.get("ada") == kept


def test_a_file_that_cant_be_written_stays_as_it_was(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk may be full."""
    store = FileTokenStore(tmp_path / "tokens")
    store.put("ada", kept := tokens(1))

    def refuse(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="No space"):
        store.put("ada", tokens(2))
    assert store.get("ada") == kept
    assert len(list(store.folder.iterdir())) == 1


def test_a_token_is_renewed_a_minute_before_it_ends(store: TokenStore) -> None:
    store.put("ada", tokens(1, seconds=90))
    server = Server(tokens(2), tokens(3))
    assert current(StoredTokens(store, "ada", refresh=server)) == "at-1"
    store.put("ada", tokens(1, seconds=50))
    assert current(StoredTokens(store, "ada", refresh=server)) == "at-2"
    assert current(StoredTokens(store, "ada", refresh=server)) == "at-2"
    assert server.asked == ["rt-1"]


def test_a_refused_token_is_renewed_unless_somebody_has(store: TokenStore) -> None:
    store.put("ada", tokens(1))
    server = Server(tokens(2))
    source = StoredTokens(store, "ada", refresh=server)
    assert current(source) == "at-1"
    assert renewed(source, "at-1") == "at-2"
    assert renewed(source, "at-1") == "at-2"
    assert renewed(StoredTokens(store, "ada", refresh=server), "at-1") == "at-2"
    assert server.asked == ["rt-1"]


def test_a_session_without_tokens_asks_for_a_sign_in(store: TokenStore) -> None:
    source = StoredTokens(store, "ada", refresh=Server())
    with pytest.raises(errors.SignInRequiredError, match=GONE):
        current(source)
    store.put("ada", tokens(1))
    assert current(source) == "at-1"


def test_a_refresh_token_that_is_refused_is_forgotten(expired: TokenStore) -> None:
    refusal = errors.InvalidGrantError("used", status=400, code="invalid_grant")
    server = Server(refusal)
    source = StoredTokens(expired, "ada", refresh=server)
    for cause in (refusal, None):
        with pytest.raises(errors.SignInRequiredError, match=GONE) as caught:
            current(source)
        assert caught.value.__cause__ is cause
    assert server.asked == ["rt-1"]
    assert expired.get("ada") is None


def test_the_last_minute_is_used_when_nobody_can_renew(store: TokenStore) -> None:
    failures = (errors.APIConnectionError("gone"), errors.ServerError("busy", status=503, code="x"), UNAVAILABLE)
    for failure in failures:
        store.put("ada", tokens(1, seconds=30))
        source = StoredTokens(store, "ada", refresh=Server(failure, failure, tokens(2)))
        assert current(source) == "at-1"
        with pytest.raises(type(failure)):
            renewed(source, "at-1")
        assert current(source) == "at-2"
        store.put("ada", tokens(1, seconds=-1))
        with pytest.raises(type(failure)):
            current(StoredTokens(store, "ada", refresh=Server(failure)))
        assert store.get("ada") is not None


def test_a_mistake_of_the_applications_is_told_at_once(store: TokenStore) -> None:
    store.put("ada", kept := tokens(1, seconds=30))
    refusal = errors.InvalidClientError("wrong", status=401, code="invalid_client")
    with pytest.raises(errors.InvalidClientError):
        current(StoredTokens(store, "ada", refresh=Server(refusal)))
    assert store.get("ada") == kept


class Full(MemoryTokenStore):
    """A store whose first `failures` writes fail."""

    def __init__(self, failures: int) -> None:
        super().__init__()
        super().put("ada", tokens(1, seconds=0))
        self.failures = failures

    def put(self, key: str, tokens: Tokens, /) -> None:
        if self.failures:
            self.failures -= 1
            raise OSError(28, "No space left on device")
        super().put(key, tokens)


def test_tokens_a_store_doesnt_take_are_used_by_nobody_and_kept_for_it() -> None:
    store = Full(failures=2)
    server = Server(tokens(2))
    source = StoredTokens(store, "ada", refresh=server)
    for _ in range(2):
        with pytest.raises(OSError, match="No space"):
            current(source)
    assert current(source) == "at-2"
    assert server.asked == ["rt-1"]
    assert stored(store) == "at-2"


def test_tokens_of_a_new_sign_in_come_before_those_that_werent_stored() -> None:
    store = Full(failures=1)
    source = StoredTokens(store, "ada", refresh=Server(tokens(2)))
    with pytest.raises(OSError, match="No space"):
        current(source)
    store.put("ada", tokens(5))
    assert current(source) == "at-5"


class Slow(Server):
    """A server that waits for a release before each answer."""

    def __init__(self, *answers: Tokens | BaseException) -> None:
        super().__init__(*answers)
        self.begun, self.go_on = threading.Event(), threading.Event()

    def __call__(self, tokens: Tokens) -> Tokens:
        self.begun.set()
        assert self.go_on.wait(30)
        return super().__call__(tokens)


def apart(main: Callable[[], Awaitable[T]], backend: str = "asyncio") -> T:
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(anyio.run, main, backend=backend).result()


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("failure", [None, errors.APIConnectionError("gone")], ids=["tokens", "failure"])
def test_waiting_callers_share_a_refresh(expired: TokenStore, backend: str, failure: errors.CarrelError | None) -> None:
    slow = Slow(failure or tokens(2))
    source = StoredTokens(expired, "ada", refresh=slow)
    got: list[str | errors.CarrelError] = []
    busy: list[int] = []

    async def ask() -> None:
        try:
            got.append(await AWAITING.run(source.current()))
        except errors.CarrelError as exc:
            got.append(exc)

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            for _ in range(100):
                tasks.start_soon(ask)
            await anyio.to_thread.run_sync(slow.begun.wait)
            await anyio.sleep(0.05)
            busy.append(anyio.to_thread.current_default_thread_limiter().borrowed_tokens)
            slow.go_on.set()

    apart(main, backend)
    assert [type(one) if failure else one for one in got] == [type(failure) if failure else "at-2"] * 100
    assert (slow.asked, busy) == (["rt-1"], [1])


def test_a_cancelled_caller_leaves_a_refresh_that_ends_well(expired: TokenStore) -> None:
    slow = Slow(tokens(2))
    source = StoredTokens(expired, "ada", refresh=slow)

    async def main() -> None:
        first = asyncio.create_task(AWAITING.run(source.current()))
        await asyncio.to_thread(slow.begun.wait)
        second = asyncio.create_task(AWAITING.run(source.current()))
        await asyncio.sleep(0.05)
        first.cancel()
        await asyncio.wait([first], timeout=0.2)
        slow.go_on.set()
        assert await second == "at-2"
        with pytest.raises(asyncio.CancelledError):
            await first

    apart(main)
    assert stored(expired) == "at-2"
    assert slow.asked == ["rt-1"]


def test_a_caller_cancelled_before_the_work_began_leaves_it_to_another(expired: TokenStore) -> None:
    source = StoredTokens(expired, "ada", refresh=Server(tokens(2)))

    async def main() -> None:
        anyio.to_thread.current_default_thread_limiter().total_tokens = 1
        hold = threading.Event()
        holding = asyncio.create_task(anyio.to_thread.run_sync(hold.wait))
        await asyncio.sleep(0.05)
        first = asyncio.create_task(AWAITING.run(source.current()))
        second = asyncio.create_task(AWAITING.run(source.current()))
        await asyncio.sleep(0.05)
        first.cancel()
        await asyncio.sleep(0.05)
        hold.set()
        await holding
        with pytest.raises(asyncio.CancelledError):
            await first
        assert await asyncio.wait_for(second, 10) == "at-2"

    apart(main)


def test_an_interrupted_thread_leaves_the_work_to_another(expired: TokenStore) -> None:
    """Ctrl-C affects a single thread: waiting threads try again."""
    slow = Slow(KeyboardInterrupt(), tokens(2))
    source = StoredTokens(expired, "ada", refresh=slow)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(current, source)
        assert slow.begun.wait(30)
        second = threads.submit(current, source)
        slow.go_on.set()
        with pytest.raises(KeyboardInterrupt):
            first.result(30)
        assert second.result(30) == "at-2"
    assert slow.asked == ["rt-1", "rt-1"]


async def test_a_flow_ends_with_its_run() -> None:
    """Resources are released even while the error with a reference to the flow is kept."""
    let_go: list[str] = []

    def fail() -> None:
        raise OSError

    def flow() -> Flow[None]:
        try:
            yield Work(fail)
        finally:
            let_go.append("it")

    with pytest.raises(OSError) as kept:  # noqa: PT011 - fail's own
        BLOCKING.run(flow())
    assert (let_go, kept.value.__traceback__ is None) == (["it"], False)
    with pytest.raises(OSError) as kept:  # noqa: PT011 - fail's own
        await AWAITING.run(flow())
    assert (let_go, kept.value.__traceback__ is None) == (["it"] * 2, False)
