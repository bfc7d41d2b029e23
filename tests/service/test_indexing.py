"""The index: writes, counts, moves, and interference of two connections."""

import asyncio
import math
import re
import threading
from collections import Counter
from contextlib import asynccontextmanager

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from service.index import queries
from service.index import service as indexing
from service.index.ingestion.indexing import GATHER_SECONDS, Writer
from service.index.ingestion.sweeper import fold_all
from service.index.ingestion.turns import Lane
from service.index.queries import ROWS_AT_ONCE
from service.index.spaces.queries import delete_space
from service.index.stemming import stemmer_for
from service.index.stop_words import INDEX_STOP_WORDS
from service.index.terms import read_query, round_frequency
from service.permissions.access import Access
from service.permissions.service import set_access
from tests.harness.corpus import Corpus
from tests.service.rebuilds import wait_blocked


@pytest.fixture
async def own_corpus(own_service):
    corpus = await Corpus.open(own_service)
    yield corpus
    await corpus.close()


async def test_bm25_in_vectors_is_textbook_bm25(corpus):
    texts = [
        ("Harbour rules", ["Ferries leave the harbour at nine, and the harbour master waves.", "No dogs on ferries."]),
        ("Dogs", ["A dog may travel with its owner. Dogs pay nothing."]),
        ("Timetable", ["Nine, ten, eleven: the ferries go every hour of the day, every day of the year."]),
    ]
    for title, chunks in texts:
        await corpus.add(title, chunks)
    query = "when do the harbour ferries leave, and do dogs travel"
    scores = await corpus.lexical_scores(query)
    expected = textbook_bm25([(title, chunk) for title, chunks in texts for chunk in chunks], query)
    assert len(scores) == 4
    assert sorted(scores) == pytest.approx(sorted(expected), rel=1e-6)


def textbook_bm25(chunks: list[tuple[str, str]], query: str) -> list[float]:
    """Return BM25 computed from its definition, over words; only the rounding is from the code under test."""
    stem = stemmer_for("english").stemWord

    def words(passage: str) -> list[str]:
        return [stem(word) for word in re.findall(r"\w+", passage.lower()) if word not in INDEX_STOP_WORDS]

    bags = [Counter(words(f"{title} {title} {chunk}")) for title, chunk in chunks]
    written = ("harbour", "ferries", "leave", "dogs", "travel")
    assert read_query(query, ("english",)).words == written
    asked = [stem(word) for word in written]
    total = round_frequency(len(bags))
    rarity: dict[str, float] = {}
    for word in asked:
        frequency = round_frequency(sum(word in other for other in bags))
        rarity[word] = math.log(1 + (max(total, frequency) - frequency + 0.5) / (frequency + 0.5))
    norms = [1.2 * (1 - 0.4 + 0.4 * bag.total() / 80) for bag in bags]
    return [
        sum(rarity[word] * bag[word] / (bag[word] + norm) for word in asked)
        for bag, norm in zip(bags, norms, strict=True)
    ]


async def test_a_large_document_is_written_in_parts(corpus, monkeypatch):
    """The parts (chunks, code pages, counts of terms) equal a single statement's."""
    monkeypatch.setattr(queries, "ROWS_AT_ONCE", 2)
    document_id = await corpus.add("Ships", [f"ship number {number}" for number in range(21)])
    assert await corpus.written(document_id) == (21, 3)
    assert (await corpus.frequency("ship"), await corpus.total()) == (21, 21)
    # The chunks kept are as they were: all there is to write is the page that the others stood on.
    await corpus.rewrite(document_id, "Ships", [f"ship number {number}" for number in range(9)])
    assert await corpus.written(document_id) == (9, 2)
    assert (await corpus.frequency("ship"), await corpus.total()) == (9, 9)


