"""Addresses that name nothing: what was deleted, what is somebody else's, and no id at all."""

import pytest

from tests.app.pages import NOTHING
from tests.harness.cases import cases


@pytest.mark.parametrize(("view", "parameter", "said", "back"), cases("workbench_addresses"))
def test_an_address_of_nothing_is_said_with_the_way_back(house, view, parameter, said, back):
    view, _, part = view.partition("?part=")
    for nothing in NOTHING:
        page = house.open(view, q="sheep", part=part, **{parameter: nothing})
        page.assert_shown_as_text(said)
        assert "sheep" not in page.shown
        assert parameter not in page.press(back).query_params
