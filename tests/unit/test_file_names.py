"""Names of files are safe to show, to store and to offer for download."""

import pytest

from service.platform.errors import BadRequest
from service.platform.files import clean_file_name
from tests.harness.cases import cases


@pytest.mark.parametrize(("given", "kept"), cases("a_name_keeps_what_it_says"))
def test_a_name_keeps_what_it_says(given, kept):
    assert clean_file_name(given) == kept


@pytest.mark.parametrize("given", ["", ".", "..", "a/..", "folder/", "\u202e", "nul\x00.md", "x" * 256])
def test_a_name_that_names_nothing_is_refused(given):
    with pytest.raises(BadRequest) as caught:
        clean_file_name(given)
    assert caught.value.code == "file_name_invalid"