async def test_statistics_follow_every_change(corpus):
    """Document frequencies equal a recount, folded or not; the service's own folding is held off."""
    async with corpus.folding_alone() as connection:
        first = await corpus.add("Ships", ["the red ship", "the blue ship", "a green boat"])
        await corpus.add("Boats", ["a red boat"])
        assert await corpus.frequency("ship") == 3
        assert await corpus.frequency("boat") == 2
        assert await corpus.total() == 4
        assert await indexing.fold_statistics(connection, corpus.organization_id) > 0
    async with corpus.folding_alone() as connection:
        assert (await corpus.frequency("ship"), await corpus.frequency("boat"), await corpus.total()) == (3, 2, 4)
        await corpus.rewrite(first, "Boats", ["the red ship"])
        assert (await corpus.frequency("ship"), await corpus.frequency("boat"), await corpus.total()) == (1, 2, 2)
        async with corpus.transaction() as removing:
            await indexing.remove_entries(removing, corpus.organization_id, document_ids=[first])
        assert (await corpus.frequency("ship"), await corpus.total()) == (0, 1)
        assert await indexing.fold_statistics(connection, corpus.organization_id) > 0
    assert (await corpus.frequency("ship"), await corpus.frequency("boat"), await corpus.total()) == (0, 1, 1)


async def test_two_folds_at_once_count_nothing_twice(corpus):
    for number in range(5):
        await corpus.add(f"Title {number}", ["ship and boat"])
    await asyncio.gather(corpus.fold(), corpus.fold(), corpus.add("More", ["ship"]), corpus.fold())
    while await corpus.fold():
        pass
    assert (await corpus.frequency("ship"), await corpus.frequency("boat"), await corpus.total()) == (6, 5, 6)


async def test_a_fold_keeps_the_portions_it_has_done(own_corpus, monkeypatch):
    try_lock = indexing.try_lock_statistics

    async def lock_for_the_test(*arguments):
        return asyncio.current_task().get_name() != "statistics" and await try_lock(*arguments)

    monkeypatch.setattr(indexing, "try_lock_statistics", lock_for_the_test)
    async with own_corpus.folding_alone():
        pass  # the service may have been at it
    await own_corpus.add("Ships", ["the red ship"])
    before, portions = await count_deltas(own_corpus), 0
    fold_deltas = indexing.fold_deltas

    async def fold_twice(*arguments, **options):
        nonlocal portions
        portions += 1
        if portions == 3:
            raise RuntimeError("broken")
        return await fold_deltas(*arguments, **options)

    monkeypatch.setattr(indexing, "FOLDED_AT_ONCE", 1)
    monkeypatch.setattr(indexing, "fold_deltas", fold_twice)
    with pytest.raises(ExceptionGroup):
        await fold_all(own_corpus.database)
    assert await count_deltas(own_corpus) == before - 2
    monkeypatch.setattr(indexing, "fold_deltas", fold_deltas)
    await fold_all(own_corpus.database)
    assert await count_deltas(own_corpus) == 0
    assert (await own_corpus.frequency("ship"), await own_corpus.total()) == (1, 1)


async def test_terms_no_longer_used_go_and_no_others_are_looked_at(service, corpus):
    document_id = await corpus.add("Ships", ["the red ship", "the blue boat"])
    await corpus.add("Boats", ["a red boat"])
    await corpus.fold()
    async with corpus.transaction() as connection:
        other = await indexing.create_space(connection, corpus.organization_id, model=corpus.model)
    added = "INSERT INTO term_statistics SELECT %s, number, %s, 1 FROM generate_series(1, 20000) AS number"
    service.execute(added, [other.space_id, corpus.organization_id])
    service.execute("ANALYZE term_statistics")
    async with corpus.transaction() as connection:
        await indexing.remove_entries(connection, corpus.organization_id, document_ids=[document_id])
    read = "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'term_statistics'"
    async with corpus.transaction() as connection:
        assert await indexing.fold_statistics(connection, corpus.organization_id) > 0
        assert (await connection.execute(text(read))).scalar_one() < 100
        left = await connection.execute(text("SELECT count(*), min(frequency) FROM term_statistics"))
        # Of the document that is left: its number of chunks, and its two words.
        assert tuple(left.one()) == (20_000 + 3, 1)


