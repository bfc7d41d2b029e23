"""What people open in a spreadsheet computes nothing that others wrote."""

import pytest

from app.ui.progress import in_batches
from carrel.spreadsheets import as_text


@pytest.mark.parametrize("first", ["=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠"])  # noqa: RUF001
def test_what_begins_like_a_formula_stays_text(first: str) -> None:
    """Those characters in their wide form, too, which spreadsheets of some languages read as the others."""
    assert as_text(f"{first}1+1") == f"'{first}1+1"
    assert as_text(f"a{first}1") == f"a{first}1"


@pytest.mark.parametrize(
    ("most", "rows", "told"), [(1, "a", [1]), (2, "ab", [2]), (3, "abc", [2, 3]), (9, "abcd", [2, 4])]
)
def test_a_file_ends_where_it_is_told_to(most: int, rows: str, told: list[int]) -> None:
    """In a page or between two: no further page is asked for, and how many there are is told after each."""
    asked: list[str] = []

    def page(name: str) -> list[list[str]]:
        asked.append(name)
        return [[letter] for letter in name]

    counts: list[int] = []
    written = in_batches(["x"], (page(name) for name in ("ab", "cd")), count=counts.append, most=most)
    assert written.decode("utf-8-sig").split() == ["x", *rows]
    assert counts == told
    assert len(asked) == len(told)
