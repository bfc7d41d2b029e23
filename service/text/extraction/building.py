"""Collecting blocks: cleaning texts, cutting long texts, counting against a file's limits, and choosing a title."""

import hashlib
import itertools
import re
import tomllib
import traceback
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from carrel.wire.formats import NotReadKind
from service.text.extraction.blocks import Block, Box, FoundPicture, NotRead, cut_block
from service.text.extraction.failures import Unreadable, too_complex
from service.text.extraction.picture_sizes import is_legible
from service.text.extraction.svg import read_drawing

# Control characters (NUL can't be stored), lone surrogates (can't be encoded), and non-characters.
_UNSTORABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
# Soft hyphens and zero-width spaces would split words, which people search for undivided.
_INVISIBLE = re.compile("[\u00ad\u200b\ufeff]")
_HEADING_CHARACTERS = 500
MOST_PLACES = 5


@dataclass(frozen=True, slots=True)
class Limits:
    """The most a file may contain, and if recognition reads scans (and picture files), or pictures within files."""

    characters: int = 20_000_000
    blocks: int = 1_000_000
    block_characters: int = 8_000
    pages: int = 20_000
    pixels: int = 100_000_000
    archive_entries: int = 20_000
    archive_bytes: int = 1 << 30
    archive_ratio: int = 200
    entry_bytes: int = 512 << 20
    reads_scans: bool = False
    finds_pictures: bool = False
    pictures: int = 1_000


class BlockBuilder:
    """Collects a file's blocks in order; raises Unreadable beyond a limit. `page`, `sheet` and `quoted` apply to the
    next blocks. `file_count` and `inserted` count contained and inner documents. `tells_rest`: unread parts are
    reported. `forms_chosen` and `entries_read` prevent reading a picture twice. `causes` are failures for the log."""

    def __init__(self, limits: Limits, file_name: str = "") -> None:
        self.limits = limits
        self.file_name = file_name
        self.blocks: list[Block] = []
        self.page: int | None = None
        self.sheet: str | None = None
        self.quoted = False
        self.scanned: list[int] = []
        self.file_count = 0
        self.tells_rest = True
        self.pictures: list[FoundPicture] = []
        self.forms_chosen: dict[tuple[str, ...], str] = {}
        self.entries_read: set[str] = set()
        self.causes: list[str] = []
        self.inserted = itertools.count()
        self._known_pictures: set[bytes] = set()
        self._not_read: dict[NotReadKind, NotRead] = {}
        self._characters = 0

    def heading(self, text: str, level: int, *, page: int | None = None, box: Box | None = None) -> None:
        """Add a heading; a text too long for a heading becomes a paragraph."""
        line = one_line(text)
        if len(line) > _HEADING_CHARACTERS:
            self.add(Block("paragraph", line, page=page, box=box))
        else:
            self.add(Block("heading", line, min(max(level, 1), 6), page, box=box))

    def paragraph(self, text: str, *, page: int | None = None, box: Box | None = None) -> None:
        """Add a paragraph, with line breaks folded into spaces."""
        self.add(Block("paragraph", one_line(text), page=page, box=box))

    def paragraphs(self, texts: Iterable[str], *, page: int | None = None) -> None:
        for text in texts:
            self.paragraph(text, page=page)

    def lines(self, text: str, *, page: int | None = None) -> None:
        """Add a paragraph with meaningful line breaks."""
        self.add(Block("paragraph", clean(text).strip(), page=page))

    def code(self, text: str) -> None:
        self.add(Block("code", clean(text).strip("\n")))

    def table_row(
        self, text: str, *, page: int | None = None, rows: tuple[int, int] | None = None, box: Box | None = None
    ) -> None:
        self.add(Block("table_row", one_line(text), page=page, rows=rows, box=box))

    def add(self, block: Block) -> None:
        """Add a block with text, at the block's own page if set, and on the current sheet."""
        if not block.text or block.text.isspace():
            return
        self._characters += len(block.text)
        if self._characters > self.limits.characters:
            raise too_complex(f"The file holds more than {self.limits.characters:,} characters of text.")
        page, at = self.page if block.page is None else block.page, 0
        is_placed = (page, self.sheet, self.quoted) == (block.page, block.sheet, block.quoted)
        whole = block if is_placed else replace(block, page=page, sheet=self.sheet, quoted=self.quoted)
        for piece in pieces(block.text, self.limits.block_characters):
            at = block.text.index(piece, at)
            self.blocks.append(cut_block(whole, piece, at))
            at += len(piece)
        if len(self.blocks) > self.limits.blocks:
            raise too_complex(f"The file holds more than {self.limits.blocks:,} paragraphs and table rows.")

    def leave_out(self, kind: NotReadKind, label: str = "", *, count: int = 1) -> None:
        """Record unread parts, never with words of the file: admins see records of documents they may not read."""
        if count:
            noted = self._not_read.get(kind, NotRead(kind, 0))
            is_new = label and label not in noted.where and len(noted.where) < MOST_PLACES
            places = (*noted.where, label) if is_new else noted.where
            self._not_read[kind] = replace(noted, count=noted.count + count, where=places)

    @contextmanager
    def refinement(self, what: str) -> Generator[None]:
        """Record `what` as not read after an error in the `with` block (`skip`). Only for dispensable parts of text."""
        try:
            yield
        except BaseException as error:  # noqa: BLE001 - libraries raise anything on a broken file, those in Rust no Exception
            self.skip(what, error)

    def skip(self, what: str, error: BaseException) -> None:
        """Record an unreadable part; raise errors of limits, of memory and of exits."""
        is_end = isinstance(error, KeyboardInterrupt | SystemExit | GeneratorExit | MemoryError)
        if is_end or (isinstance(error, Unreadable) and error.code == "file_too_complex"):
            raise error
        self.leave_out(NotReadKind.DETAIL, what)
        if len(self.causes) < MOST_PLACES:
            self.causes.append(f"{what}: {''.join(traceback.format_exception(error, limit=-8))}")

    def scan(self, number: int) -> None:
        self.scanned.append(number)
        self.leave_out(NotReadKind.PAGE, f"page {number}")

    def picture(self, address: str, content: bytes, label: str = "", *, page: int | None = None) -> None:
        """Record a new picture for later recognition, unless an icon, or leave it out; a drawing's texts are read."""
        if not self._is_new(content):
            return
        if (drawing := read_drawing(content)) is not None:
            self.paragraph(" ".join(drawing.lines), page=page)
            self.leave_out(NotReadKind.PICTURE, label, count=drawing.others)
            content = drawing.bitmap
        legible = is_legible(content, pixels=self.limits.pixels)
        if legible is False or (drawing is not None and drawing.lines and not legible):
            return
        self.leave_out(NotReadKind.PICTURE, label)
        if legible and self.limits.finds_pictures and len(self.pictures) < self.limits.pictures:
            page = self.page if page is None else page
            self.pictures.append(FoundPicture(address, page, self.sheet, after=len(self.blocks)))

    def preview(self, content: bytes, *, page: int | None = None) -> None:
        """Add the texts of a drawing representing an object of another program, unless already added."""
        if self._is_new(content) and (drawing := read_drawing(content)) is not None:
            self.paragraph(" ".join(drawing.lines), page=page)

    def picture_on(self, page: int, address: str, content: bytes) -> None:
        """Record a picture for later text recognition as shown on the page, unless already recorded."""
        if self._is_new(content):
            self.leave_out(NotReadKind.PICTURE, f"page {page}")
            if len(self.pictures) < self.limits.pictures:
                self.pictures.append(FoundPicture(address, page))

    def _is_new(self, content: bytes) -> bool:
        digest = hashlib.blake2b(content, digest_size=16).digest()
        is_new = digest not in self._known_pictures
        self._known_pictures.add(digest)
        return is_new

    @property
    def has_contents(self) -> bool:
        """Whether there is text, or a page for text recognition."""
        return bool(self.blocks or self.pictures or (self.scanned and self.limits.reads_scans))

    @property
    def has_skipped(self) -> bool:
        return NotReadKind.DETAIL in self._not_read

    @property
    def not_read(self) -> tuple[NotRead, ...]:
        """The parts recorded as not read, most important first."""
        return tuple(self._not_read[kind] for kind in NotReadKind if kind in self._not_read)


