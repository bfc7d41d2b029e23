"""Calendars (RFC 5545), contacts (vCard), directories (LDIF) and subtitles (WebVTT, SubRip)."""

import re
import tomllib
from base64 import b64decode
from binascii import Error
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from quopri import decodestring
from typing import NamedTuple

from service.text.extraction.building import BlockBuilder, clean
from service.text.extraction.decoding import decode
from service.text.extraction.failures import Unreadable
from service.text.extraction.names import decode_body
from service.text.extraction.plain import add_paragraphs, read_text

_FOLD = re.compile(r"\n[ \t]")
_SOFT_BREAK = re.compile(r"^([^:\n]*QUOTED-PRINTABLE[^:\n]*:.*(?:=\n.*)+)", re.IGNORECASE | re.MULTILINE)
_PROPERTY = re.compile(r'(?:[\w-]+\.)?([\w-]+)((?:;(?:"[^"]*"|[^":;])*)*):(.*)')
_PARAMETER = re.compile(r';([\w-]+)(?:="?([^";]*))?')
_ESCAPED = re.compile(r"\\([nN,;:\\])")
_MOMENT = re.compile(r"(\d{4})-?(\d\d)-?(\d\d)(?:T(\d\d):?(\d\d)(?::?\d\d)?(Z?))?")
_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
_IN_CALENDARS, _IN_CONTACTS = _TABLES["calendar"], _TABLES["contacts"]
_ENTRIES, _IN_PARTS, _UNSAID = (frozenset(_TABLES[name]) for name in ("entries", "in_parts", "unsaid"))
_CUE_MARKS = re.compile(r"</?[a-zA-Z][^<>]*>|<\d+:[\d:.]+>|\{\\[^{}]*\}")
_SPEAKER = re.compile(r"<v[^ <>]* ([^<>]*)>")
_ENDS_SENTENCE = re.compile(r"[.!?…。！？][\"'”»)]*$")  # noqa: RUF001 - full stops of East Asia
_CUES_CHARACTERS = 600
_NOT_SAID = re.compile(r"(?:NOTE|STYLE|REGION|WEBVTT)\b")


class _Property(NamedTuple):
    name: str
    parameters: dict[str, str]
    value: str

    @property
    def text(self) -> str:
        parts = re.split(r"(?<!\\);", self.value) if self.name in _IN_PARTS else [self.value]
        return _ESCAPED.sub(lambda found: "\n" if found[1] in "nN" else found[1], ", ".join(filter(None, parts)))

    @property
    def shown(self) -> str:
        if moment := _MOMENT.fullmatch(self.value):
            zone = " UTC" if moment[6] else f" {self.parameters.get('TZID', '')}" if moment[4] else ""
            return (
                f"{moment[1]}-{moment[2]}-{moment[3]}{f' {moment[4]}:{moment[5]}' if moment[4] else ''}{zone}".strip()
            )
        if self.name == "RRULE":
            return self.value
        address = re.sub(r"(?i)^(?:mailto|tel):", "", self.text)
        person = self.parameters.get("CN", "")
        return f"{person} <{address}>" if person and person != address else address


def parse_calendar(data: bytes, builder: BlockBuilder) -> str | None:
    """Add the events, tasks and notes of a calendar; the title is the calendar's name, or its only entry's."""
    name, titles, opened = "", list[str](), list[str]()
    entry: list[_Property] = []
    for each in _properties(read_text(data, builder)):
        if each.name == "BEGIN":
            opened.append(each.value.upper())
            entry = [] if opened[-1] in _ENTRIES else entry
        elif each.name == "END":
            if opened and opened.pop() in _ENTRIES:
                titles.append(next((described.text for described in entry if described.name == "SUMMARY"), ""))
                builder.heading(titles[-1], 2)
                said = (f"{_IN_CALENDARS[item.name]}: {item.shown}" for item in entry if item.name in _IN_CALENDARS)
                builder.lines("\n".join(said))
                for described in entry:
                    add_paragraphs(described.text if described.name == "DESCRIPTION" else "", builder)
        elif each.name == "X-WR-CALNAME":
            name = each.text
        elif opened and opened[-1] in _ENTRIES:
            entry.append(each)
    return name or (titles[0] if len(titles) == 1 else None)


