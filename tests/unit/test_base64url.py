"""Base64url without padding: every bytes come back, and from one text alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.platform.base64url import decode, encode


@given(st.binary(max_size=100))
def test_what_is_written_is_read(content: bytes) -> None:
    """It has nothing that an address would have to escape."""
    text = encode(content)
    assert decode(text) == content
    assert all(char.isascii() and (char.isalnum() or char in "-_") for char in text)


@pytest.mark.parametrize("text", ["AA==", "AB", "A", "A+", "A/", "AA A", "AA\n", "é", "AA=A"])
def test_another_spelling_is_refused(text: str) -> None:
    """Padding, spare bits, the other alphabet, white space, and what is no ASCII."""
    with pytest.raises(ValueError, match="not "):
        decode(text)
