"""Tables of lists that the service gives in pages. A single page is fetched, shown and kept, never the whole list."""

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Generic, Literal, TypedDict, TypeVar, cast

import streamlit as st
from streamlit.components import v2
from streamlit.components.v2.get_bidi_component_manager import get_bidi_component_manager
from streamlit.components.v2.manifest_scanner import ComponentConfig, ComponentManifest
from streamlit.delta_generator import DeltaGenerator

from app.formatting import ago, moment
from app.ui.errors import show_errors
from app.ui.notices import Cell as TextCell
from app.ui.notices import offer_action, show_count, show_table
from carrel import Pager
from carrel.wire.common import PagedResponse, ResponseModel
from flows.operations.formatting import capitalize

# Modules in `assets` for parts of pages that Streamlit lacks. Streamlit serves component files of installed packages;
# the workbench runs from its folder, so it declares its own. The Content-Security-Policy refuses inline scripts.
_NAMES = ("rows", "preview", "palette", "source")
_PARTS = ComponentManifest("carrel", "1", [ComponentConfig(name, asset_dir="assets") for name in _NAMES])


def _rows_chosen(state: Any) -> list[int]:
    held = cast("Mapping[str, Mapping[str, list[int]] | None]", state or {})
    return list((held.get("selection") or {}).get("rows") or [])


def draw_component(name: str, **options: Any) -> Any:
    manager, component = get_bidi_component_manager(), f"carrel.{name}"
    if manager.get_component_asset_root(component) is None:
        manager.register_from_manifest(_PARTS, Path(__file__).parent)
    return v2.component(component, js=f"{name}.js", isolate_styles=False)(**options)


Item = TypeVar("Item")
Row = TypeVar("Row", bound=ResponseModel)
Answer = TypeVar("Answer", bound=PagedResponse)

PAGE_ROWS = 50
DOCUMENT = "document"
"""A row's entry for the preview (`app.ui.preview`), which is no column."""
_FRESH_SECONDS = 10.0

Edits = Mapping[int, Mapping[str, str]]
"""Texts of changed cells, by row and head."""
Mode = Literal["open", "one", "many"]
"""The effect of choosing a row: open, mark alone, or mark several."""


@dataclass(frozen=True, slots=True)
class Cell:
    text: str
    more: str


def time_cell(at: datetime | None) -> Cell:
    return Cell(capitalize(ago(at)), moment(at))


class PageAsked(TypedDict):
    """The page to request from a list operation of the service."""

    page_size: int
    page_token: str | None


ALL_ROWS: PageAsked = {"page_size": 1000, "page_token": None}
"""The first page, as large as possible, for walking a whole list."""


@dataclass(frozen=True, slots=True)
class ItemsPage(Generic[Item]):
    items: Sequence[Item]
    next_page_token: str | None = None


@dataclass(frozen=True, slots=True)
class Source(Generic[Item]):
    """A list in pages. `fetch` returns the page of a token (None: the first); a changed `about` restarts the list."""

    fetch: Callable[[str | None], ItemsPage[Item]]
    about: Hashable = None


def pages_of(
    ask: Callable[[PageAsked], Pager[Row, Answer]], *, about: Hashable = None, size: int = PAGE_ROWS
) -> Source[Row]:
    """Return a list that asks the service for each page: `lambda at: client.admin.groups.list(**at)`."""

    def fetch(token: str | None) -> ItemsPage[Row]:
        return page_from(next(ask({"page_size": size, "page_token": token}).pages()))

    return Source(fetch, about)


def page_from(answer: PagedResponse) -> ItemsPage[Any]:
    return ItemsPage(getattr(answer, answer.rows_in), answer.next_page_token)


def source_of(items: Sequence[Item], *, about: Hashable) -> Source[Item]:
    """Return a list in memory as pages; `about` changes with the items."""

    def fetch(token: str | None) -> ItemsPage[Item]:
        start = int(token or 0)
        end = start + PAGE_ROWS
        return ItemsPage(items[start:end], str(end) if end < len(items) else None)

    return Source(fetch, about)


@dataclass
class _Cursor:
    """A person's position in a list: the tokens of the pages up to this page, and the page, while it is fresh. `chosen`
    are the rows chosen when the whole page was drawn; a change, counted by `changes`, clears the choice."""

    about: Hashable
    tokens: list[str | None] = field(default_factory=lambda: [None])
    page: ItemsPage[Any] | None = None
    fetched_at: float = 0.0
    chosen: list[int] = field(default_factory=list[int])
    changes: int = 0


