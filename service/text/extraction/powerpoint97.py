"""Presentations before 2007 ([MS-PPT]), slide by slide with notes and comments; for PowerPoint 95, its search text."""

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from carrel.wire.formats import NotReadKind
from service.text.extraction import compound
from service.text.extraction.building import BlockBuilder
from service.text.extraction.compound import read_compound, refuse_damaged
from service.text.extraction.decoding import detect_encoding
from service.text.extraction.failures import corrupt_file, encrypted_file, too_complex

_KIND = "a PowerPoint 97 presentation"
_SLIDE, _NOTES, _LIST, _LISTED, _EDIT, _PLACES = 1007, 1009, 4080, 1011, 4085, 6002
_TEXT_KIND, _WIDE_TEXT, _TEXT, _STRING, _PRINTED, _COMMENT = 3999, 4000, 4008, 4026, 4057, 12000
_SHAPE, _PLACEHOLDER, _OBJECT = 0xF004, 3011, 3009
_EMBEDDED, _SOUND = 4044, 2022
_DOCUMENT, _USER, _PICTURES = "PowerPoint Document", "Current User", "Pictures"
# PowerPoint 95 stores a second copy of the text; a file for both versions has a folder for the newer one.
_TEXT_OF_95, _NEWER = "Text_Content", "PP97_DUALSTORAGE/"
# Contains records, although its form doesn't say so.
_BLOB = 5003
_ENCRYPTED = 0xF3D1C4DF
_EDIT_HEADER = struct.pack("<2HI", 0, _EDIT, 28)
_TITLES = frozenset({0, 6})
_SLIDES, _MASTERS, _NOTES_PAGES = 0, 1, 2
_COMMENT_TEXT = 1
_MOST_KEPT = 2
# A placeholder that is filled in when a slide is shown, such as its number.
_FILLED_IN = "*"
_BREAKS = str.maketrans({"\x0b": "\n"})


@dataclass(frozen=True, slots=True)
class _Record:
    kind: int
    instance: int
    holds_others: bool
    start: int
    end: int


@dataclass(slots=True)
class _Listed:
    """A slide, master or page of notes in the document's lists: object, number, and outline texts."""

    object: int
    number: int
    texts: list[tuple[bool, str]] = field(default_factory=list[tuple[bool, str]])


def parse_ppt(path: Path, builder: BlockBuilder) -> str | None:
    """Add a PowerPoint 97 presentation's slides; pages are slide numbers, and texts of masters come last, once."""
    with refuse_damaged(_KIND):
        names = (_DOCUMENT, _USER, _PICTURES)
        found = read_compound(path, *names, _TEXT_OF_95, *(_NEWER + name for name in names))
        streams, title = found.streams, found.title
        folder = _NEWER if _NEWER + _DOCUMENT in streams else ""
        if not folder and _TEXT_OF_95 in streams:
            # This stream doesn't show where a slide ends.
            text = streams[_TEXT_OF_95]
            _add_paragraphs(text.decode(detect_encoding(text), "replace"), None, builder)
            builder.tells_rest = False
            return title
        file = _Presentation(streams[folder + _DOCUMENT], streams.get(folder + _USER, b""))
        pictures = _Pictures(file, streams, folder, builder)
        lists = file.read_lists()
        if len(lists[_SLIDES]) > builder.limits.pages:
            raise too_complex(f"The presentation has more than {builder.limits.pages:,} slides.")
        notes = {each.number: each for each in lists[_NOTES_PAGES]}
        for number, slide in enumerate(lists[_SLIDES], start=1):
            _add_slide(file, slide, notes, number, builder)
            pictures.note(slide.object, number)
        for text in () if lists[_SLIDES] else file.texts():
            _add_paragraphs(text, None, builder)
        texts = [text for master in lists[_MASTERS] for text in file.shape_texts(master.object, placeholders=False)]
        builder.paragraphs(dict.fromkeys((*texts, *file.printed)))
        for master in lists[_MASTERS]:
            pictures.note(master.object, None)
        builder.leave_out(NotReadKind.EMBEDDED, count=file.count(_EMBEDDED))
        builder.leave_out(NotReadKind.RECORDING, count=file.count(_SOUND))
        return title


def _add_slide(
    file: "_Presentation", slide: _Listed, notes: dict[int, _Listed], number: int, builder: BlockBuilder
) -> None:
    for is_title, text in slide.texts:
        if is_title:
            builder.heading(text, 1, page=number)
        else:
            _add_paragraphs(text, number, builder)
    texts = [*file.shape_texts(slide.object), *file.comment_texts(slide.object)]
    page = notes.get(file.find_notes(slide.object))
    for text in (*texts, *(file.shape_texts(page.object) if page else ())):
        _add_paragraphs(text, number, builder)


def _add_paragraphs(text: str, number: int | None, builder: BlockBuilder) -> None:
    builder.paragraphs((each for each in text.split("\r") if each != _FILLED_IN), page=number)


class _Pictures:
    def __init__(self, file: "_Presentation", streams: Mapping[str, bytes], folder: str, builder: BlockBuilder) -> None:
        self._file = file
        self._streams = streams
        self._builder = builder
        self._noted: set[int] = set()
        self._stored = [(folder + (_DOCUMENT if inside else _PICTURES), place) for inside, place in file.find_stored()]

    def note(self, slide: int, number: int | None) -> None:
        """Record the pictures of a slide or master; for a preview of another program's object, add the text."""
        for shown, is_preview in self._file.find_pictures(slide):
            if not 0 < shown <= len(self._stored) or shown in self._noted:
                continue
            self._noted.add(shown)
            stream, place = self._stored[shown - 1]
            content = compound.read_picture(self._streams.get(stream, b""), place)
            if is_preview:
                self._builder.preview(content, page=number)
            else:
                label = f"slide {number}" if number else ""
                self._builder.picture(f"{stream}/{place}", content, label, page=number)


