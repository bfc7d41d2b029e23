"""Messages, headings, tables, links and buttons. Untrusted text is escaped, except in button labels (Markdown)."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlencode

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app.documentation import HELP, anchor_of, read_page
from app.formatting import escape, isolate

# The pages that explain error codes: first solutions, then meanings.
_PAGES_OF_CODES = ("troubleshooting", "errors")


@dataclass(frozen=True, slots=True)
class HelpLink:
    """A table cell with a link to the help for a reason's code, if any; `about` is the document or other subject."""

    code: str
    about: str

    @property
    def body(self) -> str:
        address = help_address_of_code(self.code)
        return link_to_help("What to do", address, about=self.about) if address else ""


def help_address(topic: str) -> str:
    """Return the address of a page of the documentation ("loading"), or of a heading on it ("loading#the-ledger")."""
    return f"{HELP}/{topic}"


def help_address_of_code(code: str) -> str | None:
    """Return the documentation address for the code of an error or a reason; None if missing."""
    found = ((name, read_page(name)) for name in _PAGES_OF_CODES)
    return next((help_address(f"{name}#{code}") for name, page in found if page and code in page.anchors), None)


def topic_of_page(title: str) -> str | None:
    """Return the topic about a page of the workbench; None without a heading for the title in docs/workbench.md."""
    anchor, pages = anchor_of(title), read_page("workbench")
    return f"workbench#{anchor}" if pages and anchor in pages.anchors else None


def help_link(text: str, topic: str, *, about: str = "") -> str:
    """Return HTML of a link to a topic of the documentation; `about` gives readers of the link alone its context."""
    return link_to_help(text, help_address(topic), about=about)


def link_to_help(text: str, address: str, *, about: str = "") -> str:
    """Return HTML of a link to an address of the documentation, in a new tab, so that a form keeps typed values."""
    label = f' aria-label="{escape(f"{text}: {about}")}"' if about else ""
    return f'<a href="{escape(address)}" target="_blank" rel="noopener"{label}>{escape(text)}</a>'


def show_help(text: str, topic: str) -> None:
    st.html(f'<p class="carrel-facts">{help_link(text, topic)}</p>')


def address(page: str, /, **parameters: str) -> str:
    return f"{page}?{urlencode(parameters)}" if parameters else page


@dataclass(frozen=True)
class LinkedText:
    """A text linked to an address of the workbench, such as in the cell of a table."""

    text: str
    address: str

    @property
    def body(self) -> str:
        """The link as HTML, in the same window."""
        return f'<a href="{escape(self.address)}" target="_self">{escape(self.text)}</a>'


def show_link(text: str, page: str, /, **parameters: str) -> None:
    st.html(f'<p class="carrel-text">{LinkedText(text, address(page, **parameters)).body}</p>')


def look_at(parameter: str, item: object) -> None:
    """Put an item into the address and redraw the page to show it. The filters stay there, for the way back."""
    st.query_params[parameter] = str(item)
    st.rerun()


def drop_parameters(*parameters: str) -> None:
    """Remove parameters from the address, to show the list or ask again."""
    for name in parameters:
        st.query_params.pop(name, None)


def offer_way_back(text: str, *parameters: str, also: Callable[[], object] | None = None) -> None:
    """Show a button for going from an item back to the list, by removing parameters from the address."""

    def go() -> None:
        drop_parameters(*parameters)
        if also is not None:
            also()

    offer_action(text, go, key=f"back.{parameters[0]}", icon="arrow_back", kind="tertiary")


def offer_action(
    label: str,
    do: Callable[..., None],
    *args: object,
    key: str | None = None,
    icon: str = "",
    kind: Literal["primary", "secondary", "tertiary"] = "secondary",
    disabled: bool = False,
    hint: str | None = None,
) -> None:
    """Show a button with a Material icon. The label is Markdown: pass untrusted text through `passages.label`."""
    shown = f":material/{icon}:" if icon else None
    st.button(label, key=key, icon=shown, type=kind, disabled=disabled, help=hint, on_click=do, args=args)


def offer_download(label: str, data: bytes | Callable[[], bytes], file_name: str, *, mime: str = "text/csv") -> None:
    """Show a button that downloads a file, without redrawing the page."""
    st.download_button(label, data, file_name=file_name, mime=mime, icon=":material/download:", on_click="ignore")


Cell = str | HelpLink | LinkedText


def show_problem(message: str, *notes: str, help_at: str | None = None) -> None:
    _show("problem", "alert", message, notes, help_at)


def show_warning(message: str, *notes: str) -> None:
    _show("warning", "status", message, notes)


def show_text(text: str) -> None:
    """Show untrusted text escaped, in the page's font."""
    st.html(f'<p class="carrel-text">{escape(text)}</p>')


def show_note(text: str) -> None:
    st.html(f'<p class="carrel-facts">{escape(text)}</p>')


def show_empty(title: str, hint: str = "") -> None:
    """Show a replacement for an empty list: a title, the future content, and advice."""
    more = f"<p>{escape(hint)}</p>" if hint else ""
    st.html(f'<div class="carrel-empty" role="status"><p class="carrel-empty-title">{escape(title)}</p>{more}</div>')


def show_title(title: str, purpose: str, *, action: Callable[[], object] | None = None) -> DeltaGenerator:
    """Show a title, the purpose behind a mark, a documentation link, and `action`; return the place of `show_count`."""
    topic = topic_of_page(title)
    with st.container(horizontal=True, vertical_alignment="center", key="title", gap="small"):
        st.title(title, anchor=False, help=purpose, width="content")
        count = st.empty()
        if topic:
            st.html(f'<p class="carrel-facts">{help_link("Help", topic, about=title)}</p>', width="content")
        if action is not None:
            with st.container(horizontal=True, horizontal_alignment="right", key="title-action"):
                action()
    return count


def show_count(place: DeltaGenerator, count: int, *, more: bool = False) -> None:
    unseen = '<span class="carrel-unseen"> in the list</span>'
    place.html(f'<p class="carrel-count" role="status">{count:,}{"+" if more else ""}{unseen}</p>')


def show_heading(name: str, *facts: str) -> None:
    """Show an untrusted name as a heading, escaped, with a line below."""
    line = " · ".join(isolate(fact) for fact in facts if fact)
    line = f'<p class="carrel-facts">{line}</p>' if facts else ""
    st.html(f'<h2 class="carrel-name">{escape(name)}</h2>{line}')


def show_table(rows: Iterable[Sequence[Cell]], *, heads: Sequence[str] = (), named: bool = False) -> None:
    head = "".join(f"<th scope='col'>{escape(text)}</th>" for text in heads)
    body = "".join(f"<tr>{_cells(row, named=named)}</tr>" for row in rows)
    top = f"<thead><tr>{head}</tr></thead>" if head else ""
    st.html(f'<table class="carrel-table">{top}<tbody>{body}</tbody></table>')


def _show(kind: str, role: str, message: str, notes: Iterable[str], help_at: str | None = None) -> None:
    texts = "".join(f"<p>{escape(text)}</p>" for text in (message, *notes) if text)
    more = f"<p>{link_to_help('What to do', help_at)}</p>" if help_at else ""
    st.html(f'<div class="carrel-notice carrel-{kind}" role="{role}">{texts}{more}</div>')


def _cells(row: Sequence[Cell], *, named: bool) -> str:
    bodies = [escape(item) if isinstance(item, str) else item.body for item in row]
    head = f"<th scope='row'>{bodies.pop(0)}</th>" if named else ""
    return head + "".join(f"<td>{body}</td>" for body in bodies)