def forget(key: str, *, unchoose: bool = False) -> None:
    """Make a table, if drawn before, fetch its page again; `unchoose` also clears the choice."""
    place: _Cursor | None = st.session_state.get(_place_key(key))
    if place is not None:
        place.page = None
        place.changes += unchoose


def show_pages(
    key: str,
    source: Source[Item],
    *,
    row: Callable[[Item], Mapping[str, Any]],
    empty: Callable[[], None],
    columns: Mapping[str, Any] | None = None,
    go: Callable[[Item], object] | None = None,
    hint: str = "",
    count_at: DeltaGenerator | None = None,
) -> Item | None:
    """Show a list's current page, with buttons for others; return the chosen row, unless `go` opens it. `columns`
    accepts None (hidden), "large", "small", `help` and `alignment` of Streamlit's column_config. `empty` replaces an
    empty list, `hint` follows the rows; `count_at` is show_title's result."""
    mode: Mode = "one" if go is None else "open"
    chosen = choose_rows(
        key, source, row=row, empty=empty, columns=columns, mode=mode, go=go, hint=hint, count_at=count_at
    )
    return chosen[0] if chosen else None


def choose_rows(
    key: str,
    source: Source[Item],
    *,
    row: Callable[[Item], Mapping[str, Any]],
    empty: Callable[[], None],
    columns: Mapping[str, Any] | None = None,
    mode: Mode = "many",
    go: Callable[[Item], object] | None = None,
    hint: str = "",
    count_at: DeltaGenerator | None = None,
) -> list[Item]:
    """Show the current page of a list like `show_pages`; return the chosen rows of this page."""
    place = _cursor_of(key, source.about)
    place.chosen = _rows_chosen(st.session_state.get(_table_key(key, place)))
    page = _current_page(place, source)
    if count_at is not None:
        before, more = PAGE_ROWS * (len(place.tokens) - 1), page.next_page_token is not None
        show_count(count_at, before + len(page.items), more=more)
    if not page.items and len(place.tokens) == 1:
        empty()
        return []
    _draw(key, place, source, row=row, columns=columns, mode=mode, go=go)
    if hint:
        st.caption(hint)
    items = _current_page(place, source).items
    return [items[number] for number in place.chosen if number < len(items)]


@st.fragment
def _draw(
    key: str,
    place: _Cursor,
    source: Source[Item],
    *,
    row: Callable[[Item], Mapping[str, Any]],
    columns: Mapping[str, Any] | None,
    mode: Mode,
    go: Callable[[Item], object] | None,
) -> None:
    """Draw the rows. Changing the page redraws only the table; choosing redraws the whole page."""
    table = _table_key(key, place)
    chosen = _rows_chosen(st.session_state.get(table))
    if chosen != place.chosen:
        place.fetched_at = time.monotonic()  # keep the page with the chosen row
    page = _current_page(place, source)
    items = page.items
    if go is not None and chosen and chosen[0] < len(items):
        go(items[chosen[0]])
    if chosen != place.chosen:
        st.rerun()
    data = _table_data([row(item) for item in items], columns or {}) | {"mode": mode, "chosen": chosen}
    # The callback declares the state, which is read here and when rows are drawn again.
    state = draw_component("rows", key=table, data=dict(data), on_selection_change=lambda: None)
    place.chosen = _rows_chosen(state)
    _offer_pages(key, place, page)


def shown_items(key: str) -> Sequence[Any]:
    """Return the items of a list's current page; none before it is drawn."""
    place: _Cursor | None = st.session_state.get(_place_key(key))
    return place.page.items if place is not None and place.page is not None else ()


def edit_rows(
    key: str, heads: Sequence[str], rows: Sequence[Sequence[str]], options: Mapping[str, Sequence[str]], kept: Edits
) -> Edits:
    """Show rows with a field for each cell after the first, some with `options`. Return the rows with changed cells;
    `kept` are the changes of an earlier drawing, which a browser that shows the rows again no longer has."""
    columns = [
        _column_data(name, {}, wide=not at, numbers=False) | {"options": options.get(name) if at else None}
        for at, name in enumerate(heads)
    ]
    shown = {row: {heads.index(name, 1): text for name, text in cells.items()} for row, cells in kept.items()}
    data = {"columns": columns, "rows": rows, "mode": "edit", "chosen": [], "edits": shown}
    held = cast("Mapping[str, Any]", draw_component("rows", key=key, data=data, on_edits_change=lambda: None) or {})
    if (edits := cast("Mapping[str, Mapping[str, str]] | None", held.get("edits"))) is None:
        return kept
    return {int(row): {heads[int(at)]: text.strip() for at, text in cells.items()} for row, cells in edits.items()}


