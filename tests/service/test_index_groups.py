"""Documents whose index entries are written in one transaction, and those that can't be."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from service.index.ingestion.indexing import Writer
from service.index.queries import ROWS_AT_ONCE
from service.permissions.access import Access
from service.permissions.service import set_access


class CountedTransactions:
    """A database whose transactions are counted; the next one begins when `may_begin` is set."""

    def __init__(self, database) -> None:
        self.database = database
        self.begun = 0
        self.may_begin = asyncio.Event()
        self.may_begin.set()

    @asynccontextmanager
    async def transaction(self, organization_id):
        self.begun += 1
        await self.may_begin.wait()
        async with self.database.transaction(organization_id) as connection:
            yield connection


@pytest.fixture
async def database(corpus):
    return CountedTransactions(corpus.database)


@pytest.fixture
def write(corpus, database):
    writer = Writer(database)

    async def write(document):
        return await writer.write(corpus.organization_id, space=corpus.space, document=document)

    return write


async def documents(corpus, *chunks):
    """Documents in the catalog that aren't indexed, one for each list of chunks."""
    ids = [await corpus.register(f"Ship {number}") for number, _ in enumerate(chunks)]
    return [corpus.document(key, f"Ship {at}", each) for at, (key, each) in enumerate(zip(ids, chunks, strict=True))]


async def texts(corpus, made):
    return [[row["text"] for _, row in sorted((await corpus.rows(each.document_id)).items())] for each in made]


async def test_what_is_ready_at_once_shares_a_transaction(corpus, database, write):
    """Each document has its own chunks and pages, the counts are those of all, and a term has one row of changes."""
    before = await corpus.frequency("harbours"), await corpus.total()
    wanted = [["one harbour"], [f"{number} harbour" for number in range(9)], ["three harbours", "and four"]]
    made = await documents(corpus, *wanted)
    async with corpus.folding_alone() as connection:
        assert await asyncio.gather(*map(write, made)) == [True, True, True]
        deltas = "SELECT term, count(*) FROM term_deltas GROUP BY term HAVING count(*) > 1"
        assert (await connection.execute(text(deltas))).all() == []
    assert database.begun == 1
    assert await texts(corpus, made) == wanted
    assert [await corpus.codes(each.document_id) for each in made] == [[1], [8, 1], [2]]
    assert (await corpus.frequency("harbours"), await corpus.total()) == (before[0] + 11, before[1] + 12)


async def test_nobody_waits_for_a_group(corpus, database, write):
    """Whoever comes when a transaction has begun opens another; a group holds what one statement writes."""
    first, second = await documents(corpus, ["one"], ["two"])
    assert await write(first)
    assert await write(second)
    assert database.begun == 2
    made = await documents(corpus, ["one"], ["two"], ["many"] * ROWS_AT_ONCE)
    assert all(await asyncio.gather(*map(write, made)))
    assert database.begun == 4
    assert [len(each) for each in await texts(corpus, made)] == [1, 1, ROWS_AT_ONCE]


async def test_a_document_that_is_held_keeps_no_other_waiting(corpus, write):
    """The others of its group are indexed meanwhile, and it has the access class that it was given then."""
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
    """It fails by itself, with its own error; one whose version is overtaken is left as it is."""
    made = await documents(corpus, ["one"], ["PostgreSQL takes no \x00"], ["three"], ["old"])
    await corpus.want(made[3].document_id, corpus.space, version=2)
    outcomes = await asyncio.gather(*map(write, made), return_exceptions=True)
    assert isinstance(outcomes.pop(1), DBAPIError)
    assert outcomes == [True, True, False]
    assert await texts(corpus, made) == [["one"], [], ["three"], []]


@pytest.mark.parametrize("cancelled", [0, 1])
async def test_a_document_that_is_given_up_stops_no_other(corpus, database, write, cancelled):
    """Whoever opens the transaction is cancelled, or one who goes with it."""
    database.may_begin.clear()
    made = await documents(corpus, ["one"], ["two"], ["three"])
    tasks = [asyncio.create_task(write(each)) for each in made]
    await asyncio.sleep(0)
    tasks.pop(cancelled).cancel()
    await asyncio.sleep(0)
    database.may_begin.set()
    assert await asyncio.gather(*tasks) == [True, True]
    assert (await texts(corpus, made))[2] == ["three"]
