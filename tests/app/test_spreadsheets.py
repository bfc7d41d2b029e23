"""What people open in a spreadsheet computes nothing that others wrote."""

import pytest

from app.spreadsheets import as_text


@pytest.mark.parametrize("first", ["=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠"])  # noqa: RUF001
def test_what_begins_like_a_formula_stays_text(first: str) -> None:
    """Those characters in their wide form, too, which spreadsheets of some languages read as the others."""
    assert as_text(f"{first}1+1") == f"'{first}1+1"


def test_other_text_stays_as_it_is() -> None:
    """Also what has such a character further on."""
    assert as_text("a=1") == "a=1"
