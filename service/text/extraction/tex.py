"""Read TeX in a single pass without execution: macros keep their arguments or become plain words."""

import re
import tomllib
import unicodedata
from collections.abc import Mapping
from pathlib import Path

from service.text.extraction.building import BlockBuilder, Limits, one_line
from service.text.extraction.plain import read_text
from service.text.extraction.tabular import TableWriter

# Each repetition is bounded and possessive, so that an unclosed brace costs little.
_ARGUMENT = r"\s{0,20}+\{([^{}]{0,2000}+(?:\{[^{}]{0,500}+\}[^{}]{0,2000}+){0,50}+)\}"
_NEXT_ARGUMENT = re.compile(_ARGUMENT)
_OPTION = re.compile(r"\[[^\[\]]{0,500}\]")
# For \item and environments, which look further ahead.
_LABEL = re.compile(r"\s{0,20}\[([^\[\]]{0,500})\]")
_TRIM = re.compile(r"\([^()\n]{0,60}\)")
_BLANKS = re.compile(r"[ \t]{1,20}")
_BRACE = re.compile(r"\s{0,20}(?=\{)")
_TOKEN = re.compile(
    r"(?P<comment>%[^\n]*(?:\n(?![ \t]*\n))?[ \t]*)"
    r"|\\(?P<edge>begin|end)\s{0,20}\{(?P<environment>[^{}\n]{1,60})\}"
    r"|\\(?P<command>[A-Za-z@]+)\*?"
    r"|\\(?P<symbol>.)"
    r"|(?P<formula>\$\$[^$]{1,5000}\$\$|\$[^$]{1,2000}\$)"
    r"|(?P<mark>[{}&~$\\])"
    r"|(?P<blank>\n[ \t]*\n\s*)"
    r"|(?P<text>[^\\%{}&~$\n]+|\n)",
    re.DOTALL,
)
_TITLES = re.compile(r"\\(title|subtitle|author)\*?(?:\s*\[[^\]]{0,500}\])?" + _ARGUMENT)
_PLAIN_MACRO = re.compile(
    r"\\(?:(?:re)?newcommand\*?\s{0,20}\{?|def\s{0,20})\\([A-Za-z@]+)\}?\s{0,20}\{([^\\#{}]{1,200})\}"
)
_COMMENT = re.compile(r"(?<!\\)%[^\n]*")
_BEGIN, _END = r"\begin{document}", r"\end{document}"
_TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
_LEVELS: Mapping[str, int] = _TABLE["levels"]
_WORDS = {name: frozenset[str](words.split()) for name, words in _TABLE["words"].items()}
_PARAGRAPHS, _SPACES, _RAW, _TABLES, _FORMULAS, _CODE = (
    _WORDS[name] for name in ("paragraphs", "spaces", "raw", "tables", "formulas", "code")
)
_APART = frozenset({"footnote", "thanks", *_SPACES, *_PARAGRAPHS})
_PLACED = frozenset({"figure", "table", "wrapfigure", "frame", *_TABLES})
_LONGEST_RAW = 1_000
_MOST_COLUMNS = 30
_LONGEST_FORMULA = 5_000
_SILENT = {name: int(count) for count, names in _TABLE["silent"].items() for name in names.split()}
_COMBINING: Mapping[str, str] = _TABLE["accents"]
_ACCENTED = re.compile(r"\s{0,5}\{?\s{0,5}(?:\\([ij])(?![A-Za-z])|([A-Za-z]))\s{0,5}\}?")
_LETTERS: Mapping[str, str] = _TABLE["letters"]
# In TeX, a space after these only ends their name.
_EAT_SPACE = _WORDS["switches"].union(_LETTERS)
_WITHOUT_OPTION = frozenset({"par", "newline", "maketitle", *_EAT_SPACE, *_SPACES})


def parse_tex(data: bytes, builder: BlockBuilder) -> str | None:
    """Add a TeX file's title, headings, paragraphs, lists, tables and code; return its title."""
    text = read_text(data, builder).replace("\r\n", "\n")
    preamble, begins, body = text.partition(_BEGIN)
    if not begins:
        preamble, body = "", text
    macros = dict(_PLAIN_MACRO.findall(text))
    title = None
    for name, words in _TITLES.findall(_COMMENT.sub("", preamble)):
        said = _read_words(words, macros, builder.limits)
        if name == "title" and title is None:
            title = one_line(said)
            builder.heading(said, 1)
        else:
            builder.paragraph(said)
    before, ends, _ = body.rpartition(_END)
    _Reader(before if ends else body, macros, builder).read()
    return title


def _read_words(words: str, macros: dict[str, str], limits: Limits) -> str:
    found = BlockBuilder(limits)
    _Reader(words, macros, found).read()
    return " ".join(block.text for block in found.blocks)