async def count_deltas(corpus):
    async with corpus.transaction() as connection:
        return (await connection.execute(text("SELECT count(*) FROM term_deltas"))).scalar_one()


async def test_a_long_document_keeps_nobody_waiting(own_corpus, monkeypatch):
    """Terms and vectors are processed in other threads than the event loop's, except for a few chunks."""
    threads: set[str] = set()

    def noted(function):
        def call(*args, **options):
            threads.add(threading.current_thread().name)
            return function(*args, **options)

        return call

    for name in ("weigh_chunks", "read_sparsevec", "as_sparsevec", "as_vector", "binary_codes"):
        monkeypatch.setattr(indexing, name, noted(getattr(indexing, name)))
    loop = threading.current_thread().name
    await own_corpus.add("Short", ["one chunk"])
    assert threads == {loop}
    threads.clear()
    document_id = await own_corpus.add("Long", [f"chunk number {number}" for number in range(40)])
    await own_corpus.rewrite(document_id, "Long", [f"other chunk {number}" for number in range(30)])
    await own_corpus.add("Few but large", ["word " * 10_000] * 3)
    async with own_corpus.transaction() as connection:
        await indexing.remove_entries(connection, own_corpus.organization_id, document_ids=[document_id])
    assert threads
    assert loop not in threads


async def test_only_what_changed_is_written_again(corpus):
    chunks = [f"chunk number {number} about ships" for number in range(20)]
    document_id = await corpus.add("Ships", chunks)
    before = await corpus.rows(document_id)
    chunks[7] = "something else"
    await corpus.rewrite(document_id, "Ships", chunks)
    after = await corpus.rows(document_id)
    assert [number for number in range(20) if before[number] != after[number]] == [7]
    await corpus.rewrite(document_id, "Ships", chunks[:10])
    assert len(await corpus.rows(document_id)) == 10
    assert await corpus.codes(document_id) == [8, 2]


async def test_a_version_no_longer_wanted_is_not_written(corpus):
    document_id = await corpus.add("Ships", ["one"])
    assert not await corpus.rewrite(document_id, "Ships", ["two"], wanted=3, version=2)
    assert [row["text"] for row in (await corpus.rows(document_id)).values()] == ["one"]


async def test_vectors_are_kept_per_document_and_model(corpus):
    """A text's vector is found again by its hash, but never through another document."""
    document_id = await corpus.add("Ships", ["one", "two"])
    other = await corpus.add("Boats", ["three"])
    digest = corpus.chunk("Ships", "two").hash
    own, place = corpus.space.model, (corpus.database, corpus.organization_id)
    hashes = {"dimensions": 384, "hashes": [digest, b"unknown"]}
    for owner, model, found in ((document_id, own, {digest}), (other, own, set()), (document_id, "other", set())):
        stored = await indexing.read_embeddings(*place, document_id=owner, model=model, **hashes)
        assert stored.keys() == found


class Held:
    """Work in an open transaction, with more work waiting behind."""

    def __init__(self, corpus):
        self._corpus, self._locked, self._may_end = corpus, asyncio.Event(), asyncio.Event()

    async def _work(self, work, *, leads):
        async with self._corpus.transaction() as connection:
            done = await work(connection)
            if leads:
                self._locked.set()
                await self._may_end.wait()
            return done

    async def run(self, first, second):
        leading = asyncio.create_task(self._work(first, leads=True))
        await self._locked.wait()
        following = asyncio.create_task(self._work(second, leads=False))
        await asyncio.sleep(0.2)
        assert not following.done()
        self._may_end.set()
        await leading
        return await following


