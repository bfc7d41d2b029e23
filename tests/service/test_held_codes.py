"""A search by the codes that a worker holds finds the same as the database alone."""

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import replace
from itertools import combinations
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from carrel.wire.search import SearchMode
from service.auth.callers import Caller
from service.domains.search import nearest, queries, sql
from service.domains.search.nearest import with_nearest
from service.domains.search.search_query import Hit, Scope, SearchQuery, prepare_query
from service.domains.search.snapshot import Snapshot, open_snapshot
from service.index.held import service as held_codes
from service.index.held.service import HeldSpaces
from service.index.service import remove_everywhere
from service.permissions.access import Access
from service.permissions.service import access_classes_for, set_access
from service.platform.background import Background
from service.platform.identifiers import uuid7
from service.runtime.standbys import Source
from tests.harness.corpus import Corpus, vector_of
from tests.harness.services import RunningService
from tests.service.test_lexical_leg import MODEL, forget_statements

WORDS = [f"word{number}" for number in range(30)]
READERS = 4


@pytest.fixture(autouse=True)
def everything_is_large(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sql, "FEW_PAGES", 0)
    monkeypatch.setattr(nearest, "MUCH", 0)
    monkeypatch.setattr(held_codes, "LARGE", 1)
    forget_statements()
    yield
    forget_statements()


class Searches:
    """Searches of a corpus as a worker does them, with codes that it holds."""

    def __init__(self, corpus: Corpus) -> None:
        self.corpus, self.held = corpus, HeldSpaces(1 << 20)
        self.readers = [uuid7() for _ in range(READERS)]
        some = [frozenset(each) for size in range(READERS + 1) for each in combinations(self.readers, size)]
        self.accesses = [Access(owner_id=corpus.owner_id, viewers=viewers) for viewers in some]
        self.runtime: Any = SimpleNamespace(
            held=self.held, background=Background(), beside_requests=lambda: SimpleNamespace(database=corpus.database)
        )

    async def load(self) -> None:
        await self.held.load(self.corpus.database, self.corpus.organization_id, self.corpus.space)

    def caller(self, number: int) -> Caller:
        principal_id = self.readers[number]
        return Caller(
            self.corpus.organization_id, principal_id, (principal_id,), kind="user", email="", name="",
            is_admin=False, credential_id=uuid7(), may_act_for_users=False, page_key=b"",
        )  # fmt: skip

    @asynccontextmanager
    async def open(self, query: str = "word1 word2") -> AsyncGenerator[Snapshot]:
        async def prepare(_space: object) -> list[SearchQuery]:
            embedding = vector_of(query)
            mode = SearchMode.SEMANTIC
            return [prepare_query(query, mode=mode, language="english", embedding=embedding, model=MODEL)]

        source, corpus = Source(self.corpus.database), self.corpus
        async with open_snapshot(source, corpus.organization_id, corpus.space, prepare, held=self.held) as read:
            yield read

    async def compare(self, read: Snapshot, number: int, *, is_held: bool = True) -> list[Hit]:
        """Search in a snapshot as a reader by the held codes and by the database alone: both find the same."""
        scope = Scope(self.caller(number), read.space, by_chunk=True)
        [asked] = await with_nearest(self.runtime, read, scope)
        assert (asked.nearest is not None) == is_held
        if asked.nearest is not None:
            given = (asked.nearest.document_ids.strip("{}"), asked.nearest.chunk_numbers.strip("{}"))
            proposed = list(zip(*(each.split(",") for each in given), strict=True))
            assert len(proposed) == len(set(proposed))  # also those that were written again
        legs, _ = await queries.find_candidates(read.connection, scope, asked, at_least=10)
        plain = replace(asked, nearest=None)
        others, _ = await queries.find_candidates(read.connection, scope, plain, at_least=10)
        assert list(legs.dense) == list(others.dense)
        return list(legs.dense)


