"""Show results in notebooks: HTML with all text escaped, and plain text. `register_displays` adds the methods to the
wire models, which the service uses too. Colours are relative to the page's, for light and dark themes."""

import html
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias, cast
from urllib.parse import urlsplit

from pydantic import BaseModel

from carrel._pages import AsyncPager, Pager
from carrel._replies import Reply
from carrel.errors import CarrelError
from carrel.wire.common import PagedResponse, Tabular
from carrel.wire.frames import flatten_row
from carrel.wire.permissions import AuthorizationStep, ExplainAuthorizationResponse, StepType
from carrel.wire.places import PassagePlace, describe_place
from carrel.wire.search import SearchDocumentCatalogResponse, SearchDocumentCollectionResponse
from carrel.wire.uploads import PlanUploadResponse

LONGEST_PASSAGE, LONGEST_CELL, MOST_ROWS, MOST_COLUMNS = 4000, 160, 50, 40
# Control characters except line feeds and tabs, characters that change the direction of text, and lone surrogates.
_UNSHOWABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_LINE = "rgba(128,128,128,.4)"
_CELL = f"text-align:left;vertical-align:top;padding:.2em .7em;border-bottom:1px solid {_LINE}"
_BOX = f"display:inline-block;border:1px solid {_LINE};border-radius:.5em;padding:.2em .7em;margin:.15em 0"
_MARK = "background:rgba(255,193,7,.4);color:inherit"
# JupyterLab would read text between two dollar signs as a formula.
_PLAIN_CLASSES = "carrel tex2jax_ignore mathjax_ignore"