def clean(text: str) -> str:
    """Return the text with uniform line ends and without characters that can't be stored or seen."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\u2028", "\n").replace("\u2029", "\n")
    if text.isascii() and text.isprintable():
        return text
    return _INVISIBLE.sub("", _UNSTORABLE.sub(" ", text))


def one_line(text: str) -> str:
    """Return the cleaned text with each run of white space replaced by a single space."""
    return " ".join(clean(text).split())


def pieces(text: str, size: int) -> list[str]:
    """Cut the text into pieces of at most `size` characters, at white space where possible."""
    found: list[str] = []
    start = 0
    while len(text) - start > size:
        cut = max(text.rfind(" ", start + size // 2, start + size), text.rfind("\n", start + size // 2, start + size))
        end = cut if cut > 0 else start + size
        found.append(text[start:end].strip())
        start = end
    found.append(text[start:].strip() if found else text)
    return [piece for piece in found if piece]


_CHARACTERS = 300
_WORDS = tomllib.loads(Path(__file__).with_name("titles.toml").read_text(encoding="utf-8"))
_NOTHING, _THING, _BOOK, _UNKNOWN, _SUFFIX, _NAMED, _NUMBERED = ("|".join(words) for words in _WORDS.values())
_DEFAULT = (
    rf"\(?(?:{_NOTHING})\)?[ \d-]*|\((?:{_UNKNOWN})\)|(?:{_BOOK})\d+"
    rf"|(?:(?:{_NOTHING}|new|neue[sr]?|scanned|blank|word|excel|powerpoint)[ -])?(?:{_THING})[ \d()_-]*"
)
# Titles written by programs, short numbers, and file names.
_PLACEHOLDER = re.compile(
    r"microsoft (?:office )?(?:word|excel|powerpoint|publisher|visio|outlook)"
    rf"(?:[ \d-]*(?:worksheet|{_DEFAULT})?| - .*\.(?:{_SUFFIX}))"
    rf"|{_DEFAULT}|(?!.*%)(?:[\W_]|(?<!\d)\d{{1,2}}(?!\d))*|\S*[^\s.]\.(?:{_SUFFIX})|[a-z]:\\.*",
    re.IGNORECASE | re.DOTALL,
)
_PART = re.compile(rf"{_NAMED}|(?:{_NUMBERED})\s*[\divx]+\b.*|[\divx]+[.)]?[\d.]*\s.*", re.IGNORECASE)


def choose_title(named: str | None, blocks: Sequence[Block]) -> str | None:
    """Return a file's title, from the file's own title `named` or the first top heading; None: use the file name."""
    headings = [each for each in blocks if each.kind == "heading" and not is_placeholder(each.text)]
    top = min((each.level for each in headings), default=0)
    first = next((each.text for each in headings if each.level == top), "")
    own = one_line(named or "")
    own = "" if is_placeholder(own) else own
    return (own if own and _PART.fullmatch(first) else first or own)[:_CHARACTERS] or None


def is_placeholder(title: str) -> bool:
    """Return whether a title is meaningless: a default, a short number, or a file name."""
    return _PLACEHOLDER.fullmatch(title.strip()) is not None
