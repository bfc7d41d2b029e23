"""Strict JSON: what can't be stored or isn't Unicode is refused before anybody sees it."""

import contextlib
import json
import time

import pytest

from service.platform.errors import BadRequest, TooLarge
from service.web import routing
from service.web.routing import decode

NOT_STRICT = [
    *(b"", b"{", b"\xff", b'"\\ud800"', b'"\\u0000"', b'{"\\u0000": 1}', b"NaN", b"-Infinity", b"9" * 5000),
    b"[" * 100_000,
]
MANY = {
    "lists": b"[" + b"[]," * 200 + b"1]",
    "objects": b"[" + b"{}," * 200 + b"1]",
    "members": b"{" + b",".join(b'"%d": 1' % number for number in range(200)) + b"}",
    "numbers": b"[" + b"1," * 200 + b"1]",
    "strings": b"[" + b'"[,\\"{",' * 200 + b"1]",
}


@pytest.mark.parametrize("content", NOT_STRICT)
def test_what_is_not_strict_json_is_refused(content: bytes) -> None:
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
    assert decode(content) == value


@pytest.mark.parametrize("content", MANY.values(), ids=MANY)
def test_a_body_holds_only_so_many_values(content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """However short they are written, values cost memory and time, so they are counted before they are made."""
    monkeypatch.setattr(routing, "MOST_VALUES", 100)
    with pytest.raises(TooLarge, match="more than 100 values"):
        decode(content)
    monkeypatch.setattr(routing, "MOST_VALUES", 1000)
    assert decode(content)


@pytest.mark.parametrize("text", ["[,{" * 500, '\\"[,{' * 500, "\\\\" * 500 + "[" * 500, '",' * 500])
def test_what_stands_in_strings_is_no_value(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing, "MOST_VALUES", 3)
    content = json.dumps([text, {"a": text}]).encode()
    assert decode(content) == [text, {"a": text}]
    monkeypatch.setattr(routing, "MOST_VALUES", 2)
    with pytest.raises(TooLarge):
        decode(content)


@pytest.mark.parametrize(
    "content",
    [
        b'"' + b'\\"' * 4_000_000 + b"," * 600_000,
        b'"' * 4_000_001 + b"," * 600_000,
        b'["' + b"x," * 4_000_000 + b'"]',
        b"," * 600_000 + b'"' + b"\\" * 8_000_001,
        b"," * 600_000 + b" " * 8_000_000,
    ],
)
def test_counting_takes_time_in_proportion(content: bytes) -> None:
    began = time.monotonic()
    with contextlib.suppress(BadRequest, TooLarge):
        decode(content)
    assert time.monotonic() - began < 10