@pytest.fixture
async def searches(service: RunningService) -> AsyncIterator[Searches]:
    corpus = await Corpus.open(service)
    searches = Searches(corpus)
    group = text(
        "INSERT INTO principals (principal_id, organization_id, kind, name) VALUES (:id, :own, 'group', :name)"
    )
    async with corpus.transaction() as connection:
        for reader in searches.readers:
            await connection.execute(group, {"id": reader, "own": corpus.organization_id, "name": str(reader)})
        # Two transactions that make the same class would wait for each other.
        classes = {each.digest(): each for each in searches.accesses}
        await access_classes_for(connection, corpus.organization_id, classes)
    yield searches
    await searches.runtime.background.close()
    searches.held.drop(corpus.space.space_id)
    await corpus.close()


class History:
    """Documents that come, change, change readers and go, in transactions that end in another order than they begin."""

    def __init__(self, searches: Searches, seed: int) -> None:
        self.searches, self.corpus = searches, searches.corpus
        self.draw = random.Random(seed)  # noqa: S311 - nothing secret
        self.versions = dict[UUID, int]()
        self.writing = dict[UUID, AbstractAsyncContextManager[AsyncConnection]]()
        self.reading = list[tuple[AbstractAsyncContextManager[Snapshot], Snapshot]]()
        self.found = set[int]()

    async def begin_writing(self, kinds: Sequence[str] = ("write", "write", "move", "remove")) -> None:
        if len(self.versions) < 15 or not self.draw.randint(0, 3):
            added = await self.corpus.register("Note", access=self.draw.choice(self.searches.accesses))
            self.versions[added] = 1
        document_id = self.draw.choice([each for each in self.versions if each not in self.writing])
        self.versions[document_id] += 1
        await self.corpus.want(document_id, self.corpus.space, version=self.versions[document_id])
        self.writing[document_id] = transaction = self.corpus.transaction()
        await self._change(self.draw.choice(kinds), document_id, await transaction.__aenter__())

    async def _change(self, kind: str, document_id: UUID, connection: AsyncConnection) -> None:
        organization_id = self.corpus.organization_id
        if kind == "write":
            texts = [" ".join(self.draw.choices(WORDS, k=5)) for _ in range(self.draw.randint(1, 12))]
            await self.corpus.write(connection, document_id, "Note", texts, version=self.versions[document_id])
        elif kind == "move":
            access = self.draw.choice(self.searches.accesses)
            await set_access(connection, organization_id, object_id=document_id, access=access)
        else:
            await remove_everywhere(connection, organization_id, document_ids=[document_id])

    async def end_writing(self) -> None:
        """Commit; now and then, roll back."""
        transaction = self.writing.pop(self.draw.choice(list(self.writing)))
        failure = None if self.draw.randint(0, 3) else RuntimeError()
        with suppress(RuntimeError):
            await transaction.__aexit__(failure and RuntimeError, failure, None)

    async def begin_reading(self) -> None:
        opening = self.searches.open()
        self.reading.append((opening, await opening.__aenter__()))

    async def end_reading(self) -> None:
        opening, read = self.reading.pop(self.draw.randrange(len(self.reading)))
        self.found |= {len(await self.searches.compare(read, number)) for number in range(READERS)}
        await opening.__aexit__(None, None, None)

    async def step(self) -> None:
        if len(self.writing) < 3:
            await self.begin_writing()
        if len(self.reading) < 3:
            await self.begin_reading()
        while self.writing and self.draw.randint(0, 1):
            await self.end_writing()
        while self.reading and self.draw.randint(0, 1):
            await self.end_reading()

    async def end(self) -> None:
        while self.writing:
            await self.end_writing()
        while self.reading:
            await self.end_reading()


@pytest.mark.parametrize("seed", range(3))
async def test_both_find_the_same_whatever_is_written(service: RunningService, searches: Searches, seed: int) -> None:
    history = History(searches, seed)
    for _ in range(5):
        await history.begin_writing(["write"])
        await history.end_writing()
    await history.begin_writing()
    await searches.load()
    for number in range(30):
        await history.step()
        if number % 10 == 5:
            service.execute("VACUUM (FREEZE) code_pages_384")
    await history.end()
    assert len(history.found) > 10


