"""Conditions that a language model says a query states (`service.domains.search.understanding.checking`)."""

import csv
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from carrel.wire.search import FilterOperator
from service.domains.search.understanding.checking import StatedCondition, check_conditions, check_questions
from service.domains.search.understanding.extraction import extract_questions
from tests.harness.cases import cases
from tests.harness.lazy import lazily
from tests.unit.test_drawing_conditions import QUESTIONS, SET, TODAY

query_model = lazily("bench.query_model")
ORDINARY: dict[str, Any] = {
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


@pytest.mark.parametrize(
    ("query", "stated", "applied"),
    [
        ("what the people of finance wrote about us", ("team", "==", "Finance", "finance"), ["== Finance"]),
        ("which documents are marked as draft?", ("draft", "==", "true", "marked as draft"), ["== true"]),
        ("papers we wrote in 2024", ("date", ">=", "2024-01-01", "in 2024"), [">= 2024-01-01", "< 2025-01-01"]),
        ("letters whose pages are over 20", ("pages", ">", "20", "pages are over 20"), ["> 20"]),
        *(
            (query, ("team", "==", "Finance", words), [])
            for query, words in (
                ("reports that mentioned finance", "finance"),
                ("reports that discussed finance", "finance"),
                ("documents that criticised finance", "finance"),
                ("reports which affected finance and legal", "finance"),
                ("what documents of the team are needed in finance", "finance"),
                ("documents about what the finance people wrote", "what the finance people wrote"),
            )
        ),
        ("documents not about fuel that finance wrote", ("team", "!=", "Finance", "finance wrote"), []),
        *(
            (query, ("team", "!=", "Finance", query), [])
            for query in (
                "whatever the finance people wrote, but not about fuel",
                "what finance wrote on routes that are not open",
                "Could you not find what finance wrote?",
            )
        ),
        ("reports on the first draft of the contract", ("draft", "==", "true", "draft"), []),
        ("documents about our confidential settlement", ("confidential", "==", "true", "confidential"), []),
        ("letters about the recently signed contract", ("signed", "==", "true", "signed"), []),
        ("do we need letters marked confidential?", ("confidential", "==", "true", "confidential"), []),
        ("what are documents marked confidential for", ("confidential", "==", "true", "confidential"), []),
        ("documents with pages and more than 5 pictures", ("pages", ">", "5", "pages"), []),
        ("letters whose pages have over 20 photos", ("pages", ">", "20", "pages"), []),
        ("how many pages in documents over 100 people read", ("pages", ">", "100", "pages"), []),
        *(
            (f"{text} 2024", ("date", ">=", "2024-01-01", "2024"), [])
            for text in ("documents that covered", "reports that mentioned", "reports that predicted")
        ),
        ("which documents are new to me", ("status", "==", "new", "new"), []),
        ("reports are in the new building", ("status", "==", "new", "new"), []),
        ("which documents were opened in new buildings", ("status", "==", "new", "new"), []),
        ("reports that are closed to visitors", ("status", "==", "closed", "closed"), []),
        ("reports about year 2024", ("year", "==", "2024", "year 2024"), []),
        ("which reports have the year 2024 in their title", ("year", "==", "2024", "the year 2024"), []),
        ("documents of the year 99999999999999999999", ("year", "==", "9" * 20, "the year " + "9" * 20), []),
        ("files whose pages are over 900000000000 billion", ("pages", ">", "9", "over 900000000000 billion"), []),
    ],
)
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
