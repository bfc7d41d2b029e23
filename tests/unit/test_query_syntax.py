"""Signs of a query as they are read, and what is no sign."""

from datetime import date

import pytest

from service.domains.search.syntax.parsing import Clause, parse_query
from service.domains.search.syntax.queries import pattern_of
from tests.harness.cases import cases


@pytest.mark.parametrize(
    ("query", "text", "clauses"),
    [
        ('"net 30" terms', "net 30 terms", [Clause(('"net 30',))]),
        ("travel NOT hotel", "travel", [Clause(("hotel",), excludes=True)]),
        ('x -"a phrase"', "x", [Clause(('"a phrase',), excludes=True)]),
        ('"a b" OR c OR d', "a b c d", [Clause(('"a b', "c", "d"))]),
        ("red OR blue car", "red blue car", [Clause(("red", "blue"))]),
        ("x OR -y", "x OR", [Clause(("y",), excludes=True)]),
        ("ferry (red OR blue)", "ferry red blue", [Clause(("red", "blue"))]),
        ('(red OR "dry dock") ferry', "red dry dock ferry", [Clause(("red", '"dry dock'))]),
        ("2024 OR PN-4711-B", "2024 PN-4711-B", [Clause(("2024", '"PN-4711-B'))]),
    ],
)
def test_signs_become_clauses(query: str, text: str, clauses: list[Clause]) -> None:
    parsed = parse_query(query)
    assert (parsed.text, list(parsed.clauses)) == (text, clauses)
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
    ("written", "day"),
    [("2025", date(2025, 1, 1)), ("2025-03", date(2025, 3, 1)), ("4.3.2025", date(2025, 3, 4)), ("2025-02-30", None)],
)
def test_a_field_of_time_takes_a_day_a_month_or_a_year(written: str, day: date | None) -> None:
    assert [each.day for each in parse_query(f"x after:{written}").fields] == ([day] if day else [])


def test_the_query_without_what_is_written_is_the_query_without_the_sign() -> None:
    query = 'travel "by train" -hotel title:trains'
    for sign in parse_query(query).signs:
        assert [each.written for each in parse_query(query.replace(sign.written, "")).signs] == [
            each.written for each in parse_query(query).signs if each.written != sign.written
        ]


def test_a_phrase_is_no_part_of_a_longer_word() -> None:
    assert pattern_of("net 30") == r"\mnet\s+30\M"
    assert pattern_of("C++") == r"\mC\+\+"
