# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# tnefparse is nearly untyped; only this module uses it.
"""Lenient parsing of messages: bad headers, broken multiparts, UTF-16, and content within signatures or TNEF."""

import re
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from contextlib import suppress
from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import EmailPolicy
from functools import lru_cache
from typing import Any, NamedTuple, cast

from tnefparse import TNEF

from service.text.extraction.building import BlockBuilder, Limits, one_line
from service.text.extraction.decoding import decode, wide_encoding
from service.text.extraction.failures import Unreadable, corrupt_file
from service.text.extraction.names import decode_header
from service.text.extraction.rtf import parse_rtf

TNEF_MARK = b"\x78\x9f\x3e\x22"
ENVELOPES = frozenset({"application/pkcs7-mime", "application/x-pkcs7-mime"})
_TNEF_TYPES = frozenset({"application/ms-tnef", "application/vnd.ms-tnef"})
# The object identifier 1.2.840.113549.1.7.2.
_SIGNED_DATA = bytes.fromhex("2a864886f70d010702")
_INDEFINITE = 0x80
# Apple's mail files begin with the message's length and end with its properties.
_LENGTH = re.compile(rb"(\d{1,12})[ \t]*\r?\n")
_END_OF_HEADERS = re.compile(rb"\r?\n\r?\n")
_HEADER = re.compile(rb"[!-9;-~]+:|[ \t]|From ")
_SPACED = re.compile(rb"^([!-9;-~]+)[ \t]+:", re.MULTILINE)
_USUAL = re.compile(
    rb"(?:from|to|cc|bcc|date|subject|sender|reply-to|return-path|received|message-id|in-reply-to|references|"
    rb"mime-version|delivered-to|(?:content|x|list|arc|dkim|authentication)-[\w-]+):",
    re.IGNORECASE,
)
_WIDE_CHARSET = re.compile(rb"(charset\s*=\s*\"?)(?:utf-16\w*|unicode\b)", re.IGNORECASE)
_DELIMITER = re.compile(rb"^--([^\r\n]{1,200}?)[ \t]*\r?\n(?=[\w-]+:|\r?\n)", re.MULTILINE)


class _Header(str):
    __slots__ = ()

    @property
    def content_disposition(self) -> str:
        return self.partition(";")[0].strip().lower()


class _Policy(EmailPolicy):
    """Headers as decoded text: the library's own parsers are slow, and fail on bad headers."""

    def header_fetch_parse(self, name: str, value: Any) -> Any:
        return value if hasattr(value, "name") else _fetch(name.lower(), value)


@lru_cache(maxsize=1_000)
def _fetch(name: str, value: str) -> _Header:
    del name
    return _Header(decode_header(re.sub(r"[\r\n]+", "", value)))


_policy = _Policy(refold_source="none")


def to_message(data: bytes) -> EmailMessage:
    """Return the message in a file, with signed or packed content unpacked."""
    if data.startswith(TNEF_MARK):
        return _open_tnef(data)
    if length := _LENGTH.match(data):
        data = data[length.end() : length.end() + int(length[1])]
    message = _parse(_mend_headers(to_narrow(data).lstrip(b"\r\n")))
    for part in message.walk():
        _open(part, message)
    return message


def to_narrow(data: bytes) -> bytes:
    """Convert a message from UTF-16 to UTF-8; return any other message unchanged."""
    if data.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) or wide_encoding(data[:4_096]):
        return _WIDE_CHARSET.sub(rb"\1utf-8", decode(data).encode())
    return data.removeprefix(BOM_UTF8)


def _parse(data: bytes) -> EmailMessage:
    return cast("EmailMessage", BytesParser(policy=_policy).parsebytes(data))


def _mend_headers(data: bytes) -> bytes:
    """Turn invalid lines before usual headers into headers: the library would treat the rest as text."""
    end = _END_OF_HEADERS.search(data)
    head = data[: end.start() if end else len(data)]
    lines = head.split(b"\n")
    if all(map(_HEADER.match, lines)):
        return data
    lines = _SPACED.sub(rb"\1:", head).split(b"\n")
    last = max((number for number, line in enumerate(lines) if _USUAL.match(line)), default=0)
    bad = (b"" if number > last or _HEADER.match(line) else b"X-Unread: " for number, line in enumerate(lines))
    return b"\n".join(mark + line for mark, line in zip(bad, lines, strict=True)) + data[len(head) :]


