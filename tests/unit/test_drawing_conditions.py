"""Conditions drawn from questions by rules (`service.domains.search.understanding.drawing`)."""

import json
from collections import Counter
from datetime import date
from pathlib import Path
from typing import Any

from service.domains.search.understanding.drawing import draw_conditions, keys_of
from service.domains.search.understanding.folding import fold

SET: dict[str, Any] = json.loads((Path(__file__).parents[1] / "data" / "filtering-questions.json").read_text())
TODAY = date.fromisoformat(SET["today"])
QUESTIONS: list[dict[str, Any]] = SET["questions"]


def draw(question: str, corpus: str = "sample") -> list[list[str]]:
    """The conditions of a question over a corpus."""
    about = SET["corpora"][corpus]

    keys = keys_of(question, about["fields"])
    found: dict[str, list[tuple[str, str]]] = {}
    for field, values in about["values"].items():
        for value in values:
            if fold(value) in keys:
                found.setdefault(fold(value), []).append((field, value))
    drawn = draw_conditions(question, about["fields"], today=TODAY, values=found)
    assert all(each.words in question for each in drawn)  # what is applied is shown with the words that state it
    return [[each.field, each.operator.value, each.value] for each in drawn]


def test_nine_of_ten_conditions_are_right() -> None:
    """Of the 60 questions' conditions nine in ten are drawn, and of those drawn nine in ten are stated."""
    count: Counter[str] = Counter()
    wrong: list[tuple[str, object]] = []
    for each in QUESTIONS:
        expected, drawn = each["conditions"], draw(each["question"], each["corpus"])
        right = sum(condition in expected for condition in drawn)
        count.update(expected=len(expected), drawn=len(drawn), right=right)
        if sorted(drawn) != sorted(expected):
            wrong.append((each["question"], drawn))
    assert len(QUESTIONS) == 60
    assert count["right"] >= 0.9 * count["drawn"], wrong
    assert count["right"] >= 0.9 * count["expected"], wrong


def test_other_languages_are_left_alone() -> None:
    """A denial in another language is none that the rules can read: nothing is drawn."""
    assert draw("documents, team: finance") == [["team", "==", "finance"]]
    assert draw("documents, nicht team: finance") == []
