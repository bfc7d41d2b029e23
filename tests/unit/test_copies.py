"""Copies of files of a store elsewhere: made once, few, and gone when nobody reads them."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from service.platform import copies
from service.platform.copies import Copies


def test_a_copy_is_made_once_and_goes_when_there_are_more_or_nobody_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two who want it at once share it; what is too large is never kept, and what somebody took away is made again."""
    made: list[bytes] = []
    monkeypatch.setattr(copies, "MOST_BYTES", 10)
    kept = Copies()

    @asynccontextmanager
    async def copying(content: bytes) -> AsyncGenerator[Path]:
        made.append(content)
        path = tmp_path / f"upload-{len(made)}"
        path.write_bytes(content)
        yield path
        path.unlink()

    async def read(content: bytes) -> None:
        async with kept.open(content, copying(content)) as path:
            assert path.read_bytes() == content

    async def wait_for_files(count: int) -> None:
        while len(list(tmp_path.iterdir())) != count:  # noqa: ASYNC110, ASYNC240 - a thread deletes them
            await asyncio.sleep(0.001)

    async def run() -> None:
        await asyncio.gather(*(read(b"four") for _ in range(3)))
        await read(b"other")
        await read(b"four")
        assert made == [b"four", b"other"]
        await read(b"much too large")
        await wait_for_files(2)
        await read(b"seven b")  # beside it is room for neither of them
        await wait_for_files(1)
        next(tmp_path.iterdir()).unlink()  # noqa: ASYNC240 - an empty loop
        monkeypatch.setattr(copies, "KEPT_SECONDS", 0.0)
        await read(b"seven b")
        await wait_for_files(0)
        assert made[2:] == [b"much too large", b"seven b", b"seven b"]

    asyncio.run(asyncio.wait_for(run(), 30))