@pytest.mark.parametrize("first", ["grant", "write"])
async def test_an_index_write_never_brings_an_older_access_class_back(corpus, first):
    document_id = await corpus.add("Ships", ["one", "two"])
    reader = Access(owner_id=None, viewers=frozenset({corpus.organization_id}), editors=frozenset())

    async def grant(connection):
        await set_access(connection, corpus.organization_id, object_id=document_id, access=reader)

    async def write(connection):
        assert await corpus.write(connection, document_id, "Ships", ["three", "two", "four"])

    await Held(corpus).run(*((grant, write) if first == "grant" else (write, grant)))
    classes = await corpus.access_classes(document_id)
    assert len(classes["chunks"]) == 3
    assert set(classes["chunks"]) == set(classes["vectors"]) == set(classes["code_pages"]) == {classes["resource"]}


async def test_a_removed_document_never_comes_back(corpus):
    document_id = await corpus.add("Ships", ["one"])

    async def remove(connection):
        await indexing.remove_entries(
            connection, corpus.organization_id, space_id=corpus.space.space_id, document_ids=[document_id]
        )

    async def write(connection):
        return await corpus.write(connection, document_id, "Ships", ["two"])

    assert await Held(corpus).run(remove, write) is False
    assert await corpus.rows(document_id) == {}


async def test_a_deleted_space_leaves_nothing(corpus):
    document_id = await corpus.add("Ships", ["one"])
    async with corpus.transaction() as connection:
        space = await indexing.create_space(connection, corpus.organization_id, model=corpus.model)
    await corpus.want(document_id, space)
    async with corpus.transaction() as connection:
        assert await corpus.write(connection, document_id, "Ships", ["one"], space=space)
        await delete_space(connection, corpus.organization_id, space_id=space.space_id)
    assert len(await corpus.rows(document_id)) == 1
    assert (await corpus.total(), await corpus.total(space)) == (1, 0)


async def test_a_space_is_deleted_while_its_statistics_are_folded(service, corpus):
    async with corpus.transaction() as connection:
        space = await indexing.create_space(connection, corpus.organization_id, model=corpus.model)
    turned = "INSERT INTO term_statistics SELECT %s, number, %s, 1 FROM generate_series(9, 1, -1) AS number"
    service.execute(turned, [space.space_id, corpus.organization_id])
    fold = text("UPDATE term_statistics SET frequency = 2 WHERE space_id = :space AND term = :term")
    async with corpus.transaction() as deleting:
        async with corpus.transaction() as folding:
            await folding.execute(fold, {"space": space.space_id, "term": 1})
            deletion = asyncio.create_task(delete_space(deleting, corpus.organization_id, space_id=space.space_id))
            await asyncio.to_thread(wait_blocked, service)
            await folding.execute(fold, {"space": space.space_id, "term": 9})
        await deletion


async def test_the_catalog_is_created_once(corpus):
    async def open_catalog():
        async with corpus.transaction() as connection:
            return await indexing.ensure_catalog_space(connection, corpus.organization_id, model=corpus.model)

    spaces = await asyncio.gather(open_catalog(), open_catalog(), open_catalog())
    assert {space.space_id for space in spaces} == {corpus.space.space_id}


class CountedTransactions:
    """A database with counted transactions; the next begins when `may_begin` is set."""

    def __init__(self, database) -> None:
        self.database, self.begun, self.may_begin = database, 0, asyncio.Event()
        self.may_begin.set()

    @asynccontextmanager
    async def transaction(self, organization_id):
        self.begun += 1
        await self.may_begin.wait()
        async with self.database.transaction(organization_id) as connection:
            yield connection


@pytest.fixture
async def writer(corpus):
    return Writer(CountedTransactions(corpus.database))


@pytest.fixture
def write(corpus, writer):
    return lambda document: writer.write(corpus.organization_id, space=corpus.space, document=document)


async def documents(corpus, *chunks):
    ids = [await corpus.register(f"Ship {number}") for number, _ in enumerate(chunks)]
    return [corpus.document(key, f"Ship {at}", each) for at, (key, each) in enumerate(zip(ids, chunks, strict=True))]


async def texts(corpus, made):
    return [[row["text"] for _, row in sorted((await corpus.rows(each.document_id)).items())] for each in made]


