"""What the indexer has in memory, whom it answers, and what it has room for; without a database."""

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from service.embedding import Embedders
from service.ingestion.feeding import answer_waiting, feed
from service.ingestion.indexer import Indexer
from service.ingestion.indexing import IndexOutcome
from service.ingestion.turns import Lane

ONE, TWO = UUID(int=1), UUID(int=2)
DOCUMENT = UUID(int=100)


class NoDatabase:
    """Stands for connections that nothing is asked of."""

    def transaction(self, *_: object, **__: object) -> "NoDatabase":
        """Open nothing."""
        return self

    async def __aenter__(self) -> None:
        await asyncio.sleep(0)

    async def __aexit__(self, *_: object) -> None:
        await asyncio.sleep(0)


def new_indexer() -> Indexer:
    """Return an indexer without a database."""
    return Indexer(cast("Any", NoDatabase()), cast("Embedders", SimpleNamespace()), backlog_seconds=300)


async def test_a_request_that_came_after_the_look_is_not_answered_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the database is asked for one request's document, another request for a further document comes."""
    indexer = new_indexer()
    first = indexer.request(ONE, document_id=DOCUMENT, space_ids=[1], is_begun=False)
    later: list[Any] = []

    async def look(*_: object, document_ids: Sequence[UUID]) -> dict[tuple[UUID, int], tuple[bool, int]]:
        assert list(document_ids) == [DOCUMENT]
        wanted = (UUID(int=101), DOCUMENT)
        later.extend(indexer.request(ONE, document_id=each, space_ids=[1], is_begun=False) for each in wanted)
        return {(DOCUMENT, 1): (False, 3)}

    monkeypatch.setattr("service.ingestion.feeding.list_pending", look)
    await answer_waiting(indexer)
    assert first.future.result() == {1: IndexOutcome(3, 0)}
    assert [each.future.done() for each in later] == [False, False]


async def test_one_feeder_feeds_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two that are told at once to feed never both claim what there is room for."""
    indexer = new_indexer()
    at_work, most = 0, 0

    async def claim(*_: object, **__: object) -> list[object]:
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        await asyncio.sleep(0.01)
        at_work -= 1
        return []

    monkeypatch.setattr("service.ingestion.feeding.claim_pending", claim)
    for organization_id in (ONE, TWO):
        indexer.note_backlog(organization_id, *Lane)
    await asyncio.gather(feed(indexer), feed(indexer))
    assert most == 1