def _open(part: EmailMessage, whole: EmailMessage) -> None:
    """Replace a broken multipart, a signature or Outlook's package by its content, if readable."""
    kind = part.get_content_type()
    inner: EmailMessage | None = None
    if part.get_content_maintype() == "multipart":
        if part.is_multipart():
            return
        data = str(part.get_payload()).encode("utf-8", "surrogateescape")
        found = _DELIMITER.search(data)
        head = b'multipart/mixed; boundary="%b"' % found[1] if found else b"text/plain"
        inner = _parse(b"Content-Type: %b\n\n%b" % (head, data))
    elif kind in ENVELOPES:
        signed = _signed_content(part.get_payload(decode=True))
        inner = None if signed is None else _parse(signed)
    elif kind in _TNEF_TYPES or str(part.get_filename() or "").lower() == "winmail.dat":
        data = part.get_payload(decode=True)
        if isinstance(data, bytes) and data.startswith(TNEF_MARK):
            with suppress(Unreadable):
                inner = _open_tnef(data, with_text=whole.get_body(("plain", "html")) is None)
    if inner is None or (inner.get_content_maintype() == "multipart" and not inner.is_multipart()):
        return
    for name in [name for name in part if name.lower().startswith("content-")]:
        del part[name]
    for name, value in inner.raw_items():
        if name.lower().startswith("content-"):
            part.set_raw(name, value)
    part.set_payload(inner.get_payload())


def _signed_content(data: object) -> bytes | None:
    """Return the message in an S/MIME signature (RFC 5652); None if encrypted or damaged."""
    if not isinstance(data, bytes):
        return None
    try:
        kind, wrapped = _children(data, _element(data, 0))
        if data[kind.start : kind.end] != _SIGNED_DATA:
            return None
        [signed] = _children(data, wrapped)
        _version, _algorithms, content, *_ = _children(data, signed)
        _kind, wrapped = _children(data, content)
        [octets] = _children(data, wrapped)
        # Long contents are divided into pieces.
        pieces = _children(data, octets) if octets.is_constructed else [octets]
        return b"".join(data[piece.start : piece.end] for piece in pieces)
    except (ValueError, IndexError, RecursionError):
        return None


class _Element(NamedTuple):
    """An ASN.1 element (BER): the bounds of the content, and the position after the element."""

    is_constructed: bool
    start: int
    end: int
    after: int


def _element(data: bytes, at: int) -> _Element:
    is_constructed, length, at = bool(data[at] & 0x20), data[at + 1], at + 2
    if length == _INDEFINITE:
        end = at
        while data[end : end + 2] != b"\0\0":
            end = _element(data, end).after
        return _Element(is_constructed, at, end, end + 2)
    if length > _INDEFINITE:
        at, length = at + length - _INDEFINITE, int.from_bytes(data[at : at + length - _INDEFINITE])
    if at + length > len(data):
        raise ValueError
    return _Element(is_constructed, at, at + length, at + length)


def _children(data: bytes, parent: _Element) -> list[_Element]:
    found: list[_Element] = []
    at = parent.start
    while at < parent.end:
        found.append(_element(data, at))
        at = found[-1].after
    return found


def _open_tnef(data: bytes, *, with_text: bool = True) -> EmailMessage:
    """Return Outlook's package as a message, with subject and body if `with_text`. Raises Unreadable."""
    message = EmailMessage()
    try:
        packed = TNEF(data, do_checksum=False)
        if with_text:
            subjects = (_text(each.data) for each in packed.msgprops if each.name == TNEF.ATTSUBJECT)
            message["Subject"] = one_line(next(subjects, ""))
            html, shown = _text(packed.htmlbody), BlockBuilder(Limits())
            if not html and not packed.body and packed.rtfbody:
                parse_rtf(packed.rtfbody, shown)
            plain = _text(packed.body) or "\n\n".join(block.text for block in shown.blocks)
            message.set_content(html or plain, subtype="html" if html else "plain")
        message.make_mixed()
        for each in packed.attachments:
            name = _text(each.long_filename()) or "file"
            message.add_attachment(bytes(each.data), "application", "octet-stream", filename=name)
    except Exception as error:  # the library raises anything on damaged input
        raise corrupt_file("attachments of Outlook") from error
    if not packed.attachments and not packed.has_body():
        raise corrupt_file("attachments of Outlook")
    return message


def _text(value: object) -> str:
    text = decode(value.rstrip(b"\0")) if isinstance(value, bytes) and value.rstrip(b"\0") else value
    return text.strip("\0") if isinstance(text, str) else ""
