"""Markdown (CommonMark with tables), also converted by kreuzberg from EPUB, notebooks, reStructuredText and Org."""

import re
import zipfile
from collections.abc import Callable
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

from carrel.wire.formats import BY_NAME
from service.text.extraction.building import BlockBuilder, is_placeholder, one_line
from service.text.extraction.failures import corrupt_file, encrypted_file, too_complex
from service.text.extraction.html_pages import add_html
from service.text.extraction.packages import leave_out_entries
from service.text.extraction.plain import read_text
from service.text.extraction.svg import find_drawings
from service.text.extraction.tabular import TableWriter

_FRONT_MATTER = re.compile(r"\A\ufeff?(---|\+\+\+)[ \t]*\r?\n")
_MEMBER = re.compile(
    r"^(title|subtitle|description|summary|keywords|tags|categories)[ \t]*[:=][ \t]*(.*(?:\n(?:[ \t]+|- |\]).*)*)",
    re.IGNORECASE | re.MULTILINE,
)
_QUOTED = re.compile(r"([\"'])(.*)\1", re.DOTALL)
# Code keeps its braces; elsewhere `{% page "/x" %}` and `{{< ref >}}` are instructions to a site generator.
_TEMPLATE_TAGS = re.compile(r"(`[^`]*`)|\{%[^%]*%\}|\{\{[<%][^{}]*[>%]\}\}")
_LINK_TAG = re.compile(r"\]\(\s*\{%[^%]*%\}[^\s)]*\s*\)")

_markdown = MarkdownIt("commonmark").enable(["table", "strikethrough"])


def parse_markdown(data: bytes, builder: BlockBuilder) -> str | None:
    """Add the blocks of a Markdown text; return the front matter's title."""
    front, body = split_front_matter(read_text(data, builder).replace("\x00", " "))
    title, tokens = front.get("title"), _tokens(body)
    # Site generators show the title above a page without a main heading.
    if title and not (tokens and is_placeholder(title)) and not any(token.tag == "h1" for token in tokens):
        builder.heading(title, 1)
    builder.paragraph(". ".join(front[name] for name in ("subtitle", "description", "summary") if name in front))
    for name in ("keywords", "tags", "categories"):
        builder.paragraph(f"{name.capitalize()}: {front[name]}" if name in front else "")
    _Writer(builder).write(tokens)
    for drawing in find_drawings(data):
        builder.preview(drawing)
    return title


def split_front_matter(text: str) -> tuple[dict[str, str], str]:
    """Return the useful fields of YAML or TOML front matter, and the remaining text."""
    opening = _FRONT_MATTER.match(text)
    if opening is None:
        return {}, text
    closing = re.compile(rf"^{re.escape(opening[1])}[ \t]*$", re.MULTILINE).search(text, opening.end())
    if closing is None:
        return {}, text
    return _members(text[opening.end() : closing.start()]), text[closing.end() :]


