"""RTF: headings, paragraphs and tables; notes, comments and boxes follow the paragraph they belong to."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from carrel.wire.formats import NotReadKind
from service.text.extraction.building import BlockBuilder
from service.text.extraction.decoding import FONT_CODE_PAGES, join_halves
from service.text.extraction.failures import too_complex
from service.text.extraction.metafiles import with_header
from service.text.extraction.tabular import TableWriter

_TOKEN = re.compile(r"\\([a-zA-Z]{1,32})(-?\d{1,9})? ?|\\'([0-9a-fA-F]{2})|\\([^a-zA-Z])|([{}])|[\r\n]+|([^\\{}\r\n]+)")
_DEEPEST = 2_000
_TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
_HIDDEN, _KNOWN = (frozenset[str](_TABLE[name].split()) for name in ("hidden", "known"))
_CHARACTERS: Mapping[str, str] = _TABLE["characters"]
_HEADERS = frozenset(f"{kind}{pages}" for kind in ("header", "footer") for pages in ("", "l", "r", "f"))
_NUMBERS = frozenset({"listtext", "pntext"})
_ASIDE = frozenset({*_NUMBERS, "footnote", "annotation", "shptxt", "textbox", "dptxbxtext", *_HEADERS})
_SYMBOLS = {"~": "\xa0", "_": "-", "\\": "\\", "{": "{", "}": "}"}
_HEADING = re.compile(r"\s*heading (\d)", re.IGNORECASE)
_LAST_HEADING = 9
# Destinations whose text is read.
_READ = frozenset({"body", "title", "stylesheet", "fonttbl", "info"})
_LONGEST_SAID = 1_000
# A shape's property and its value, which may be a picture.
_SHAPE = {"sp": "body", "sv": "sp"}
_SHOWN = frozenset({"body", "sv"})

# Two backslashes are one in the text.
_OBJECT = re.compile(rb"(?<!\\)(?:\\\\)*\\objdata(?![a-z])")
# After the control word of a picture: its format, and its bytes, in hexadecimal or binary.
_SAID = re.compile(r"\\(?:\*|[a-z]+-?\d* ?)|\s+")
_BRACE = re.compile(r"(?<!\\)[{}]")
_DIGITS = re.compile(r"[0-9a-fA-F\s]*")
_BYTES = re.compile(r"\\bin(\d{1,9})")


@dataclass(slots=True)
class _State:
    to: str = "body"  # the destination of text: the paragraph, nowhere, or a property of the file
    opened: str = ""  # the part that begins and ends with the group
    code_page: str = "cp1252"
    replaced: int = 1  # the number of substitute characters, for old programs, after each Unicode character
    deleted: bool = False
    is_object: bool = False  # whether the content represents an object of another program


@dataclass(slots=True)
class _Flow:
    """A text being read, of the body or outside it: the paragraph, and the cells of the row."""

    text: list[str] = field(default_factory=list[str])
    cells: list[str] = field(default_factory=list[str])
    level: int = 0
    is_item: bool = False
    number: str = ""  # the number of a list item, until the item's text follows
    is_numbered: bool = False
    in_table: bool = False


def parse_rtf(data: bytes, builder: BlockBuilder) -> str | None:
    """Add an RTF file's text; tracked deletions are left out."""
    title = _Reader(data, builder).read()
    builder.leave_out(NotReadKind.EMBEDDED, count=len(_OBJECT.findall(data)))
    return title


def read_rtf_picture(path: Path, place: str) -> bytes:
    return _read_picture(path.read_bytes().decode("latin-1"), int(place))[0]


