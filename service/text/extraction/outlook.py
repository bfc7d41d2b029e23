# pyright: reportUnknownMemberType=false
# olefile and compressed-rtf are untyped; only this module uses all of both.
"""Read Outlook messages (.msg), by [MS-OXMSG] and [MS-OXPROPS], as mails; an inner message becomes a mail (.eml)."""

import mimetypes
import re
import struct
from base64 import encodebytes
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from email.utils import format_datetime, formataddr
from functools import partial
from pathlib import Path

import compressed_rtf
import olefile

from service.text.extraction.building import BlockBuilder, Limits, clean, one_line
from service.text.extraction.compound import refuse_damaged
from service.text.extraction.failures import too_complex
from service.text.extraction.mail import MESSAGE, add_mail, attachments_of, name_of
from service.text.extraction.names import decode_body
from service.text.extraction.rtf import parse_rtf

Folder = tuple[str, ...]  # the path of a storage in the file; empty for the outermost message

_MEDIA_TYPE = re.compile(r"(?!message/|multipart/)[a-z]+/[a-z0-9.+-]{1,100}")
_KIND = "an Outlook message"
_ATTACHMENT = re.compile(r"__attach_version1\.0_#[0-9A-F]{8}", re.IGNORECASE)
_RECIPIENT = re.compile(r"__recip_version1\.0_#[0-9A-F]{8}", re.IGNORECASE)
_PROPERTIES, _INNER = "__properties_version1.0", "__substg1.0_3701000D"
_TEXT, _OLD_TEXT, _BYTES = "001F", "001E", "0102"
_SUBJECT, _BODY, _HTML, _RTF = "0037", "1000", "1013", "1009"
_SENDER, _SENDER_ADDRESSES = "0C1A", ("5D01", "0C1F")
_NAME, _ADDRESSES = "3001", ("39FE", "3003")
_FILE_NAMES, _TYPE, _CONTENT, _CONTENT_ID = ("3707", "3704", "3001"), "370E", "3701", "3712"
_SENT, _DELIVERED, _RECIPIENT_KIND, _CODE_PAGE, _HIDDEN = 0x0039, 0x0E06, 0x0C15, 0x3FFD, 0x7FFE
_FIELDS = {1: "To", 2: "Cc"}
# Where entries begin in a stream of properties: of the file's message, of an inner message, of a part.
_TOP, _NESTED, _PART = 32, 24, 8
_ENTRY = struct.Struct("<HHIQ")
_BEGINNING = datetime(1601, 1, 1, tzinfo=UTC)
_FIELD_CHARACTERS, _MOST_RECIPIENTS = 2_000, 1_000
# Messages inside messages, as in long forwarded replies.
_DEEPEST = 16


@dataclass(frozen=True, slots=True)
class _Attachment:
    part: EmailMessage
    folder: Folder

    @property
    def is_message(self) -> bool:
        return self.part.get_content_type() == MESSAGE


def parse_outlook(path: Path, builder: BlockBuilder) -> str | None:
    """Add a message; return its subject as title."""
    with closing(_open(path, builder.limits.entry_bytes)) as file:
        message, attachments = file.message(())
        if builder.limits.finds_pictures:
            file.fill_pictures(attachments)
        return add_mail(message, builder)


def read_with_pictures(path: Path, *, largest: int) -> EmailMessage:
    with closing(_open(path, largest)) as file:
        message, attachments = file.message(())
        file.fill_pictures(attachments)
        return message


@contextmanager
def open_attachments(path: Path, largest: int) -> Generator[list[tuple[str, str, Callable[[], bytes]]]]:
    """Yield a message's files: name, media type, and a reader; at most `largest` bytes in all."""
    with closing(_open(path, largest)) as file:
        message, attachments = file.message(())
        reads = {id(each.part): partial(file.read, each) for each in attachments}
        yield [(name_of(part), part.get_content_type(), reads[id(part)]) for part in attachments_of(message)]


