"""Strict JSON: what can't be stored or isn't Unicode is refused before anybody sees it."""

import pytest

from service.errors import BadRequest
from service.routing import decode


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff",
        b'"\\ud800"',
        b'"\\u0000"',
        b'{"\\u0000": 1}',
        b"NaN",
        b"-Infinity",
        b"9" * 5000,
        b"[" * 100_000,
    ],
)
def test_what_is_not_strict_json_is_refused(content: bytes) -> None:
    """One error for all of it, which doesn't repeat the contents."""
    with pytest.raises(BadRequest) as caught:
        decode(content)
    assert caught.value.status == 400
    assert len(caught.value.message) < 200


@pytest.mark.parametrize(
    ("content", "value"),
    [
        (b'{"a": [1, 2.5, null, true]}', {"a": [1, 2.5, None, True]}),
        ('"é😀"'.encode(), "é😀"),
        (b'"\\ud83d\\ude00"', "😀"),
        (b'"\\\\u0000"', "\\u0000"),
        (b'"\\\\\\\\u0000 \\u00e9"', "\\\\u0000 é"),
    ],
)
def test_whole_characters_and_escaped_backslashes_are_fine(content: bytes, value: object) -> None:
    """A surrogate pair is one character, and a backslash before u0000 is only a backslash."""
    assert decode(content) == value
