"""Conditions that a language model says a query states (`service.domains.search.understanding.checking`)."""

import csv
from itertools import product
from pathlib import Path

import pytest

from carrel.wire.search import FilterOperator
from service.domains.search.understanding.checking import StatedCondition, check_conditions, check_questions
from service.domains.search.understanding.extraction import extract_questions
from tests.harness.cases import cases
from tests.harness.lazy import lazily
from tests.unit.test_drawing_conditions import QUESTIONS, SET, TODAY

query_model = lazily("bench.query_model")
ORDINARY: dict = {
    "fields": {
        **dict.fromkeys(("team", "status"), "STRING"),
        **dict.fromkeys(("draft", "confidential", "signed"), "BOOLEAN"),
        **dict.fromkeys(("pages", "year"), "INT"),
        "date": "DATETIME",
    },
    "values": {"team": ["Finance"], "status": ["new", "open", "closed"]},
}
"""Fields whose names and values are ordinary words, which texts are about."""
CORPORA = {**SET["corpora"], "ordinary": ORDINARY}


def check(query: str, *stated: tuple[str, str, str, str], corpus: str = "sample") -> list[list[str]]:
    """The conditions of a query over a corpus, of which a model stated some."""
    about = CORPORA[corpus]
    conditions = [
        StatedCondition(field=field, operator=FilterOperator(operator), value=value, words=words)
        for field, operator, value, words in stated
    ]
    checked = check_conditions(
        conditions, query, fields=about["fields"], values=query_model.values_in(about, query), today=TODAY
    )
    assert all(each.words in query for each in checked)
    return [[each.field, each.operator.value, each.value] for each in checked]


@pytest.mark.parametrize(("query", "stated", "applied"), cases("stated_conditions"))
def test_the_words_of_the_query_decide(query: str, stated: tuple[str, str, str, str], applied: str | None) -> None:
    assert [value for _, _, value in check(query, stated)][:1] == ([applied] if applied else [])


@pytest.mark.parametrize(("query", "stated", "applied"), cases("what_a_text_is_about_is_no_condition"))
def test_what_a_text_is_about_is_no_condition(query, stated, applied):
    assert [" ".join(bound) for _, *bound in check(query, stated, corpus="ordinary")] == applied


@pytest.mark.parametrize(("message", "read", "questions"), cases("own_questions"))
def test_a_question_of_a_models_own_is_not_searched_for(message: str, read: list[str], questions: int | None) -> None:
    assert check_questions(read, message) == (read[:questions] if questions else extract_questions(message))


def test_rules_draw_what_a_model_leaves_out() -> None:
    query = "finance documents since 2025 about fuel"
    ruled = [["team", "==", "finance"], ["issued", ">=", "2025-01-01"]]
    assert check(query) == check(query, ("team", "!=", "finance", "finance")) == ruled
    assert check(query, ("pages", ">", "2025", "since 2025"), ("issued", "<", "2020-01-01", "since 2025")) == ruled


def test_a_model_that_states_whatever_it_can_narrows_nothing() -> None:
    plain = [(each["question"], each["corpus"]) for each in QUESTIONS if not each["conditions"]]
    with (Path(__file__).parents[1] / "answering" / "answer_set.csv").open(newline="") as lines:
        plain += [(row["question"], row["corpus"]) for row in csv.DictReader(lines)][::20]
    applied: list[list[str]] = []
    for question, corpus in plain:
        about = SET["corpora"][corpus]
        words = question.split()
        parts = [" ".join(words[at : at + size]) for size in (1, 4) for at in range(len(words) - size + 1)]
        named = {value for known in query_model.values_in(about, question).values() for _, value in known}
        values = {"BOOLEAN": ["true"], "DATETIME": ["2025-01-01"], "INT": ["20"], "DOUBLE": ["5"], "STRING": named}
        for field, kind in about["fields"].items():
            for value, part in product(values[kind], parts):
                applied += check(question, (field, "==", value, part), corpus=corpus)
    assert applied == []
