"""Agents' replies as HTML: Markdown without HTML, links and images, with their sources.

A reply is written by a model that has read texts of others. Nothing in it links or loads anything: addresses are shown
as text, and the only links are the numbers of sources, which lead to the sources, and from there to documents.
"""

import html
import re
from collections.abc import Sequence
from typing import Any, cast
from uuid import UUID

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token

from app.ui.passages import PassageLocation, link_html, mark_of_quote, paragraph, place_html
from carrel.wire.replies import ReferencedSource

_NUMBER = re.compile(r"\[(\d{1,4})\]")


def reply_html(text: str, sources: Sequence[ReferencedSource], *, message_id: UUID, chat: str = "") -> str:
    """Return a reply as HTML with its sources; `[1]` in the text links to the first of them.

    `chat` is the query string of its conversation, which its documents lead back to.
    """
    body = _MARKDOWN.render(text, {"sources": sources, "message": message_id})
    said = f'<div class="carrel-reply">{body}</div>'
    if not sources:
        return f'<div class="carrel-said">{said}</div>'
    listed = "".join(_source(number, source, message_id, chat) for number, source in enumerate(sources, 1))
    # Folded on a phone; where there is room beside the reply, the style keeps all in sight.
    shown = f'<details class="carrel-sources"><summary>Sources ({len(sources)})</summary><ol>{listed}</ol></details>'
    return f'<div class="carrel-said"><div class="carrel-wide">{said}{shown}</div></div>'


def growing_html(text: str) -> str:
    """Return an unfinished reply as HTML, at first its outline; its sources come with its end."""
    if not text:
        return '<div class="carrel-skeleton" aria-hidden="true"><span></span><span></span><span></span></div>'
    return (
        f'<div class="carrel-said"><div class="carrel-reply" aria-busy="true">{_MARKDOWN.render(text, {})}</div></div>'
    )


def message_html(text: str, *, note: str = "") -> str:
    """Return a person's message as HTML, with a note under the text."""
    under = f'<p class="carrel-facts">{html.escape(note)}</p>' if note else ""
    return f'<div class="carrel-message">{paragraph(html.escape(text))}{under}</div>'


def _source(number: int, source: ReferencedSource, message_id: UUID, chat: str) -> str:
    chunk = source.chunk_index, source.document_collection_id
    mark = mark_of_quote(source.quote)
    passage = PassageLocation(source.id, source.place, *chunk, source.document_version, mark, chat=chat)
    where = html.escape(passage.address)
    away = f" · {link_html('Original', source.url)}" if link_html("", source.url) else ""
    return (
        f'<li id="{_anchor(message_id, number)}"><span class="carrel-number">{number}</span>'
        f"<div><strong>{html.escape(source.name)}</strong>{place_html(source.place)}<blockquote>{html.escape(source.quote)}</blockquote>"
        f'<a href="{where}" target="_blank" rel="noopener">Open document</a>{away}</div></li>'
    )


def _anchor(message_id: object, number: int) -> str:
    return f"source-{message_id}-{number}"


def _text(_renderer: RendererHTML, tokens: Sequence[Token], index: int, _options: object, env: dict[str, Any]) -> str:
    """Render text, with the numbers of sources as chips that lead to them."""
    sources = cast("Sequence[ReferencedSource]", env.get("sources", ()))

    def chip(match: re.Match[str]) -> str:
        number = int(match[1])
        if not 1 <= number <= len(sources):
            return match[0]
        return (
            f'<a class="carrel-chip" href="#{_anchor(env["message"], number)}" '
            f'title="{html.escape(sources[number - 1].name)}">{number}</a>'
        )

    return _NUMBER.sub(chip, html.escape(tokens[index].content))


def _markdown() -> MarkdownIt:
    made = MarkdownIt("commonmark", {"html": False, "linkify": False}).enable("table")
    made.disable(["link", "image", "autolink", "reference", "html_block", "html_inline"])
    made.add_render_rule("text", _text)
    return made


_MARKDOWN = _markdown()
