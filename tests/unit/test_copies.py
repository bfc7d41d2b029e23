"""Copies of files, removed when unused, and cached answers."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path

import pytest

from service.platform import copies
from service.platform.copies import Copies, Kept
from tests.harness.jobs import until


async def test_a_copy_is_made_once_and_goes_when_there_are_more_or_nobody_reads_it(tmp_path, monkeypatch):
    made: list[bytes] = []
    monkeypatch.setattr(copies, "MOST_BYTES", 10)
    monkeypatch.setattr(copies, "MOST_COPIES", 2)
    kept = Copies()

    @asynccontextmanager
    async def copying(content: bytes) -> AsyncGenerator[Path]:
        made.append(content)
        path = tmp_path / f"upload-{len(made)}"
        path.write_bytes(content)
        yield path
        path.unlink()

    def reading(content: bytes) -> AbstractAsyncContextManager[Path]:
        return kept.open(content, copying(content))

    async def read(content: bytes) -> None:
        async with reading(content) as path:
            assert path.read_bytes() == content
            assert list(tmp_path.iterdir()) == []

    await asyncio.gather(*(read(b"four") for _ in range(3)))
    await read(b"other")
    await read(b"four")
    assert made == [b"four", b"other"]
    async with reading(b"four") as path, reading(b"much too large") as large:
        await read(b"seven b")  # beside it is room for neither of the others
        assert path.read_bytes() == b"four"
        assert large.read_bytes() == b"much too large"
    for content in (b"1", b"2", b"3", b"1"):
        await read(content)
    assert made[2:] == [b"much too large", b"seven b", b"1", b"2", b"3", b"1"]
    kept.close()
    monkeypatch.setattr(copies, "KEPT_SECONDS", 0.0)
    for _ in range(2):
        await read(b"1")
        await asyncio.sleep(0.001)
    assert made[8:] == [b"1", b"1"]
    until(lambda: open_below(tmp_path) == [])  # threads close them


def test_a_copy_ends_with_who_was_cancelled_while_it_was_made(tmp_path: Path) -> None:
    @asynccontextmanager
    async def copying() -> AsyncGenerator[Path]:
        path = tmp_path / "upload"
        path.write_bytes(b"content")
        yield path
        path.unlink()
        raise asyncio.CancelledError

    async def run() -> None:
        with pytest.raises(asyncio.CancelledError):
            async with Copies().open(b"sha256", copying()):
                pytest.fail("It was not cancelled.")

    asyncio.run(asyncio.wait_for(run(), 30))
    assert list(tmp_path.iterdir()) == []
    assert open_below(tmp_path) == []


def open_below(folder: Path) -> list[str]:
    found: list[str] = []
    for link in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # that of this loop itself
            found.append(str(link.readlink()))
    return [path for path in found if path.startswith(str(folder))]


class AwayError(Exception):
    """The remote side can't be asked."""


async def test_an_answer_stays_until_there_is_another_one() -> None:
    kept, begun = Kept(), time.monotonic()

    async def get(answer: str | None, *, since: float) -> str:
        async def ask() -> str:
            if answer is None:
                raise AwayError
            await asyncio.sleep(60 if answer == "slow" else 0)
            return answer

        return await kept.get("name", ask, since=since, errors=AwayError)

    assert await get("first", since=begun) == "first"
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(get("slow", since=time.monotonic()), 0.01)
    assert await get("second", since=begun) == "first"
    with pytest.raises(AwayError):
        await get(None, since=time.monotonic())
    with pytest.raises(AwayError):
        await get("second", since=begun)
