"""The statements of search, as text: they read only the organization and the caller's classes."""

import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy.dialects import postgresql

from carrel.wire.collections import FieldType
from carrel.wire.search import FilterOperator
from service.domains.documents.collections.filters import Condition
from service.domains.search import queries, sql
from service.domains.search.scoring.sql import AnySelect, Shape
from service.domains.search.search_query import Scope
from service.index.spaces.queries import Space, ask_current_space
from service.platform.batches import Batch

CONDITION = (Condition("a", FilterOperator.EQUAL, FieldType.STRING, "b"),)
SHAPES = [
    Shape(384, by_chunk, conditions, by_resource_type, distributed, has_vectors_inside=inside)
    for by_chunk in (False, True)
    for conditions in ((), CONDITION)
    for by_resource_type in (False, True)
    for distributed in (False, True)
    for inside in (False, True)
]
SHAPES += [
    replace(each, is_small=is_small)
    for each in SHAPES
    for is_small in (True, False)
    if not (each.is_distributed or each.has_vectors_inside)
]
LEGS = (sql.dense_leg, sql.lexical_leg)
REST = (sql.scores_near, sql.found_documents, sql.found_chunks, sql.neighbours)
# What a leg reads by itself, and not of the documents that it has found already.
INDEXED = re.compile(r"\bFROM (?:chunks_384|vectors_384|code_pages_384|chunks_with_terms_384)\b(?! JOIN)")
TABLE = re.compile(
    r"\b(?:FROM|JOIN)\s+"
    r"(chunks_384|vectors_384|code_pages_384|documents|resources|space_documents|class_readers)\b"
)
CLASSES = re.compile(r"\.access_class (?:= ANY|IN) \(")


def both_legs(shape: Shape) -> AnySelect:
    return sql.candidates(shape, by_words=True, by_meaning=True)


def text_of(statement: AnySelect) -> str:
    return str(statement.compile(dialect=postgresql.dialect()))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("build", [*LEGS, both_legs, *REST], ids=lambda build: build.__name__)
def test_every_table_is_bound_to_the_organization(build, shape):
    statement = text_of(build(shape))
    tables = TABLE.findall(statement)
    assert tables
    for table in set(tables):
        bound = statement.count(f"{table}.organization_id = %(")
        assert bound >= tables.count(table), (table, statement)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(
    ("build", "reads", "of_much"), [(sql.dense_leg, 3, 1), (sql.lexical_leg, 4, 3)], ids=["dense", "lexical"]
)
def test_access_stands_inside_each_leg(build, reads, of_much, shape):
    parts = INDEXED.split(text_of(build(shape)))[1:]
    reads = 1 if shape.is_distributed or shape.is_small else of_much if shape.is_small is False else reads
    assert len(parts) == reads
    for part in parts:
        before_limit = part.partition("LIMIT")[0]
        assert CLASSES.search(before_limit)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_access_stands_in_both_legs_of_a_search(shape):
    statement = text_of(both_legs(shape))
    reads = 2 if shape.is_distributed or shape.is_small else 4 if shape.is_small is False else 6
    assert len(CLASSES.findall(statement)) == len(INDEXED.findall(statement)) == reads
    assert statement.count("fitting AS MATERIALIZED") == bool(shape.conditions)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_neighbours_of_found_chunks_are_limited_to_what_is_readable(shape):
    assert CLASSES.search(text_of(sql.neighbours(shape)))


def test_a_statement_is_built_and_compiled_once_for_all_values():
    caller: Any = SimpleNamespace(collection_ids=None)
    scope = Scope(caller=caller, space=Space(1, "model", 384), by_chunk=False, conditions=CONDITION)
    other = replace(scope, conditions=(replace(CONDITION[0], value="c"),))
    shapes = [queries.shape_of(each) for each in (scope, other)]
    assert both_legs(shapes[0]) is both_legs(shapes[1])
    assert "value_0" in text_of(both_legs(shapes[0]))
    assert both_legs(Shape(384, by_chunk=False)) is both_legs(Shape(384, by_chunk=False))


def test_the_statement_of_a_space_is_planned_once():
    ask_current_space(batch := Batch(), UUID(int=1), space_id=2)
    [statement] = batch.parts
    assert re.search(r"chunk_count > 0 ORDER BY .*\s+LIMIT 1\)", statement.text)  # as its index says, not a parameter
    assert len(statement.values) == 2