_KINDS = {
    StepType.USER: "User",
    StepType.SERVICE_ACCOUNT: "Service account",
    StepType.GROUP: "Group",
    StepType.ORGANIZATION: "Organization",
    StepType.GRANT: "Role",
    StepType.RESOURCE: "Resource",
}


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph, linked to `address` if http or https. `matches` are pairs of start and end positions."""

    text: str
    strong: bool = False
    address: str | None = None
    matches: Sequence[tuple[int, int]] = ()


@dataclass(frozen=True, slots=True)
class Chain:
    """A sequence of steps, each with kind and name."""

    steps: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells under the names of their columns."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Numbered:
    """A list numbered from 1; each item is a list of blocks."""

    items: "Sequence[Sequence[Block]]"


Block: TypeAlias = Text | Chain | Table | Numbered


def register_displays() -> None:
    """Let the results of the SDK show themselves in notebooks."""
    for kind, blocks_of in _BLOCKS.items():
        _add_display_methods(kind, blocks_of)


def _add_display_methods(kind: type[Any], blocks_of: Callable[[Any], Iterable[Block]]) -> None:
    def show_html(result: object) -> str:
        """Return the result as HTML without scripts, with all text escaped."""
        return as_html(blocks_of(result))

    def show_bundle(result: object, **_options: object) -> dict[str, str]:
        blocks = list(blocks_of(result))
        return {"text/plain": as_text(blocks), "text/html": as_html(blocks)}

    for name, method in {"_repr_html_": show_html, "_repr_mimebundle_": show_bundle}.items():
        setattr(kind, name, method)


def as_html(blocks: Iterable[Block]) -> str:
    return f'<div class="{_PLAIN_CLASSES}" style="overflow-x:auto">{"".join(map(_html_of, blocks))}</div>'


def as_text(blocks: Iterable[Block]) -> str:
    """Return blocks as plain text, with matches in «»."""
    return "\n".join(line for block in blocks for line in _lines_of(block))


def _html_of(block: Block) -> str:
    match block:
        case Text():
            text, link = _highlight(block), _link(block.address)
            text = f"<strong>{text}</strong>" if block.strong else text
            if link:
                text = f'<a href="{html.escape(link)}" target="_blank" rel="noopener noreferrer">{text}</a>'
            return f'<p dir="auto" style="margin:.3em 0;white-space:pre-wrap;overflow-wrap:anywhere">{text}</p>'
        case Chain(steps):
            box = f'<span style="{_BOX}"><small>{{}}</small><br>{{}}</span>'
            boxes = " &rarr; ".join(box.format(html.escape(kind), _cell(name)) for kind, name in steps)
            return f'<p style="margin:.4em 0">{boxes}</p>'
        case Numbered(items):
            return _wrap("ol", (_wrap("li", map(_html_of, item)) for item in items))
        case Table(columns, rows):
            head = _wrap("tr", (f'<th scope="col" style="{_CELL}">{_cell(name)}</th>' for name in columns))
            lines = (_wrap("tr", (f'<td style="{_CELL}">{_cell(value)}</td>' for value in row)) for row in rows)
            return _wrap("table", (_wrap("thead", head), _wrap("tbody", lines)))


def _wrap(tag: str, inner: Iterable[str]) -> str:
    return f"<{tag}>{''.join(inner)}</{tag}>"


def _highlight(block: Text) -> str:
    pieces = (
        f'<mark style="{_MARK}">{html.escape(piece)}</mark>' if matched else html.escape(piece)
        for piece, matched in _split_at_matches(_shorten(block.text, LONGEST_PASSAGE), block.matches)
    )
    return "".join(pieces)


def _lines_of(block: Block) -> Iterator[str]:
    match block:
        case Text(text, matches=matches):
            pieces = _split_at_matches(_shorten(text, LONGEST_PASSAGE), matches)
            yield "".join(f"«{piece}»" if matched else piece for piece, matched in pieces)
        case Chain(steps):
            yield " → ".join(f"{kind} {_shorten(name, LONGEST_CELL)}" for kind, name in steps)
        case Numbered(items):
            for number, item in enumerate(items, 1):
                first, *others = as_text(item).splitlines() or [""]
                yield f"{number}. {first}"
                yield from (f"   {line}" for line in others)
        case Table(columns, rows):
            table = [[_shorten(value, LONGEST_CELL).replace("\n", " ") for value in row] for row in (columns, *rows)]
            widths = [max(map(len, column)) for column in zip(*table, strict=True)]
            for row in table:
                yield "  ".join(value.ljust(width) for value, width in zip(row, widths, strict=True)).rstrip()


def _split_at_matches(text: str, matches: Sequence[tuple[int, int]]) -> Iterator[tuple[str, bool]]:
    position = 0
    for start, end in sorted(matches):
        begin, stop = max(start, position), min(end, len(text))
        if begin < stop:
            yield text[position:begin], False
            yield text[begin:stop], True
            position = stop
    yield text[position:], False


def _shorten(text: str, most: int) -> str:
    short = text if len(text) <= most else f"{text[:most]}…"
    return _UNSHOWABLE.sub("\ufffd", short)


def _cell(text: str) -> str:
    return f"<bdi>{html.escape(_shorten(text, LONGEST_CELL))}</bdi>"


def _link(address: str | None) -> str | None:
    try:
        known = address is not None and urlsplit(address).scheme in {"http", "https"}
    except ValueError:
        return None
    return address if known else None


def _catalog_search(answer: SearchDocumentCatalogResponse) -> Iterator[Block]:
    yield Text(_count(len(answer.results), "document"))
    yield Numbered(
        [
            [
                Text(f"{result.document_name}", strong=True, address=result.document_external_url),
                Text(_facts(f"relevance {result.score:.2f}", result.document_external_id, result.snippet.place)),
                Text(result.snippet.text, matches=[(match.start, match.end) for match in result.snippet.matches]),
            ]
            for result in answer.results
        ]
    )


def _collection_search(answer: SearchDocumentCollectionResponse) -> Iterator[Block]:
    chunks = sum(len(result.chunks) for result in answer.results)
    yield Text(f"{_count(chunks, 'passage')} of {_count(len(answer.results), 'document')}")
    yield Numbered(
        [
            [
                Text(result.document_name, strong=True, address=result.document_url),
                *(
                    part
                    for chunk in result.chunks
                    for part in (
                        Text(_facts(f"relevance {chunk.score:.2f}", f"passage {chunk.chunk_index}", chunk.place)),
                        Text(chunk.text),
                    )
                ),
            ]
            for result in answer.results
        ]
    )


def _facts(relevance: str, name: str, place: PassagePlace | None) -> str:
    return " · ".join(part for part in (relevance, name, describe_place(place)) if part)


def _explanation(answer: ExplainAuthorizationResponse) -> Iterator[Block]:
    yield Text("Access" if answer.authorized else "No access", strong=True)
    if answer.missing:
        yield Text(answer.missing)
    yield from (Chain([_step(step) for step in path]) for path in answer.paths)
    if not answer.complete:
        yield Text("There are more paths than these.")


def _step(step: AuthorizationStep) -> tuple[str, str]:
    if step.role is not None:
        return _KINDS[step.type], step.role.value.capitalize()
    names = [name for name in (step.name, step.email) if name]
    return _KINDS[step.type], " · ".join(names) or step.id or ""


def _reply(reply: Reply) -> Iterator[Block]:
    yield Text(reply.text)
    if reply.sources:
        yield Text("Sources", strong=True)
        yield Numbered(
            [
                [
                    Text(source.name, address=source.url),
                    *([Text(place)] if (place := describe_place(source.place)) else []),
                    Text(f"“{source.quote}”"),
                ]
                for source in reply.sources
            ]
        )
    yield from (Text(f"Note: {warning}") for warning in reply.warnings)


def _upload_plan(plan: PlanUploadResponse) -> Iterator[Block]:
    actions = Counter(document.action.value.lower() for document in plan.documents)
    counts = ", ".join(f"{number} {action}" for action, number in actions.items())
    yield Text(f"{_count(len(plan.documents), 'document')}: {counts}" if counts else "No documents", strong=True)
    yield from _table(plan.table_rows())


def _tabular(answer: Tabular) -> Iterator[Block]:
    rows = answer.table_rows()
    more = isinstance(answer, PagedResponse) and answer.next_page_token is not None
    yield Text(_count(len(rows), "row") + (", and more on the next page" if more else ""))
    yield from _table(rows)


def _table(rows: Sequence[BaseModel]) -> Iterator[Block]:
    flat = [_shown_values(row) for row in rows[:MOST_ROWS]]
    if names := list(dict.fromkeys(name for row in flat for name in row)):
        columns = names[:MOST_COLUMNS]
        yield Table(columns, [[row.get(name, "") for name in columns] for row in flat])
    left_out = {"row": len(rows) - len(flat), "column": len(names[MOST_COLUMNS:])}
    if any(left_out.values()):
        counts = " and ".join(_count(number, thing) for thing, number in left_out.items() if number > 0)
        yield Text(f"Not shown: {counts}; to_frame() has all.")


def _shown_values(row: BaseModel) -> dict[str, str]:
    """Return the non-empty members of a row as text, without members hidden from `repr` (secrets)."""
    return {name: _text_of(value) for name, value in flatten_row(row, secrets=False) if value is not None}


def _text_of(value: object) -> str:
    match value:
        case datetime():
            return f"{value:%Y-%m-%d %H:%M %Z}"
        case float():
            return f"{value:.3g}"
        case list():
            return ", ".join(str(item) for item in cast("list[object]", value))
        case _:
            return str(value)


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


def _pager(pager: "Pager[Any, Any]") -> Iterator[Block]:
    try:
        page: PagedResponse | None = next(pager.pages(), None)
    except CarrelError as error:
        yield Text(f"The list can't be displayed: {error}")
        return
    if page is not None:
        yield from _tabular(page)


_BLOCKS: dict[type[Any], Callable[[Any], Iterable[Block]]] = {
    Tabular: _tabular,
    SearchDocumentCatalogResponse: _catalog_search,
    SearchDocumentCollectionResponse: _collection_search,
    ExplainAuthorizationResponse: _explanation,
    PlanUploadResponse: _upload_plan,
    Reply: _reply,
    Pager: _pager,
    AsyncPager: lambda _: [Text("A list: walk it with `async for`, or take `await ….to_frame()`.")],
}