def _open(path: Path, largest: int) -> "_MessageFile":
    with refuse_damaged(_KIND):
        return _MessageFile(path, largest)


class _MessageFile:
    """The storages and streams of a file, with a limit on the bytes read: streams may share data."""

    def __init__(self, path: Path, largest: int) -> None:
        self._file = olefile.OleFileIO(str(path))
        self._left = largest
        self._entries: dict[Folder, list[str]] = {}
        for *folder, name in self._file.listdir(streams=True, storages=True):
            self._entries.setdefault(tuple(folder), []).append(name)
        self._encoding = f"cp{self._read_number((), _TOP, _CODE_PAGE) & 0xFFFF or 1252}"

    def close(self) -> None:
        self._file.close()

    def message(self, folder: Folder) -> tuple[EmailMessage, list[_Attachment]]:
        with refuse_damaged(_KIND):
            message, html = self._read_message(folder)
            names = sorted(filter(_ATTACHMENT.fullmatch, self._entries.get(folder, ())))
            attachments = [self._attachment((*folder, name), html) for name in names]
        for each in attachments:
            message.attach(each.part)
        return message, attachments

    def read(self, attachment: _Attachment, depth: int = 0) -> bytes:
        if not attachment.is_message:
            return self._read_stream(attachment.folder, f"{_CONTENT}{_BYTES}", must=True)
        return self._mail(attachment.folder, depth + 1).as_bytes()

    def fill_pictures(self, attachments: Sequence[_Attachment]) -> None:
        for each in attachments:
            if each.part.get_content_maintype() == "image":
                self._fill_part(each)

    def _fill_part(self, attachment: _Attachment) -> None:
        with suppress(OSError):
            attachment.part.set_payload(encodebytes(self.read(attachment)).decode("ascii"))
        attachment.part["Content-Transfer-Encoding"] = "base64"

    def _attachment(self, folder: Folder, html: str) -> _Attachment:
        """Read an attachment's name and type; a message within becomes an .eml file."""
        inner = (*folder, _INNER)
        if _PROPERTIES in self._entries.get(inner, ()):
            subject = one_line(self._read_text(inner, _SUBJECT))[:_FIELD_CHARACTERS] or "message"
            return _Attachment(_new_part(f"{subject.replace('/', '_')}.eml", MESSAGE), inner)
        name = one_line(next((text for each in _FILE_NAMES if (text := self._read_text(folder, each))), ""))
        kind = self._read_text(folder, _TYPE).lower()
        if not _MEDIA_TYPE.fullmatch(kind):
            kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
        identity = one_line(self._read_text(folder, _CONTENT_ID))
        is_shown = f"cid:{identity}" in html if identity else self._read_number(folder, _PART, _HIDDEN) & 1 == 1
        return _Attachment(_new_part(name[:_FIELD_CHARACTERS], kind, (identity or "shown") if is_shown else ""), folder)

    def _mail(self, folder: Folder, depth: int) -> EmailMessage:
        """Return a message with all inner messages. Raises Unreadable if nested too deeply."""
        if depth > _DEEPEST:
            raise too_complex(f"The message holds messages within each other more than {_DEEPEST} deep.")
        message, attachments = self.message(folder)
        for each in attachments:
            if each.is_message:
                each.part.set_payload([self._mail(each.folder, depth + 1)])
            else:
                self._fill_part(each)
        return message

    def _read_message(self, folder: Folder) -> tuple[EmailMessage, str]:
        message = EmailMessage()
        self._add_headers(message, folder)
        plain = self._read_text(folder, _BODY)
        html = decode_body(self._read_stream(folder, f"{_HTML}{_BYTES}"), "") or self._read_text(folder, _HTML)
        if not plain.strip() and not html.strip():
            plain = self._rich_text(folder)
        message.set_content(clean(plain))
        if html.strip():
            message.add_alternative(clean(html), subtype="html")
        message.make_mixed()
        return message, html

    def _add_headers(self, message: EmailMessage, folder: Folder) -> None:
        fields = {"Subject": [self._read_text(folder, _SUBJECT)]}
        fields["From"] = [self._read_person(folder, _SENDER, _SENDER_ADDRESSES)]
        for name in sorted(filter(_RECIPIENT.fullmatch, self._entries.get(folder, ())))[:_MOST_RECIPIENTS]:
            person = (*folder, name)
            field = _FIELDS.get(self._read_number(person, _PART, _RECIPIENT_KIND) & 0xFF)
            if field is not None:
                fields.setdefault(field, []).append(self._read_person(person, _NAME, _ADDRESSES))
        start = _NESTED if folder else _TOP
        moment = self._read_number(folder, start, _SENT) or self._read_number(folder, start, _DELIVERED)
        with suppress(OverflowError):
            fields["Date"] = [format_datetime(_BEGINNING + timedelta(microseconds=moment // 10))] if moment else []
        for field, values in fields.items():
            if text := ", ".join(filter(None, map(one_line, values))):
                # The library keeps invalid headers; it raises on a few.
                with suppress(ValueError, IndexError, AttributeError, TypeError):
                    message[field] = text

    def _read_person(self, folder: Folder, name: str, addresses: tuple[str, ...]) -> str:
        found = (one_line(self._read_text(folder, each)) for each in addresses)
        # Inside an organization, Exchange has addresses that are not mail addresses.
        address = next((each for each in found if "@" in each), "")
        person = one_line(self._read_text(folder, name))[:_FIELD_CHARACTERS]
        if not address or not address.isascii():
            return " ".join(filter(None, (person, address)))
        return formataddr((person if person != address else "", address), "utf-8")

    def _rich_text(self, folder: Folder) -> str:
        """Return the text of an RTF message; empty if damaged, without failing the rest."""
        if not (packed := self._read_stream(folder, f"{_RTF}{_BYTES}")):
            return ""
        try:
            shown = BlockBuilder(Limits())
            parse_rtf(compressed_rtf.decompress(packed), shown)
            return "\n\n".join(block.text for block in shown.blocks)
        except Exception:  # noqa: BLE001 - the library raises no narrower error
            return ""

    def _read_text(self, folder: Folder, identity: str) -> str:
        if data := self._read_stream(folder, f"{identity}{_TEXT}"):
            return data.decode("utf-16-le", "replace").rstrip("\0")
        data = self._read_stream(folder, f"{identity}{_OLD_TEXT}")
        try:
            return data.decode(self._encoding, "replace").rstrip("\0")
        except LookupError:
            return decode_body(data, "").rstrip("\0")

    def _read_number(self, folder: Folder, start: int, identity: int) -> int:
        data = self._read_stream(folder, _PROPERTIES)
        # Some programs begin an inner message like a file.
        data = data[_TOP if start == _NESTED and len(data) % _ENTRY.size == 0 else start :]
        entries = _ENTRY.iter_unpack(data[: len(data) // _ENTRY.size * _ENTRY.size])
        return next((value for _, each, _, value in entries if each == identity), 0)

    def _read_stream(self, folder: Folder, name: str, *, must: bool = False) -> bytes:
        """Return the bytes of a property, or all small properties; if absent, empty bytes, or OSError with `must`."""
        name = name if name == _PROPERTIES else f"__substg1.0_{name}"
        if not must and name not in self._entries.get(folder, ()):
            return b""
        path = "/".join((*folder, name))
        self._left -= self._file.get_size(path)
        if self._left < 0:
            raise too_complex("The message has more attachments than allowed.")
        with self._file.openstream(path) as stream:
            return stream.read()


def _new_part(name: str, kind: str, identity: str = "") -> EmailMessage:
    part = EmailMessage()
    part["Content-Type"] = kind
    if name:
        part.add_header("Content-Disposition", "inline" if identity else "attachment", filename=name)
    elif not identity:
        part["Content-Disposition"] = "attachment"
    if identity:
        part["Content-ID"] = f"<{identity}>"
    return part
