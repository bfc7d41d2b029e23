"""Texts of documents in parts: the unpacked amount for a part, and the thread used."""

import asyncio
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from uuid import UUID

import pytest

from service.domains.documents.stored import texts
from service.domains.documents.stored.queries import StoredText
from service.domains.documents.stored.texts import MOST_CHARACTERS, unpack_text
from service.mcp import endpoint
from service.text.reading import Block, iterate_blocks, pack_blocks


def stored(*blocks: Block) -> StoredText:
    now = datetime.now(UTC)
    return StoredText(UUID(int=1), "Sheet", None, {}, now, 1, "text/csv", pack_blocks(blocks) if blocks else None)


@pytest.fixture
def unpacked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    threads: list[str] = []

    def noting(packed: bytes) -> Iterator[Block]:
        for block in iterate_blocks(packed):
            threads.append(threading.current_thread().name)
            yield block

    monkeypatch.setattr(texts, "iterate_blocks", noting)
    return threads


async def test_parts_make_up_the_text(unpacked: list[str]) -> None:
    rows = [Block("heading", "Costs", 2), *(Block("table_row", "x" * 7_999) for _ in range(40))]
    document = stored(*rows, Block("paragraph", "The end."))
    parts, start = list[str](), 0
    while start is not None:
        unpacked.clear()
        part = await unpack_text(document, start=start)
        parts.append(part.text)
        if start == 0:
            assert len(unpacked) == 14
        start = part.next_start
    assert "".join(parts) == "## Costs\n\n" + "\n".join(["x" * 7_999] * 40) + "\n\nThe end."
    assert {len(part) for part in parts[:-1]} == {MOST_CHARACTERS}
    beyond = await unpack_text(document, start=2**31)
    assert (beyond.text, beyond.next_start) == ("", None)
    assert (await unpack_text(stored(), start=0)).text == ""


async def test_much_that_is_packed_small_is_unpacked_in_the_one_thread_for_it(unpacked: list[str]) -> None:
    document = stored(*[Block("table_row", "x")] * 20_000)
    assert len(document.blocks or b"") < 4_096
    await asyncio.gather(*(unpack_text(document, start=0) for _ in range(3)))
    assert set(unpacked) == {"text_0"}
    unpacked.clear()
    await unpack_text(stored(Block("paragraph", "Short.")), start=0)
    assert unpacked == [threading.current_thread().name]


async def test_messages_need_a_thread_for_the_first_one_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[object] = []
    to_thread = asyncio.to_thread
    monkeypatch.setattr(asyncio, "to_thread", lambda work: taken.append(work) or to_thread(work))
    endpoint._load.cache_clear()
    await endpoint._load_once()
    await endpoint._load_once()
    assert len(taken) == 1
