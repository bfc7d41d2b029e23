"""The code stays within budgets (see `make size`)."""

import pytest

from scripts.size import BUDGETS, PRODUCT, TESTS, count_lines


@pytest.mark.parametrize(("budget", "folders"), [("product", PRODUCT), ("tests", TESTS)])
def test_the_lines_stay_within_their_budget(budget: str, folders: tuple[str, ...]) -> None:
    assert 0 < sum(count_lines(folders).values()) <= BUDGETS[budget]
