"""Conditions drawn from questions by rules (`service.domains.search.understanding.drawing`)."""

import csv
import json
from collections import Counter
from datetime import date
from email import message_from_bytes
from email.utils import parsedate_to_datetime
from pathlib import Path

import pytest

from carrel.wire.collections import SchemaFieldInfo
from carrel.wire.field_values import expectation, read_value
from carrel.wire.search import DrawnFilter, FilterOperator
from service.domains.documents.collections.service import check_metadata
from service.domains.search.understanding.drawing import draw_conditions, find_unused, keys_of
from service.domains.search.understanding.folding import fold
from service.domains.search.understanding.query_texts import read_query
from tests.harness.cases import cases

SET: dict = json.loads((Path(__file__).parents[1] / "data" / "filtering-questions.json").read_text())
TODAY = date.fromisoformat(SET["today"])
QUESTIONS: list[dict] = SET["questions"]


def draw(question: str, corpus: str = "sample") -> list[list[str]]:
    about = SET["corpora"][corpus]
    asked = read_query(question, about["fields"])
    if asked is None:
        return []
    keys = keys_of(asked)
    found: dict[str, list[tuple[str, str]]] = {}
    for field, values in about["values"].items():
        for value in values:
            if fold(value) in keys:
                found.setdefault(fold(value), []).append((field, value))
    drawn = draw_conditions(asked, today=TODAY, values=found)
    assert all(each.words in question for each in drawn)  # what is applied is shown with the words that state it
    return [[each.field, each.operator.value, each.value] for each in drawn]


def test_nine_of_ten_conditions_are_right() -> None:
    count: Counter[str] = Counter()
    wrong: list[tuple[str, object]] = []
    for each in QUESTIONS:
        expected, drawn = each["conditions"], draw(each["question"], each["corpus"])
        count.update(expected=len(expected), drawn=len(drawn), right=sum(condition in expected for condition in drawn))
        if sorted(drawn) != sorted(expected):
            wrong.append((each["question"], drawn))
    assert len(QUESTIONS) == 60
    assert count["right"] >= 0.9 * count["drawn"], wrong
    assert count["right"] >= 0.9 * count["expected"], wrong


def test_the_samples_documents_have_dates_that_narrow() -> None:
    folder = Path(__file__).parents[2] / "sample"
    described = json.loads((folder / "directory.json").read_text())["collection"]["fields"]
    fields = {field["name"]: SchemaFieldInfo(**field) for field in described}
    with (folder / "manifest.csv").open(newline="") as lines:
        found = {row["path"]: json.loads(row["metadata"]) for row in csv.DictReader(lines)}
    for path, metadata in found.items():
        assert check_metadata(metadata, fields) == metadata
        assert metadata.keys() == fields.keys()
        if path.endswith(".eml"):
            sent = message_from_bytes((folder / path).read_bytes())["Date"]
            assert parsedate_to_datetime(sent).date().isoformat() == metadata["issued"]
    assert draw("finance reports since March 2025") == [["team", "==", "finance"], ["issued", ">=", "2025-03-01"]]
    fits = [one for one in found.values() if one["team"] == "finance" and one["issued"] >= "2025-03-01"]
    assert 0 < len(fits) < sum(one["team"] == "finance" for one in found.values())


def test_questions_that_state_no_condition_are_left_alone() -> None:
    """Questions about the handbook and the sample are about their subjects, so filters must not change the ranking."""
    tests = Path(__file__).parents[1]
    with (tests / "answering" / "answer_set.csv").open(newline="") as lines:
        asked = [(row["question"], row["corpus"]) for row in csv.DictReader(lines)]
    with (tests / "service" / "handbook_questions.csv").open(newline="") as lines:
        asked += [(row["question"], "handbook") for row in csv.DictReader(lines)]
    assert len(asked) > 100
    assert [(question, drawn) for question, corpus in asked if (drawn := draw(question, corpus))] == []


def test_other_languages_are_left_alone() -> None:
    assert draw("documents, team: finance") == [["team", "==", "finance"]]
    assert draw("documents, nicht team: finance") == []


@pytest.mark.parametrize("question", cases("one_of_several_alternatives_is_no_condition"))
def test_one_of_several_alternatives_is_no_condition(question: str) -> None:
    """A filter for one alternative would exclude the rest."""
    assert draw(question) == []


@pytest.mark.parametrize(("question", "start", "end"), cases("periods"))
def test_a_period_is_read_behind_whose_the_documents_are(question: str, start: str, end: str) -> None:
    bounds = {operator: value for field, operator, value in draw(question) if field == "issued"}
    assert (bounds.get(">=", ""), bounds.get("<", "")) == (start, end)
    assert bounds or find_unused(question, [])


@pytest.mark.parametrize("question", cases("what_documents_are_about_is_no_condition"))
def test_what_documents_are_about_is_no_condition(question: str) -> None:
    assert draw(question) == []
    assert draw("documents about pay, only confidential ones") == [["confidential", "==", "true"]]
    assert draw("everything about fuel in finance documents") == [["team", "==", "finance"]]


@pytest.mark.parametrize(
    ("question", "fields", "drawn"), cases("a_field_is_meant_only_by_its_name_or_as_the_documents_own_time")
)
def test_a_field_is_meant_only_by_its_name_or_as_the_documents_own_time(question, fields, drawn):
    assert [each.field for each in draw_conditions(read_query(question, fields), today=TODAY, values={})] == drawn


@pytest.mark.parametrize(("question", "drawn", "unused"), cases("times_and_amounts_that_no_condition_takes_are_told"))
def test_times_and_amounts_that_no_condition_takes_are_told(question: str, drawn: list[str], unused: list[str]) -> None:
    conditions = [
        DrawnFilter(field="field", operator=FilterOperator.EQUAL, value="value", words=words) for words in drawn
    ]
    assert find_unused(question, conditions) == unused
    for asked, kind in {"What cost more than 1500?": "DOUBLE", "Offers delivered since March 2025": "DATETIME"}.items():
        assert find_unused(asked, [], {"field": kind}) == [" ".join(asked.strip("?").split()[2:])]


@pytest.mark.parametrize(("kind", "written", "kept"), cases("a_value_is_taken_as_people_write_it"))
def test_a_value_is_taken_as_people_write_it(kind: str, written: str, kept: str | None) -> None:
    assert read_value(kind, written) == kept
    assert kept or " can mean " in expectation(kind, written)


def test_long_texts_are_not_read() -> None:
    """Every pattern looks at every position, so a long text would delay other requests."""
    fields = {f"x{'y' * (number % 40)} {number}": kind for number in range(200) for kind in ("BOOLEAN", "STRING")}
    question = "finance documents " + "documents " * 48
    assert len(draw(question.strip()[:500])) == 1
    assert draw(question + "and more of them") == []
    assert read_query("documents x " * 50, fields) is None