class _Reader:
    def __init__(self, text: str, macros: dict[str, str], builder: BlockBuilder) -> None:
        self._text = text
        self._macros = macros
        self._builder = builder
        self._place = 0
        self._words: list[str] = []
        self._prefix = ""
        # By open brace: the level of the heading that it contains; 0 for none.
        self._braces: list[int] = []
        self._table: TableWriter | None = None
        self._cells: list[str] = []
        # How many further columns the current cell spans.
        self._spanned = 0
        self._ends: dict[str, int] = {}

    def read(self) -> None:
        while token := _TOKEN.match(self._text, self._place):
            self._place = token.end()
            kind, value = token.lastgroup or "", token[token.lastgroup or 0]
            if kind == "environment":
                self._begin_or_end(token["edge"], value)
            elif kind in {"text", "formula"}:
                self._words.append(value.replace("``", '"').replace("''", '"') if kind == "text" else value)
            elif kind == "command":
                self._read_command(value)
            elif kind == "symbol":
                self._read_symbol(value)
            elif kind == "mark":
                self._read_mark(value)
            elif kind == "blank":
                self._end_paragraph()
        self._end_table()
        self._end_paragraph()

    def _begin_or_end(self, edge: str, name: str) -> None:
        plain = name.removesuffix("*")
        if edge == "end":
            self._end_table() if name in _TABLES else self._end_paragraph()
            return
        self._end_paragraph()
        if plain in _FORMULAS or plain in _CODE:
            end = self._text.find(f"\\end{{{name}}}", self._place)
            inside = self._text[self._place : end if end >= 0 else len(self._text)]
            self._place += len(inside)
            self._builder.code(inside) if plain in _CODE else self._builder.lines(inside)
            return
        if name in _PLACED:
            self._skip(_LABEL)
        for _ in range(_SILENT.get(name, 0)):
            self._skip(_NEXT_ARGUMENT)
        if name in _TABLES:
            self._end_table()
            self._table = TableWriter(self._builder)
        elif name == "frame" and self._text.startswith("{", self._place):
            self._open_brace(_LEVELS["frametitle"])

    def _read_command(self, name: str) -> None:
        if name in _RAW:
            self._take_literally(name)
            return
        if name in _COMBINING and (letter := self._skip(_ACCENTED)):
            self._accent(name, letter)
            return
        if name in _PARAGRAPHS and self._table is None:
            self._end_paragraph()
        if name == "item":
            label = self._skip(_LABEL)
            self._prefix = f"- {_read_words(label[1], self._macros, self._builder.limits)}: " if label else "- "
        elif name not in _WITHOUT_OPTION and name not in self._macros:
            self._skip(_OPTION)
        self._skip_arguments(name)
        if name in _LEVELS and self._skip(_BRACE):
            self._end_paragraph()
            self._open_brace(_LEVELS[name])
            return
        if name in _EAT_SPACE:
            self._skip(_BLANKS)
        self._words.append(_LETTERS.get(name) or self._macros.get(name, " " if name in _APART else ""))

    def _skip_arguments(self, name: str) -> None:
        if name == "cmidrule":
            self._skip(_TRIM)
        elif name == "multicolumn" and (columns := _NEXT_ARGUMENT.match(self._text, self._place)):
            said = re.fullmatch(r"[0-9]{1,4}", columns[1].strip())
            self._spanned = max(int(said[0]) - 1, 0) if said else 0
        for _ in range(_SILENT.get(name, 0)):
            self._skip(_OPTION)
            self._skip(_NEXT_ARGUMENT)

    def _take_literally(self, name: str) -> None:
        """Take an address or code literally: a percent sign begins no comment."""
        if name == "lstinline":
            self._skip(_OPTION)
        if argument := self._skip(_NEXT_ARGUMENT):
            self._words.append(argument[1])
            return
        line = self._text[self._place : self._place + _LONGEST_RAW].partition("\n")[0]
        inside, closed, _ = line[1:].partition(line[:1] or "\n")
        if closed and line[0] not in "{\\" and not line[0].isspace():
            self._words.append(inside)
            self._place += len(inside) + 2

    def _read_symbol(self, symbol: str) -> None:
        if symbol == "\\":
            self._skip(_OPTION)
            self._end_row() if self._table is not None else self._words.append(" ")
        elif symbol in "([":
            if (end := self._formula_end(symbol)) >= 0:
                self._words.append(self._text[self._place : end])
                self._place = end + 2
        elif symbol in _COMBINING and (letter := self._skip(_ACCENTED)):
            self._accent(symbol, letter)
        elif symbol in "&%$#_{}":
            self._words.append(symbol)
        elif symbol not in "-/)]":
            self._words.append(" ")

    def _formula_end(self, symbol: str) -> int:
        """Return the end of a formula, or -1; each end is searched for only once, for all formulas before it."""
        if self._ends.get(symbol, -1) < self._place:
            end = self._text.find("\\)" if symbol == "(" else "\\]", self._place)
            self._ends[symbol] = end if end >= 0 else len(self._text) + _LONGEST_FORMULA
        end = self._ends[symbol]
        return end if end < self._place + _LONGEST_FORMULA else -1

    def _read_mark(self, mark: str) -> None:
        if mark == "{":
            self._braces.append(0)
        elif mark == "}":
            level = self._braces.pop() if self._braces else 0
            if level:
                self._builder.heading(self._take(), level)
        elif mark == "&" and self._table is not None:
            self._end_cell()
        else:
            self._words.append(" " if mark == "~" else mark)

    def _accent(self, accent: str, letter: re.Match[str]) -> None:
        self._words.append(unicodedata.normalize("NFC", (letter[1] or letter[2]) + _COMBINING[accent]))

    def _open_brace(self, level: int) -> None:
        self._place += 1
        self._braces.append(level)

    def _skip(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self._text, self._place)
        self._place = found.end() if found else self._place
        return found

    def _take(self) -> str:
        text, self._words = "".join(self._words), []
        return text

    def _end_paragraph(self) -> None:
        if self._table is not None:
            self._words.append(" ")
            return
        text = self._take()
        if text.strip():
            self._builder.paragraph(self._prefix + text)
            self._prefix = ""

    def _end_row(self) -> None:
        if self._table is not None:
            self._end_cell()
            self._table.row(self._cells)
            self._cells = []

    def _end_cell(self) -> None:
        self._cells += [self._take(), *[""] * min(self._spanned, max(_MOST_COLUMNS - len(self._cells), 0))]
        self._spanned = 0

    def _end_table(self) -> None:
        if self._table is not None:
            self._end_row()
            self._table.close()
            self._table = None