async def test_a_search_keeps_the_codes_from_before_its_snapshot(searches: Searches) -> None:
    """A later search has read later codes meanwhile, which lack a page that this one still sees."""
    corpus = searches.corpus
    alone = [Access(owner_id=corpus.owner_id, viewers=frozenset({reader})) for reader in searches.readers]
    moved = await corpus.add("Note", ["word1 word2"], access=alone[0])
    await searches.load()

    async def move(number: int) -> None:
        async with corpus.transaction() as connection:
            await set_access(connection, corpus.organization_id, object_id=moved, access=alone[number])

    await move(1)
    async with searches.open() as earlier:
        await move(2)
        async with searches.open() as later:
            assert await searches.compare(later, 2) == [Hit(moved, 0)]
        assert await searches.compare(earlier, 1) == [Hit(moved, 0)]


async def test_a_space_of_which_most_is_gone_is_searched_whole(
    searches: Searches, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Removed chunks are nearest: the database looks for the others, and the codes are loaded again."""
    monkeypatch.setattr(nearest, "MOST", 4)
    corpus = searches.corpus
    everyone = Access(owner_id=corpus.owner_id, viewers=frozenset(searches.readers))
    near = [await corpus.add("Note", ["word1 word2"], access=everyone) for _ in range(10)]
    far = [await corpus.add("Note", [f"word{number}"], access=everyone) for number in range(5, 12)]
    await searches.load()
    async with corpus.transaction() as connection:
        await remove_everywhere(connection, corpus.organization_id, document_ids=near)
    async with searches.open("Note\nword1 word2") as read:
        hits = await searches.compare(read, 0)
    assert {hit.document_id for hit in hits} == set(far)
    async with searches.open() as read:
        assert read.codes is None
        await searches.compare(read, 0, is_held=False)


async def test_only_whole_searches_on_the_same_primary_use_codes(searches: Searches) -> None:
    corpus, held = searches.corpus, searches.held
    await corpus.add("Note", ["word1"])
    await searches.load()
    async with searches.open() as read:
        whole = Scope(searches.caller(0), read.space, by_chunk=True)
        narrowed = replace(whole, caller=replace(whole.caller, collection_ids=frozenset({uuid7()})))
        for scope in (replace(whole, without=frozenset({uuid7()})), replace(whole, resource_types=("x",)), narrowed):
            assert await with_nearest(searches.runtime, read, scope) is read.search_queries
        standby = replace(read, source=SimpleNamespace(standby="a standby"))
        assert await with_nearest(searches.runtime, standby, whole) is read.search_queries
    codes = held.find(corpus.space.space_id)
    assert codes is not None
    held.update(replace(codes, timeline=codes.timeline - 1))
    async with searches.open() as read:
        await searches.compare(read, 0, is_held=False)


async def test_without_a_note_of_changes_nothing_is_loaded(service: RunningService, searches: Searches) -> None:
    """As on several servers, whose transactions have no numbers in common."""
    await searches.corpus.add("Note", ["word1"])
    service.execute("ALTER TABLE code_pages_384 DISABLE TRIGGER note_change")
    try:
        await searches.load()
        assert searches.held.find(searches.corpus.space.space_id) is None
    finally:
        service.execute("ALTER TABLE code_pages_384 ENABLE TRIGGER note_change")


async def test_codes_are_given_back(searches: Searches, monkeypatch: pytest.MonkeyPatch) -> None:
    """When they take too much, and after a while."""
    await searches.corpus.add("Note", ["word1"])
    for owner, name in ((held_codes, "KEPT_SECONDS"), (searches.held, "most_bytes")):
        await searches.load()
        assert searches.held.find(searches.corpus.space.space_id) is not None
        with monkeypatch.context() as patched:
            patched.setattr(owner, name, 0)
            await searches.load()
            for _ in range(3):  # the loop's turns until what is due has been done
                await asyncio.sleep(0)
            assert searches.held.find(searches.corpus.space.space_id) is None