def _members(front: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in _MEMBER.findall(front.replace("\r", "")):
        lines = [line.strip() for line in value.splitlines() if line.strip(" \t|>-+")]
        text = (", " if any(line.startswith("- ") for line in lines) else " ").join(
            _QUOTED.sub(r"\2", line.removeprefix("- ")) if line.startswith("- ") else line for line in lines
        )
        items = text[1:-1].split(",") if text.startswith("[") and text.endswith("]") else [text]
        text = ", ".join(_QUOTED.sub(r"\2", item.strip()) for item in items if item.strip())
        if text:
            found.setdefault(name.lower(), text)
    return found


def _tokens(text: str) -> list[Token]:
    """Parse the blocks, drop template tags outside code, then parse the blocks' inline text."""
    state: dict[str, object] = {}
    tokens = _block_parser.parse(text, state)
    inline = [token for token in tokens if token.type == "inline"]
    for token in inline:
        if "{" in token.content:
            token.content = _without_tags(token.content)
        token.children = []
        _markdown.inline.parse(token.content, _markdown, state, token.children)
    return tokens


_block_parser = MarkdownIt("commonmark").enable(["table"]).disable(["inline"])


def _without_tags(text: str) -> str:
    return _TEMPLATE_TAGS.sub(lambda found: found[1] or "", _LINK_TAG.sub("]()", text))


class _Writer:
    def __init__(self, builder: BlockBuilder) -> None:
        self._builder = builder
        self._lists: list[int | None] = []
        self._item = ""
        self._table: TableWriter | None = None
        self._cells: list[str] = []
        self._in_head = False
        self._kind = ""
        self._level = 0

    def write(self, tokens: list[Token]) -> None:
        for token in tokens:
            handler = _HANDLERS.get(token.type)
            if handler is not None:
                handler(self, token)

    def open_block(self, token: Token) -> None:
        self._kind = token.type
        self._level = int(token.tag[1]) if token.type == "heading_open" else 0

    def inline(self, token: Token) -> None:
        text = inline_text(token.children or [])
        if self._table is not None:
            self._cells.append(text)
        elif self._kind == "heading_open":
            self._builder.heading(text, self._level)
        elif text.strip():
            self._builder.paragraph(self._item + text)
            self._item = ""

    def code(self, token: Token) -> None:
        self._builder.code(token.content)

    def html(self, token: Token) -> None:
        content = _without_tags(token.content)
        if content.strip():
            add_html(content, self._builder)

    def open_list(self, token: Token) -> None:
        self._lists.append(int(token.attrGet("start") or 1) if token.type == "ordered_list_open" else None)

    def close_list(self, _token: Token) -> None:
        self._lists.pop()

    def item(self, _token: Token) -> None:
        number = self._lists[-1]
        self._item = "- " if number is None else f"{number}. "
        self._lists[-1] = None if number is None else number + 1

    def open_table(self, _token: Token) -> None:
        self._table = TableWriter(self._builder)

    def open_head(self, _token: Token) -> None:
        self._in_head = True

    def close_row(self, _token: Token) -> None:
        if self._table is not None:
            self._table.row(self._cells, header=self._in_head)
        self._cells = []
        self._in_head = False

    def close_table(self, _token: Token) -> None:
        if self._table is not None:
            self._table.close()
        self._table = None


_HANDLERS = {
    "paragraph_open": _Writer.open_block,
    "heading_open": _Writer.open_block,
    "inline": _Writer.inline,
    "fence": _Writer.code,
    "code_block": _Writer.code,
    "html_block": _Writer.html,
    "bullet_list_open": _Writer.open_list,
    "ordered_list_open": _Writer.open_list,
    "bullet_list_close": _Writer.close_list,
    "ordered_list_close": _Writer.close_list,
    "list_item_open": _Writer.item,
    "table_open": _Writer.open_table,
    "thead_open": _Writer.open_head,
    "tr_close": _Writer.close_row,
    "table_close": _Writer.close_table,
}


def inline_text(children: list[Token]) -> str:
    """Return the visible text of inline tokens, without marks and addresses; pictures become their descriptions."""
    parts: list[str] = []
    for child in children:
        if child.type in {"text", "text_special", "code_inline"}:
            parts.append(child.content)
        elif child.type in {"softbreak", "hardbreak"}:
            parts.append(" ")
        elif child.type == "image":
            parts.append(inline_text(child.children or []))
        elif child.type == "html_inline" and child.content.lower().startswith(("<br", "</p", "</td", "</li")):
            parts.append(" ")
    return "".join(parts)


_PROTECTED = ("password", "encrypted")


def convert(kind: str) -> Callable[[Path, BlockBuilder], str | None]:
    def parse(path: Path, builder: BlockBuilder) -> str | None:
        text, title = to_markdown(path.read_bytes(), kind)
        if len(text) > builder.limits.characters:
            raise too_complex(f"The file holds more than {builder.limits.characters:,} characters of text.")
        parse_markdown(text.encode("utf-8", "replace"), builder)
        # After the text, as expected for omitted and later-read parts.
        if kind == "EPUB":
            with zipfile.ZipFile(path) as archive:
                leave_out_entries(archive, builder)
        return title

    return parse


parse_epub, parse_notebook, parse_rst, parse_org = map(convert, ("EPUB", "Jupyter notebook", "reStructuredText", "Org"))


def to_markdown(data: bytes, kind: str) -> tuple[str, str | None]:
    """Convert a file to Markdown; return the text and the title. Raises Unreadable."""
    # Imported in the worker that needs it: kreuzberg starts threads, which a forking process must not have.
    from kreuzberg import ConcurrencyConfig, ExtractionConfig, KreuzbergError, extract_bytes_sync  # noqa: PLC0415

    config = ExtractionConfig(use_cache=False, output_format="markdown", concurrency=ConcurrencyConfig(max_threads=1))
    try:
        result = extract_bytes_sync(data, BY_NAME[kind].media_type, config=config)
    except (KreuzbergError, RuntimeError, ValueError, OSError) as error:
        if any(word in str(error).lower() for word in _PROTECTED):
            raise encrypted_file(kind) from error
        raise corrupt_file(kind) from error
    return result.content, one_line(str(result.metadata.get("title") or result.metadata.get("subject") or "")) or None