def parse_contacts(data: bytes, builder: BlockBuilder) -> str | None:
    """Add the people and organizations of a vCard file; the title is the name of its only contact."""
    titles: list[str] = []
    names: dict[str, str] = {}
    lines: list[str] = []
    for each in _properties(read_text(data, builder)):
        if each.name == "BEGIN":
            names, lines = {}, []
        elif each.name == "END":
            titles.append(names.get("FN") or names.get("N") or names.get("ORG", ""))
            builder.heading(titles[-1], 2)
            builder.lines("\n".join(lines))
        names.setdefault(each.name, each.text)
        if each.name not in _UNSAID and not each.name.startswith("X-") and not each.value.startswith("data:"):
            kinds = each.parameters.get("TYPE", "").lower().replace(",", ", ")
            label = _IN_CONTACTS.get(each.name, each.name.capitalize())
            lines.append(f"{label}{f' ({kinds})' if kinds else ''}: {each.shown}")
    return titles[0] if len(titles) == 1 else None


def _properties(text: str) -> Iterator[_Property]:
    opened: list[str] = []
    text = _SOFT_BREAK.sub(lambda found: found[1].replace("=\n", ""), clean(text))
    for line in _FOLD.sub("", text).split("\n"):
        if (found := _PROPERTY.fullmatch(line)) is None:
            continue
        parameters: dict[str, str] = {}
        for name, value in _PARAMETER.findall(found[2]):
            # In vCard 2.1, a value may be written without its parameter's name.
            key = name.upper() if value else "ENCODING" if name.upper() in {"QUOTED-PRINTABLE", "BASE64"} else "TYPE"
            parameters[key] = ",".join(filter(None, (parameters.get(key), value or name)))
        encoding, value = parameters.get("ENCODING", "").upper(), found[3]
        if encoding == "QUOTED-PRINTABLE":
            value = clean(decode_body(decodestring(value.encode()), parameters.get("CHARSET", "utf-8")))
        if encoding not in {"B", "BASE64"}:
            each = _Property(found[1].upper(), parameters, value)
            begins = each.name == "BEGIN"
            if opened and (each.name == "END" or (begins and opened[-1] == value.upper())):
                name = opened.pop()
                yield from [_Property("END", {}, name)] if begins else []
            opened += [value.upper()] if begins else []
            yield each
    yield from (_Property("END", {}, name) for name in reversed(opened))


def parse_ldif(data: bytes, builder: BlockBuilder) -> None:
    """Add the entries of a directory (RFC 2849), each under its name, without binary values."""
    for record in re.split(r"\n(?:[ \t]*\n)+", _FOLD.sub("", clean(read_text(data, builder)))):
        lines = [_ldif_line(line) for line in record.split("\n") if line and not line.startswith(("#", "version:"))]
        named = {name.lower(): value for name, value in reversed(lines)}
        builder.heading(named.get("cn") or named.get("dn", ""), 2)
        builder.lines("\n".join(f"{name}: {value}" for name, value in lines if value))


def _ldif_line(line: str) -> tuple[str, str]:
    name, _, value = line.partition(":")
    if not value.startswith(":"):
        return name, value.removeprefix("<").strip()
    try:
        return name, decode(b64decode(value[1:]))
    except (Error, ValueError, Unreadable):
        return name, ""


def parse_subtitles(data: bytes, builder: BlockBuilder) -> None:
    """Add the text of subtitles, without numbers and times; cues are joined to sentences."""
    said, speaker, is_begun = "", "", False
    for cue in re.split(r"\n[ \t]*\n+", clean(read_text(data, builder))):
        lines = cue.strip().split("\n")
        timed = next((number for number, line in enumerate(lines) if "-->" in line), None)
        is_begun |= timed is not None
        is_said = timed is not None or (is_begun and not _NOT_SAID.match(lines[0]))
        text = " ".join(lines[0 if timed is None else timed + 1 :]) if is_said else ""
        spoken = _SPEAKER.search(text)
        text = unescape(_CUE_MARKS.sub("", _SPEAKER.sub("", text))).strip()
        if spoken and spoken[1] != speaker:
            builder.paragraph(said)
            said, speaker = "", spoken[1]
            text = f"{speaker}: {text}"
        said = f"{said} {text}".strip()
        if _ENDS_SENTENCE.search(said) or len(said) > _CUES_CHARACTERS:
            builder.paragraph(said)
            said = ""
    builder.paragraph(said)
