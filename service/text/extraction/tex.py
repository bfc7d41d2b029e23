"""TeX and LaTeX: the text of a file in one pass, without running it; macros are kept for their arguments.

Formulas stay as they are written. Of macros that the file defines, those that stand for plain words are replaced.
"""

import re
import unicodedata

from service.text.extraction.building import BlockBuilder, one_line
from service.text.extraction.plain import read_text
from service.text.extraction.tabular import TableWriter

# Every repetition is bounded and gives nothing back, so that a brace that nobody closes costs little.
_ARGUMENT = r"\s{0,20}+\{([^{}]{0,2000}+(?:\{[^{}]{0,500}+\}[^{}]{0,2000}+){0,50}+)\}"
_NEXT_ARGUMENT = re.compile(_ARGUMENT)
_OPTION = re.compile(r"\s{0,20}\[([^\[\]]{0,500})\]")
_BRACE = re.compile(r"\s{0,20}(?=\{)")
_TOKEN = re.compile(
    r"(?P<comment>%[^\n]*(?:\n(?![ \t]*\n))?[ \t]*)"
    r"|\\(?P<edge>begin|end)\s{0,20}\{(?P<environment>[^{}\n]{1,60})\}"
    r"|\\(?P<command>[A-Za-z@]+)\*?[ \t]*"
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
_LEVELS = {"part": 1, "chapter": 1, "section": 2, "subsection": 3, "subsubsection": 4, "paragraph": 5, "frametitle": 3}
_PARAGRAPHS = frozenset({"par", "item", "caption", "bibitem", "newline", "maketitle", "subparagraph"})
_APART = frozenset({"footnote", "thanks", *_PARAGRAPHS})
# How many arguments of a command, or of an environment's beginning, say nothing to readers.
_ONE = """
    label ref pageref eqref autoref cref cite citep citet textcite parencite bibitem includegraphics input include
    bibliography bibliographystyle vspace hspace color textcolor colorbox href pagestyle thispagestyle usepackage
    documentclass hypersetup geometry pagenumbering selectlanguage cline tabular longtable thebibliography minipage
    multicols begin end hyperref graphicspath
"""
_TWO = """
    newcommand renewcommand providecommand setlength addtolength setcounter addtocounter multicolumn multirow tabularx
    tabular* newtheorem fontsize rule raisebox
"""
_SILENT = {**dict.fromkeys(_ONE.split(), 1), **dict.fromkeys(_TWO.split(), 2), "newenvironment": 3}
_TABLES = frozenset({"tabular", "tabular*", "tabularx", "longtable"})
_FORMULAS = frozenset(
    {"equation", "align", "gather", "multline", "eqnarray", "displaymath", "math", "flalign", "alignat"}
)
_CODE = frozenset({"verbatim", "lstlisting", "minted"})
_PLACED = frozenset({"figure", "table", "wrapfigure", "frame", *_TABLES})
_COMBINING = dict(
    zip(
        "`'^\"~=.uvHckrd",
        "\u0300\u0301\u0302\u0308\u0303\u0304\u0307\u0306\u030c\u030b\u0327\u0328\u030a\u0323",
        strict=True,
    )
)
_ACCENTED = re.compile(r"\s{0,5}\{?\s{0,5}(?:\\([ij])(?![A-Za-z])|([A-Za-z]))\s{0,5}\}?")
_LETTERS = {
    "ss": "ß", "o": "ø", "O": "Ø", "ae": "æ", "AE": "Æ", "oe": "œ", "OE": "Œ", "aa": "å", "AA": "Å", "l": "ł", "L": "Ł",
    "i": "\u0131", "S": "§", "P": "¶", "pounds": "£", "euro": "€", "EUR": "€", "copyright": "©", "dots": "…",
    "ldots": "…", "textbackslash": "\\", "LaTeX": "LaTeX", "TeX": "TeX", "textendash": "-", "textemdash": "—",
}  # fmt: skip


def parse_tex(data: bytes, builder: BlockBuilder) -> str | None:
    """Add a TeX file's title, headings, paragraphs, lists, tables and code; return its title."""
    text = read_text(data, builder).replace("\r\n", "\n")
    preamble, begins, body = text.partition(_BEGIN)
    if not begins:
        preamble, body = "", text
    macros = dict(_PLAIN_MACRO.findall(text))
    title = None
    for name, words in _TITLES.findall(_COMMENT.sub("", preamble)):
        found = BlockBuilder(builder.limits)
        _Reader(words, macros, found).read()
        said = " ".join(block.text for block in found.blocks)
        if name == "title" and title is None:
            title = one_line(said)
            builder.heading(said, 1)
        else:
            builder.paragraph(said)
    _Reader(body.partition(_END)[0], macros, builder).read()
    return title


class _Reader:
    """Walks over the tokens of a text once, collecting words until something ends the paragraph, cell or row."""

    def __init__(self, text: str, macros: dict[str, str], builder: BlockBuilder) -> None:
        self._text = text
        self._macros = macros
        self._builder = builder
        self._place = 0
        self._words: list[str] = []
        self._prefix = ""
        # For each open brace the level of the heading that it holds, 0 for none.
        self._braces: list[int] = []
        self._table: TableWriter | None = None
        self._cells: list[str] = []

    def read(self) -> None:
        """Add the blocks of the text."""
        while token := _TOKEN.match(self._text, self._place):
            self._place = token.end()
            kind, value = token.lastgroup or "", token[token.lastgroup or 0]
            if kind == "environment":
                self._cross(token["edge"], value)
            elif kind in {"text", "formula"}:
                self._words.append(value.replace("``", '"').replace("''", '"') if kind == "text" else value)
            elif kind == "command":
                self._command(value)
            elif kind == "symbol":
                self._symbol(value)
            elif kind == "mark":
                self._mark(value)
            elif kind == "blank":
                self._end_paragraph()
        self._end_table()
        self._end_paragraph()

    def _cross(self, edge: str, name: str) -> None:
        """Begin or end an environment; formulas and code are taken whole."""
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
            self._skip(_OPTION)
        for _ in range(_SILENT.get(name, 0)):
            self._skip(_NEXT_ARGUMENT)
        if name in _TABLES:
            self._end_table()
            self._table = TableWriter(self._builder)
        elif name == "frame" and self._text.startswith("{", self._place):
            self._open(_LEVELS["frametitle"])

    def _command(self, name: str) -> None:
        if name in _COMBINING and (letter := _ACCENTED.match(self._text, self._place)):
            self._accent(name, letter)
            return
        if name in _PARAGRAPHS and self._table is None:
            self._end_paragraph()
        if name == "item":
            option = _OPTION.match(self._text, self._place)
            self._prefix = f"- {option[1]}: " if option else "- "
        self._skip(_OPTION)
        for _ in range(_SILENT.get(name, 0)):
            self._skip(_OPTION)
            self._skip(_NEXT_ARGUMENT)
        if name in _LEVELS and (brace := _BRACE.match(self._text, self._place)):
            self._end_paragraph()
            self._place = brace.end()
            self._open(_LEVELS[name])
            return
        self._words.append(_LETTERS.get(name) or self._macros.get(name, " " if name in _APART else ""))

    def _symbol(self, symbol: str) -> None:
        if symbol == "\\":
            self._skip(_OPTION)
            self._end_row() if self._table is not None else self._words.append(" ")
        elif symbol in "([":
            end = self._text.find("\\)" if symbol == "(" else "\\]", self._place, self._place + 5_000)
            self._words.append(self._text[self._place : max(end, self._place)])
            self._place = end + 2 if end >= 0 else self._place
        elif symbol in _COMBINING and (letter := _ACCENTED.match(self._text, self._place)):
            self._accent(symbol, letter)
        elif symbol in "&%$#_{}":
            self._words.append(symbol)
        elif symbol not in "-/)]":
            self._words.append(" ")

    def _mark(self, mark: str) -> None:
        if mark == "{":
            self._braces.append(0)
        elif mark == "}":
            level = self._braces.pop() if self._braces else 0
            if level:
                self._builder.heading(self._take(), level)
        elif mark == "&" and self._table is not None:
            self._cells.append(self._take())
        else:
            self._words.append(" " if mark == "~" else mark)

    def _accent(self, accent: str, letter: re.Match[str]) -> None:
        self._place = letter.end()
        self._words.append(unicodedata.normalize("NFC", (letter[1] or letter[2]) + _COMBINING[accent]))

    def _open(self, level: int) -> None:
        """Step over the brace that the heading is in."""
        self._place += 1
        self._braces.append(level)

    def _skip(self, pattern: re.Pattern[str]) -> None:
        found = pattern.match(self._text, self._place)
        self._place = found.end() if found else self._place

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
            self._table.row([*self._cells, self._take()])
            self._cells = []

    def _end_table(self) -> None:
        if self._table is not None:
            self._end_row()
            self._table.close()
            self._table = None