class _Presentation:
    """The records of a presentation; each save adds newer records."""

    def __init__(self, data: bytes, user: bytes) -> None:
        token, edit = struct.unpack_from("<2I", user.ljust(20, b"\0"), 12)
        if token == _ENCRYPTED:
            raise encrypted_file("PowerPoint 97")
        if not data.startswith(_EDIT_HEADER, edit):
            edit = max(data.rfind(_EDIT_HEADER), 0)
        self._data = data
        self._places: dict[int, int] = {}
        self._document = 0
        self._walked: dict[int, list[_Record]] = {}
        seen: set[int] = set()
        while edit and edit not in seen:
            seen.add(edit)
            edit = self._read_edit(edit)
        self.printed: list[str] = []

    def _read_edit(self, place: int) -> int:
        """Note the objects of a save, except objects saved later; return the position of the save before."""
        record = self._read_record(place)
        if record.kind != _EDIT:
            raise corrupt_file(_KIND)
        before, directory, document = struct.unpack_from("<3I", self._data, record.start + 8)
        self._document = self._document or document
        entries = self._read_record(directory)
        at = entries.start
        while at < entries.end and entries.kind == _PLACES:
            first, count = (word := struct.unpack_from("<I", self._data, at)[0]) & 0xFFFFF, word >> 20
            for number, offset in enumerate(struct.unpack_from(f"<{count}I", self._data, at + 4)):
                self._places.setdefault(first + number, offset)
            at += 4 + 4 * count
        return before

    def read_lists(self) -> dict[int, list[_Listed]]:
        lists: dict[int, list[_Listed]] = {_SLIDES: [], _MASTERS: [], _NOTES_PAGES: []}
        listed: list[_Listed] = []
        list_end = printed_end = 0
        is_title = False
        for record in self._within(self._document):
            if record.kind == _LIST:
                listed, list_end = lists.setdefault(record.instance, []), record.end
            elif record.kind == _PRINTED:
                printed_end = record.end
            elif record.kind == _STRING and record.start < printed_end:
                self.printed.append(self._read_text(record))
            elif record.start < list_end and record.kind == _LISTED:
                number, own = struct.unpack_from("<I8xI", self._data, record.start)
                listed.append(_Listed(number, own))
            elif record.kind == _TEXT_KIND:
                is_title = self._data[record.start] in _TITLES
            elif record.start < list_end and listed and record.kind in {_WIDE_TEXT, _TEXT}:
                listed[-1].texts.append((is_title, self._read_text(record)))
        return lists

    def shape_texts(self, number: int, *, placeholders: bool = True) -> Iterator[str]:
        is_placeholder = False
        for record in self._within(number):
            if record.kind in {_SHAPE, _PLACEHOLDER}:
                is_placeholder = record.kind == _PLACEHOLDER
            elif record.kind in {_WIDE_TEXT, _TEXT} and (placeholders or not is_placeholder):
                yield self._read_text(record)

    def comment_texts(self, number: int) -> Iterator[str]:
        end = 0
        for record in self._within(number):
            if record.kind == _COMMENT:
                end = record.end
            elif record.kind == _STRING and record.start < end and record.instance == _COMMENT_TEXT:
                yield self._read_text(record)

    def find_stored(self) -> Iterator[tuple[bool, int]]:
        for record in self._within(self._document):
            if record.kind == compound.STORE:
                yield from compound.find_stored(self._data, record.start, record.end)

    def find_pictures(self, number: int) -> Iterator[tuple[int, bool]]:
        shown, is_preview = 0, False
        for record in self._within(number):
            if record.kind == _SHAPE:
                yield shown, is_preview
                shown, is_preview = 0, False
            elif record.kind == compound.OPTIONS:
                shown = shown or compound.find_shown(self._data, record.start, record.instance)
            elif record.kind == _OBJECT:
                is_preview = True
        yield shown, is_preview

    def count(self, kind: int) -> int:
        return sum(record.kind == kind for record in self._within(self._document))

    def find_notes(self, number: int) -> int:
        for record in self._within(number):
            if record.kind == _SLIDE:
                return struct.unpack_from("<I", self._data, record.start + 16)[0]
        return 0

    def texts(self) -> Iterator[str]:
        """Yield all texts in the order of writing, for files with lost lists."""
        return (self._read_text(each) for each in self._walk(0, len(self._data)) if each.kind in {_WIDE_TEXT, _TEXT})

    def _within(self, number: int) -> Sequence[_Record]:
        if number not in self._walked:
            # Each object is read several times, but not after the next objects.
            if len(self._walked) > _MOST_KEPT:
                self._walked.clear()
            place = self._places.get(number)
            self._walked[number] = [] if place is None else [*self._walk(place, self._read_record(place).end)]
        return self._walked[number]

    def _walk(self, place: int, end: int) -> Iterator[_Record]:
        while place + 8 <= end:
            record = self._read_record(place)
            yield record
            place = record.start if record.holds_others else record.end

    def _read_record(self, place: int) -> _Record:
        form, kind, size = struct.unpack_from("<2HI", self._data, place)
        holds_others = form & 0xF == 0xF or kind == _BLOB
        return _Record(kind, form >> 4, holds_others, place + 8, min(place + 8 + size, len(self._data)))

    def _read_text(self, record: _Record) -> str:
        content = self._data[record.start : record.end]
        text = content.decode("latin-1") if record.kind == _TEXT else content.decode("utf-16-le", "replace")
        return text.translate(_BREAKS)
