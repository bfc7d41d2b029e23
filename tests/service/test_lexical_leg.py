"""Finding chunks by their terms equals scoring every chunk, within the reader's rights."""

import random
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from sqlalchemy import text

from carrel.wire.collections import FieldType
from carrel.wire.search import FilterOperator, SearchMode
from service.auth.callers import Caller
from service.domains.documents.collections.filters import Condition
from service.domains.search import queries, sql
from service.domains.search.fusion import Legs
from service.domains.search.search_query import Hit, Scope, SearchQuery, prepare_query
from service.index.forms import RULES
from service.index.spaces.queries import CurrentSpace
from service.index.term_keys import NO_LOOKUP, Lookup, choose_keys
from service.index.terms import read_query, term_of, weigh_query
from service.permissions.access import Access
from service.platform.batches import Batch
from service.platform.identifiers import uuid7
from service.schema.indexing import TOTAL_TERM
from service.text.embedding import EmbeddingModel
from tests.harness.corpus import MEAN, Corpus, vector_of
from tests.harness.services import RunningService
from tests.unit.test_terms import keys_of

MODEL = EmbeddingModel("a model", 384, MEAN)
WORDS = [f"word{number}" for number in range(40)]
NEEDED = 10


@pytest.fixture(autouse=True)
def few_pages(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Treat a single readable page as many: a small catalog is then searched like a large one."""
    monkeypatch.setattr(sql, "FEW_PAGES", 1)
    forget_statements()
    yield
    forget_statements()


@pytest.fixture(scope="module")
async def corpus(module_service: RunningService) -> AsyncIterator[Corpus]:
    corpus = await Corpus.open(module_service)
    draw = random.Random(3)  # noqa: S311 - nothing secret
    weights = [1 / (1 + number) for number in range(len(WORDS))]
    everyone = Access(owner_id=corpus.owner_id, viewers=frozenset({corpus.organization_id}))
    for number in range(60):
        chunks = [" ".join(draw.choices(WORDS, weights, k=draw.randint(3, 60))) for _ in range(draw.randint(1, 4))]
        await corpus.add(f"Note {number}", chunks, access=None if number % 3 else everyone)
    await corpus.fold()
    yield corpus
    await corpus.close()


def forget_statements() -> None:
    """Rebuild the statements with a changed number."""
    for build in vars(sql).values():
        if hasattr(build, "cache_clear"):
            build.cache_clear()


def reader(corpus: Corpus, *, is_owner: bool) -> Caller:
    principal_id = corpus.owner_id if is_owner else uuid7()
    return Caller(
        corpus.organization_id, principal_id, (principal_id, corpus.organization_id), kind="user", email="", name="",
        is_admin=False, credential_id=uuid7(), may_act_for_users=False, page_key=b"",
    )  # fmt: skip


async def weigh(corpus: Corpus, words: list[str], *, most: int) -> SearchQuery:
    query = " ".join(words)
    asked = prepare_query(query, mode=SearchMode.LEXICAL, language="english", embedding=vector_of(query), model=MODEL)
    space_id = corpus.space.space_id
    frequencies = await corpus.frequencies(space_id, [TOTAL_TERM, *asked.reading.terms])
    weights = weigh_query(read_query(query, ("english",)), frequencies=frequencies, total=frequencies[TOTAL_TERM])
    keys, few = (
        choose_keys(weights, space_id=space_id, frequencies=frequencies, most=each) for each in (most, most // 4)
    )
    return replace(asked.with_weights(weights), lookup=keys, few=few)


async def candidates(
    corpus: Corpus, scope: Scope, asked: SearchQuery, *, needed: int = NEEDED
) -> tuple[Legs[int], list[queries.ExactScores]]:
    async with corpus.transaction() as connection:
        return await queries.find_candidates(connection, scope, asked, at_least=needed)


async def leg(corpus: Corpus, scope: Scope, asked: SearchQuery, *, needed: int = NEEDED) -> list[Hit]:
    legs, exact = await candidates(corpus, scope, asked, needed=needed)
    return [exact[number].hit for number in legs.lexical]


def by_every_chunk(asked: SearchQuery) -> SearchQuery:
    return replace(asked, lookup=NO_LOOKUP, few=NO_LOOKUP)


@pytest.mark.parametrize("by_chunk", [False, True])
@pytest.mark.parametrize("is_owner", [False, True])
async def test_the_first_hits_are_those_of_scoring_every_chunk(corpus: Corpus, by_chunk: bool, is_owner: bool) -> None:
    draw = random.Random(5)  # noqa: S311 - nothing secret
    whole = Scope(caller=reader(corpus, is_owner=is_owner), space=corpus.space, by_chunk=by_chunk)
    narrowed = replace(whole, conditions=(Condition("kind", FilterOperator.NOT_EQUAL, FieldType.STRING, "x"),))
    bounds = set[bool]()
    for _ in range(25):
        asked = await weigh(corpus, draw.sample(WORDS, draw.randint(1, 4)), most=draw.choice([5, 20, 60, 1000]))
        bounds.add(asked.lookup.bound > 0)
        for scope in (whole, narrowed):
            hits = await leg(corpus, scope, asked)
            assert hits[:NEEDED] == (await leg(corpus, scope, by_every_chunk(asked)))[:NEEDED]
    assert bounds == {False, True}


async def test_keys_find_chunks_until_that_is_not_enough(module_service: RunningService, corpus: Corpus) -> None:
    scope = Scope(caller=reader(corpus, is_owner=True), space=corpus.space, by_chunk=True)
    asked = replace(await weigh(corpus, ["word0", "word30"], most=1000), few=NO_LOOKUP)
    every = await leg(corpus, scope, asked)
    rare = term_of("word30", "english")
    keys = tuple(key for key in asked.lookup.keys if (key >> 2) & (2**29 - 1) == rare - 1)
    assert 0 < len(await leg(corpus, scope, replace(asked, lookup=Lookup(keys, bound=0.0)))) < len(every)
    assert await leg(corpus, scope, replace(asked, lookup=Lookup(keys, bound=1000.0))) == every
    with function_of_the_service(module_service):
        assert await leg(corpus, scope, replace(asked, lookup=Lookup(keys, bound=0.0))) == every


@pytest.mark.parametrize("by_chunk", [False, True])
async def test_few_keys_do_where_more_would_not_change_the_leg(corpus, monkeypatch, by_chunk) -> None:
    scope = Scope(caller=reader(corpus, is_owner=True), space=corpus.space, by_chunk=by_chunk)
    asked = await weigh(corpus, ["word12", "word20"], most=1000)
    every = await leg(corpus, scope, replace(asked, few=NO_LOOKUP))
    common = term_of("word12", "english")
    keys = tuple(key for key in asked.lookup.keys if (key >> 2) & (2**29 - 1) == common - 1)
    few = await leg(corpus, scope, replace(asked, few=Lookup(keys, bound=0.0)))
    assert sql.LEAST_PROVEN < len(few) < len(every)
    reached = replace(asked, few=Lookup(keys, bound=0.01))
    assert await leg(corpus, scope, reached) == every
    monkeypatch.setattr(sql, "LEG", len(few))
    forget_statements()
    hits = await leg(corpus, scope, reached)
    assert hits == few[: len(hits)] != every[: len(hits)]


@contextmanager
def function_of_the_service(service: RunningService) -> Iterator[None]:
    """Let a role without read access own the function for finding chunks."""
    give = "ALTER FUNCTION chunks_with_terms_384 OWNER TO {}".format
    with service.owner_connection() as owner:
        owner.execute("GRANT CREATE ON SCHEMA public TO carrel_service")
        owner.execute(give("carrel_service"))
        try:
            yield
        finally:
            owner.execute(give("CURRENT_USER"))
            owner.execute("GRANT EXECUTE ON FUNCTION chunks_with_terms_384 TO carrel_service")
            owner.execute("REVOKE CREATE ON SCHEMA public FROM carrel_service")


@pytest.mark.parametrize("mode", SearchMode)
@pytest.mark.parametrize("by_chunk", [False, True])
async def test_little_is_found_as_it_is_out_of_much(corpus, monkeypatch, by_chunk, mode) -> None:
    whole = Scope(caller=reader(corpus, is_owner=True), space=corpus.space, by_chunk=by_chunk)
    narrowed = replace(whole, conditions=(Condition("kind", FilterOperator.NOT_EQUAL, FieldType.STRING, "x"),))
    asked = replace(await weigh(corpus, ["word0", "word9"], most=1000), mode=mode)
    of_much = [await candidates(corpus, scope, by_every_chunk(asked)) for scope in (whole, narrowed)]
    monkeypatch.setattr(sql, "FEW_PAGES", 10_000)
    forget_statements()
    nothing = replace(asked, lookup=Lookup((1,), bound=0.0))
    assert [await candidates(corpus, scope, nothing) for scope in (whole, narrowed)] == of_much
    space = corpus.space
    current = CurrentSpace(space.space_id, space.model, space.dimensions, oldest=RULES)
    scopes = [replace(scope, space=current) for scope in (whole, narrowed)]
    small = replace(nothing, is_small=True)
    batch = Batch()
    queries.ask_candidates(batch, scopes[0], small, at_least=NEEDED)
    assert "code_pages" not in batch.parts[0].text
    assert [await candidates(corpus, scope, small) for scope in scopes] == of_much
    large = replace(by_every_chunk(asked), is_small=False)
    assert [await candidates(corpus, scope, large) for scope in scopes] == of_much
    assert all(exact and (legs.dense or legs.lexical) for legs, exact in of_much)


async def test_the_function_shows_one_organization(corpus: Corpus) -> None:
    asked = await weigh(corpus, WORDS[:3], most=1000)
    statement = text("SELECT count(*) FROM chunks_with_terms_384(:keys, cast(:terms AS sparsevec))")
    given: dict = {"keys": list(asked.lookup.keys), "terms": asked.terms}
    counts: list[int] = []
    for organization_id in (corpus.organization_id, uuid7(), None):
        async with corpus.database.transaction(organization_id) as connection:
            counts.append((await connection.execute(statement, given)).scalar_one())
    assert counts[0] > 0
    assert counts[1:] == [0, 0]


async def test_the_database_makes_the_keys_that_are_looked_up(corpus: Corpus) -> None:
    """A key consists of space, term and tier of weight; a chunk without terms has none."""
    weights = {1: 0.2, 2: 0.4999, 3: 0.5, 4: 0.59, 5: 0.6, 6: 0.7, 2**29: 0.93}
    vector = "{" + ",".join(f"{term}:{weight}" for term, weight in weights.items()) + f"}}/{2**29}"
    statement = text("SELECT term_keys(7, cast(:one AS sparsevec)), term_keys(7, cast(:other AS sparsevec))")
    async with corpus.transaction() as connection:
        row = (await connection.execute(statement, {"one": vector, "other": f"{{}}/{2**29}"})).one()
    assert sorted(row[0]) == sorted(keys_of(weights))
    assert not row[1]