def _read_picture(data: str, place: int) -> tuple[bytes, int]:
    """Return a picture's bytes and the position behind them."""
    said = word = ""
    while not (counted := _BYTES.match(word)):
        if (found := _SAID.match(data, place)) is not None:
            word, place = found[0], found.end()
            said += word.strip()
        elif data.startswith("{", place):
            place = _end_of_group(data, place)
        else:
            break
    if counted:
        end = place + int(counted[1])
        content = data[place:end].encode("latin-1")
    else:
        found = _DIGITS.match(data, place)
        end, digits = (found.end(), "".join(found[0].split())) if found else (place, "")
        content = bytes.fromhex(digits[: len(digits) // 2 * 2])
    return with_header(content) if "\\dibitmap" in said else content, end


def _end_of_group(data: str, place: int) -> int:
    depth = 0
    for brace in _BRACE.finditer(data, place):
        depth += 1 if brace[0] == "{" else -1
        if not depth:
            return brace.end()
    return len(data)


class _Reader:
    def __init__(self, data: bytes, builder: BlockBuilder) -> None:
        # Each character is a byte, whose meaning depends on the current code page.
        self._data = data.decode("latin-1")
        self._builder = builder
        self._state = _State()
        self._states: list[_State] = []
        self._flows = [_Flow()]
        self._asides: list[str] = []
        self._pictures: list[tuple[int, bytes, bool]] = []
        self._printed: dict[str, None] = {}
        self._bytes = bytearray()
        self._to_skip = 0
        self._is_optional = False
        self._default = "cp1252"
        self._pages: dict[int, str] = {}
        self._levels: dict[int, int] = {}
        self._number = 0
        self._said = ""
        self._title = ""
        self._writer: TableWriter | None = None

    def read(self) -> str:
        place = 0
        while (token := _TOKEN.search(self._data, place)) is not None:
            place = token.end()
            word, number, code, symbol, brace, text = token.groups()
            if text or code:
                data = text.encode("latin-1") if text else bytes.fromhex(code)
                skipped = min(self._to_skip, len(data))
                self._to_skip -= skipped
                self._bytes += data[skipped:]
                continue
            self._flush()
            if word == "bin":
                place += max(int(number or 0), 0)
            elif word == "pict" and self._state.to in _SHOWN:
                begin = place
                content, place = _read_picture(self._data, begin)
                self._pictures.append((begin, content, self._state.is_object))
                self._state.to = "nowhere"
            elif word:
                self._apply_word(word, None if number is None else int(number))
            elif brace:
                self._to_skip = 0
                self._open() if brace == "{" else self._close()
            elif symbol:
                self._symbol(symbol)
        self._flush()
        del self._flows[1:]
        self._end_paragraph()
        self._end_table()
        self._builder.paragraphs(self._printed)
        return self._title

    def _open(self) -> None:
        if len(self._states) > _DEEPEST:
            raise too_complex("The file's groups are nested too deeply.")
        self._states.append(self._state)
        self._state = replace(self._state, opened="")
        self._said = ""
        self._number = 0

    def _close(self) -> None:
        if not self._states:
            return
        ended, self._state = self._state, self._states.pop()
        if ended.to == "title":
            self._title = self._title or self._said
        elif ended.to == "stylesheet" and (heading := _HEADING.match(self._said)):
            self._levels[self._number] = int(heading[1])
        elif ended.opened in _ASIDE and len(self._flows) > 1:
            flow = self._flows.pop()
            text = " ".join((*flow.cells, "".join(flow.text)))
            if ended.opened in _NUMBERS:
                # A bullet is a sign, not a number.
                self._flows[-1].number = text if any(map(str.isalnum, text)) else ""
            elif ended.opened in _HEADERS:
                self._printed[join_halves(text).strip()] = None
            else:
                self._asides.append(text)

    def _apply_word(self, word: str, number: int | None) -> None:
        optional, self._is_optional = self._is_optional, False
        is_hidden = self._state.to not in _READ
        if word == "ud" and optional:
            self._state.to = "body"
        elif word in _SHAPE and self._state.to == _SHAPE[word]:
            self._state.to = word
        elif is_hidden:
            return
        elif word in _HIDDEN or (optional and word not in _KNOWN):
            self._state.to = "nowhere"
        elif word == "object":
            self._state.is_object = True
        elif word in {"title", "stylesheet", "fonttbl", "upr"}:
            self._state.to = word
        elif word in _ASIDE:
            self._state.opened = word
            self._flows.append(_Flow())
        elif not self._put_character(word, number) and not self._format(word, number):
            self._end_part(word)

    def _put_character(self, word: str, number: int | None) -> bool:
        if word in _CHARACTERS:
            self._put(_CHARACTERS[word])
        elif word == "u" and number is not None:
            self._put(chr(number & 0xFFFF))
            self._to_skip = self._state.replaced
        else:
            return False
        return True

    def _format(self, word: str, number: int | None) -> bool:
        """Apply a word for layout or formatting; return False for any different word."""
        state, flow = self._state, self._flows[-1]
        if word == "f":
            self._number = number or 0
            state.code_page = self._pages.get(self._number, self._default)
        elif word in {"fcharset", "cpg", "ansicpg"}:
            self._set_code_page(word, number or 0)
        elif word == "uc":
            state.replaced = number if number is not None else 1
        elif word in {"deleted", "plain"}:
            state.deleted = word == "deleted" and number != 0
        elif word == "s":
            self._number = number or 0
            flow.level = self._levels.get(self._number, 0)
        elif word == "outlinelevel" and number is not None and number < _LAST_HEADING:
            flow.level = number + 1
        elif word == "pard":
            flow.level, flow.is_item, flow.in_table = 0, False, False
        elif word == "ls":
            flow.is_item = True
        elif word == "intbl":
            flow.in_table = True
        else:
            return False
        return True

    def _set_code_page(self, word: str, number: int) -> None:
        if word == "ansicpg":
            self._default = self._state.code_page = f"cp{number}"
        elif self._state.to == "fonttbl" and (word == "cpg" or number in FONT_CODE_PAGES):
            self._pages[self._number] = f"cp{number}" if word == "cpg" else FONT_CODE_PAGES[number]

    def _end_part(self, word: str) -> None:
        flow = self._flows[-1]
        if self._state.to != "body" or self._state.deleted:
            return
        if word in {"cell", "nestcell"} or (word == "par" and (flow.in_table or len(self._flows) > 1)):
            flow.text.append(" ")
            if word == "cell":
                flow.cells.append(join_halves("".join(flow.text)))
                flow.text.clear()
        elif word == "row" and len(self._flows) == 1:
            self._writer = self._writer or TableWriter(self._builder)
            self._writer.row(flow.cells)
            flow.cells.clear()
            self._add_asides()
        elif word in {"par", "sect", "page"}:
            self._end_paragraph()

    def _symbol(self, symbol: str) -> None:
        self._is_optional = symbol == "*"
        if symbol in _SYMBOLS:
            self._put(_SYMBOLS[symbol])
        elif symbol in "\r\n":
            self._end_part("par")

    def _flush(self) -> None:
        if self._bytes:
            try:
                text = self._bytes.decode(self._state.code_page, "replace")
            except LookupError:
                text = self._bytes.decode("cp1252", "replace")
            self._bytes.clear()
            self._put(text)

    def _put(self, text: str) -> None:
        self._is_optional = False
        if self._state.to != "body":
            self._said += text if len(self._said) < _LONGEST_SAID else ""
        elif not self._state.deleted:
            flow = self._flows[-1]
            if flow.number and not text.isspace():
                flow.text.append(f"{flow.number.strip()} ")
                flow.number, flow.is_numbered = "", True
            flow.text.append(text)

    def _end_paragraph(self) -> None:
        flow = self._flows[-1]
        text = join_halves("".join(flow.text))
        flow.text.clear()
        is_item = flow.is_item and not flow.is_numbered
        flow.number, flow.is_numbered = "", False
        if text.strip():
            self._end_table()
            if flow.level:
                self._builder.heading(text, flow.level)
            else:
                self._builder.paragraph(f"- {text}" if is_item else text)
        self._add_asides()

    def _end_table(self) -> None:
        cells = self._flows[0].cells
        if cells:
            self._writer = self._writer or TableWriter(self._builder)
            self._writer.row(cells)
            cells.clear()
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _add_asides(self) -> None:
        if self._asides and self._writer is not None:
            self._end_table()
        self._builder.paragraphs(map(join_halves, self._asides))
        self._asides.clear()
        for place, content, is_object in self._pictures:
            if is_object:
                self._builder.preview(content)
            else:
                self._builder.picture(str(place), content)
        self._pictures.clear()
