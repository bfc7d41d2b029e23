"""Parsing a query: operators, questions, and the conditions found by a language model."""

import csv
import re
from datetime import date
from itertools import product
from pathlib import Path

import pytest

from carrel.wire.search import FilterOperator
from service.domains.search.syntax.parsing import Clause, parse_query
from service.domains.search.syntax.queries import pattern_of
from service.domains.search.understanding.checking import StatedCondition, check_conditions, check_questions
from service.domains.search.understanding.extraction import MOST_QUESTIONS, extract_questions
from tests.harness.cases import cases
from tests.harness.lazy import lazily
from tests.unit.test_drawing_conditions import QUESTIONS, SET, TODAY


@pytest.mark.parametrize(("query", "text", "clauses"), cases("signs_become_clauses"))
def test_signs_become_clauses(query: str, text: str, clauses: list[tuple[list[str], bool]]) -> None:
    parsed = parse_query(query)
    expected = tuple(Clause(tuple(texts), excludes) for texts, excludes in clauses)
    assert (parsed.text, parsed.clauses) == (text, expected)
    assert not parsed.not_understood


@pytest.mark.parametrize("query", cases("texts_that_are_no_signs"))
def test_these_are_no_signs(query: str) -> None:
    parsed = parse_query(query)
    assert (parsed.text, parsed.clauses, parsed.signs, parsed.not_understood) == (query, (), (), ())


@pytest.mark.parametrize(("query", "reason"), cases("signs_that_are_not_understood"))
def test_a_sign_that_is_not_understood_is_told(query: str, reason: str) -> None:
    parsed = parse_query(query)
    assert not parsed.signs
    assert reason in " ".join(parsed.not_understood)


@pytest.mark.parametrize(
    "query",
    ["budget OR type:pdf", "type:pdf OR budget", "after:2024 OR type:pdf", "-type:pdf OR type:md", "type:pdf OR -in:x"],
)
def test_an_or_that_joins_no_two_fields_is_told(query: str) -> None:
    parsed = parse_query(query)
    assert [told for told in parsed.not_understood if told.startswith("OR joins two words")] != []
    assert not any(each.is_either for each in parsed.fields)


@pytest.mark.parametrize(
    ("written", "day"),
    [("2025", date(2025, 1, 1)), ("2025-03", date(2025, 3, 1)), ("4.3.2025", date(2025, 3, 4)), ("2025-02-30", None)]
    + [(written, date(2025, 3, 1)) for written in ("March 2025", "2025/3/1", "1. März 2025", "1 mars 2025")],
)
def test_a_field_of_time_takes_a_day_a_month_or_a_year(written: str, day: date | None) -> None:
    assert [each.day for each in parse_query(f'x after:"{written}"').fields] == ([day] if day else [])


def test_the_query_without_what_is_written_is_the_query_without_the_sign() -> None:
    query = 'travel "by train" -hotel title:trains OR title:budget'
    for sign in parse_query(query).signs:
        assert [each.written for each in parse_query(query.replace(sign.written, "")).signs] == [
            each.written for each in parse_query(query).signs if each.written != sign.written
        ]


def test_a_phrase_is_no_part_of_a_longer_word() -> None:
    texts = ("on net\u201330 terms", "Ñét 30", "planet 30", "net 300", "net. 30", "net30")
    patterns = {phrase: re.sub(r"\\[mM]", r"\\b", pattern_of(phrase)) for phrase in ("net 30", "net-30", "C++", "a.b")}
    for phrase in ("net 30", "net-30"):
        assert [bool(re.search(patterns[phrase], text, re.IGNORECASE)) for text in texts] == [True, True, *[False] * 4]
    assert [re.search(patterns["C++"], text) is None for text in ("in C++", "in CC", "in BC++")] == [False, True, True]
    assert re.search(patterns["a.b"], "a.b and á b")
    assert not re.search(patterns["a.b"], "á b")


@pytest.mark.parametrize(("message", "questions"), cases("questions_of_messages"))
def test_questions(message: str, questions: list[str]) -> None:
    assert extract_questions(message) == questions


def test_there_are_never_many_questions() -> None:
    assert len(extract_questions("What is one? Who is two? " * 50)) <= MOST_QUESTIONS
    assert len(extract_questions(" ".join(f"What is thing {number}?" for number in range(100)))) == MOST_QUESTIONS
    assert extract_questions("?! ...") == ["?! ..."]
    # Patterns that begin at each of many empty lines would take seconds, in which the service answers nobody.
    assert extract_questions("\n" * 1_000_000 + "?") == ["\n" * 1_000_000 + "?"]
    # A long sentence that tells a number is left out rather than the question after it.
    long = f"The number is 4711 {'and so on ' * 60}."
    assert extract_questions(f"{long} How can I fix the printer?") == ["How can I fix the printer?"]


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
"""Fields with ordinary words as names and values."""
CORPORA = {**SET["corpora"], "ordinary": ORDINARY}


def check(query: str, *stated: tuple[str, str, str, str], corpus: str = "sample") -> list[list[str]]:
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