def _table_data(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, Any]) -> dict[str, Any]:
    names = [name for name in (rows[0] if rows else ()) if columns.get(name, ...) is not None and name != DOCUMENT]
    configs: dict[str, Mapping[str, Any]] = {name: columns.get(name) or {} for name in names}
    wide = [name for name in names if configs[name].get("width") == "large"] or names[:1]
    return {
        "columns": [
            _column_data(name, configs[name], wide=name in wide, numbers=type(rows[0][name]) in {int, float})
            for name in names
        ],
        "rows": [[_cell_value(row[name]) for name in names] for row in rows],
        "documents": [str(row.get(DOCUMENT, "")) for row in rows],
    }


def _column_data(name: str, config: Mapping[str, Any], *, wide: bool, numbers: bool) -> dict[str, Any]:
    width = "wide" if wide else "small" if config.get("width") == "small" else ""
    end = numbers or config.get("alignment") == "right"
    return {"name": name, "help": config.get("help") or "", "width": width, "end": end}


def _cell_value(value: object) -> object:
    match value:
        case Cell(text, more):
            return {"text": text, "more": more}
        case bool():
            return "Yes" if value else ""
        case int() | float() | None:
            return value
        case _:
            return str(value)


def _table_key(key: str, place: _Cursor) -> str:
    """Return the key of a page's table, different for each page, so that no selection moves to another page."""
    return f"{key}.rows.{hash((place.about, place.tokens[-1], place.changes))}"


def show_each(key: str, source: Source[Item], *, each: Callable[[Item], object], empty: Callable[[], None]) -> None:
    """Show the current page of a list like `show_pages`, but draw each item with `each`."""
    place = _cursor_of(key, source.about)
    page = _current_page(place, source)
    if not page.items and len(place.tokens) == 1:
        empty()
        return
    for item in page.items:
        each(item)
    _offer_pages(key, place, page)


def show_text_pages(
    key: str, source: Source[Item], *, heads: Sequence[str], row: Callable[[Item], Sequence[TextCell]]
) -> Sequence[Item]:
    """Show a page of a list as a table of plain text, and return its items: long cells wrap, rows can't be chosen."""
    place = _cursor_of(key, source.about)
    page = _current_page(place, source)
    if page.items:
        show_table(map(row, page.items), heads=heads)
    _offer_pages(key, place, page)
    return page.items


def _place_key(key: str) -> str:
    return f"{key}.place"


def _cursor_of(key: str, about: Hashable) -> _Cursor:
    place: _Cursor | None = st.session_state.get(_place_key(key))
    if place is None or place.about != about:
        place = _Cursor(about)
        st.session_state[_place_key(key)] = place
    return place


def _current_page(place: _Cursor, source: Source[Item]) -> ItemsPage[Item]:
    """Return the page, fetched again after ten seconds unless rows are chosen: row numbers would change meaning."""
    is_old = not place.chosen and time.monotonic() - place.fetched_at > _FRESH_SECONDS
    if place.page is None or is_old:
        place.page = show_errors(lambda: source.fetch(place.tokens[-1]))
        place.fetched_at = time.monotonic()
    return place.page


def _offer_pages(key: str, place: _Cursor, page: ItemsPage[Any]) -> None:
    number, more = len(place.tokens), page.next_page_token
    if number == 1 and more is None:
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        offer_action("Previous", _go_back, place, key=f"{key}.back", disabled=number == 1)
        offer_action("Next", _show_next, place, more, key=f"{key}.on", disabled=more is None)
        st.caption(f"Page {number}, with {len(page.items)} rows")


def _go_back(place: _Cursor) -> None:
    if len(place.tokens) > 1:
        place.tokens.pop()
    place.page = None


def _show_next(place: _Cursor, token: str | None) -> None:
    # A second click before the next page is drawn leads no further than the first.
    if token is not None and token not in place.tokens:
        place.tokens.append(token)
        place.page = None