async def test_what_is_ready_at_once_shares_a_transaction(corpus, writer, write):
    before = await corpus.frequency("harbours"), await corpus.total()
    wanted = [["one harbour"], [f"{number} harbour" for number in range(9)], ["three harbours", "and four"]]
    made = await documents(corpus, *wanted)
    async with corpus.folding_alone() as connection:
        assert await asyncio.gather(*map(write, made)) == [True, True, True]
        deltas = "SELECT term, count(*) FROM term_deltas GROUP BY term HAVING count(*) > 1"
        assert (await connection.execute(text(deltas))).all() == []
    assert writer.database.begun == 1
    assert await texts(corpus, made) == wanted
    assert [await corpus.codes(each.document_id) for each in made] == [[1], [8, 1], [2]]
    assert (await corpus.frequency("harbours"), await corpus.total()) == (before[0] + 11, before[1] + 12)


async def test_nobody_waits_for_a_group(corpus, writer, write):
    """After a transaction has begun, later documents open another; a group is limited to one statement."""
    first, second = await documents(corpus, ["one"], ["two"])
    assert await write(first)
    assert await write(second)
    assert writer.database.begun == 2
    made = await documents(corpus, ["one"], ["two"], ["many"] * ROWS_AT_ONCE)
    assert all(await asyncio.gather(*map(write, made)))
    assert writer.database.begun == 4
    assert [len(each) for each in await texts(corpus, made)] == [1, 1, ROWS_AT_ONCE]


async def test_documents_with_turns_are_written_together(corpus, writer, write, monkeypatch):
    monkeypatch.setitem(GATHER_SECONDS, indexing.write_index, 60)
    made, turns = await documents(corpus, ["one"], ["two"]), writer.turns
    own, other = (turns.take(turns.enqueue(corpus.organization_id, Lane.SMALL)) for _ in made)
    async with own, other:
        first = asyncio.create_task(write(made[0]))
        for _ in range(3):
            await asyncio.sleep(0)
        assert writer.database.begun == 0
        assert await asyncio.gather(first, write(made[1])) == [True, True]
    assert writer.database.begun == 1


async def test_a_document_that_is_held_keeps_no_other_waiting(corpus, write):
    made = await documents(corpus, ["one"], ["two"], ["three"])
    reader = Access(owner_id=None, viewers=frozenset({corpus.organization_id}), editors=frozenset())
    async with corpus.transaction() as connection:
        held = made[1].document_id
        await set_access(connection, corpus.organization_id, object_id=held, access=reader)
        tasks = [asyncio.create_task(write(each)) for each in made]
        done, _ = await asyncio.wait([tasks[0], tasks[2]], timeout=20)
        assert [task.result() for task in done] == [True, True]
        assert not tasks[1].done()
        assert await texts(corpus, made) == [["one"], [], ["three"]]
    assert await tasks[1] is True
    classes = await corpus.access_classes(held)
    assert classes["chunks"] == classes["vectors"] == classes["code_pages"] == [classes["resource"]]


async def test_a_document_that_cannot_be_written_stops_no_other(corpus, write):
    made = await documents(corpus, ["one"], ["PostgreSQL takes no \x00"], ["three"], ["old"])
    await corpus.want(made[3].document_id, corpus.space, version=2)
    outcomes = await asyncio.gather(*map(write, made), return_exceptions=True)
    assert isinstance(outcomes.pop(1), DBAPIError)
    assert outcomes == [True, True, False]
    assert await texts(corpus, made) == [["one"], [], ["three"], []]


@pytest.mark.parametrize("cancelled", [0, 1])
async def test_a_document_that_is_given_up_stops_no_other(corpus, writer, write, cancelled):
    writer.database.may_begin.clear()
    made = await documents(corpus, ["one"], ["two"], ["three"])
    tasks = [asyncio.create_task(write(each)) for each in made]
    await asyncio.sleep(0)
    tasks.pop(cancelled).cancel()
    await asyncio.sleep(0)
    writer.database.may_begin.set()
    assert await asyncio.gather(*tasks) == [True, True]
    assert (await texts(corpus, made))[2] == ["three"]
