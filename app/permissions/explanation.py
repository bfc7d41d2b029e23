"""Explaining why a principal may read a resource, or what it lacks, as a small graph and in words."""

import html

import streamlit as st

from app import api
from app.formatting import one_line
from app.lookup import Principal, Resource
from app.permissions.paths import draw_paths, in_words, names_in
from app.ui.errors import show_errors
from app.ui.notices import show_text, show_warning
from carrel.wire.permissions import ExplainAuthorizationResponse

_IN_WORDS = 10


def show_why(resource: Resource, principal: Principal) -> bool:
    """Show why a principal may read a resource, or what it lacks; return whether it may."""
    found = show_errors(lambda: explanation(resource, principal))
    name, who = one_line(resource.name), one_line(principal.name)
    if not found.authorized:
        show_warning(f"{who} may not read “{name}”.", found.missing or "")
        return False
    show_text(f"{who} may read “{name}”" + (" in several ways:" if len(found.paths) > 1 else ":"))
    names = names_in(found.paths)
    words = [in_words(path, names) for path in found.paths]
    st.graphviz_chart(draw_paths(found.paths, names), width="content", alt=" ".join(words[:_IN_WORDS]))
    _show_words(words[:_IN_WORDS])
    if len(words) > _IN_WORDS:
        with st.expander(f"{len(words) - _IN_WORDS} more ways in words"):
            _show_words(words[_IN_WORDS:])
    if not found.complete:
        show_warning("There are more ways than these: the shortest are shown.")
    return True


def explanation(resource: Resource, principal: Principal) -> ExplainAuthorizationResponse:
    """Return the service's explanation of a principal's access to a resource."""
    return api.client().permissions.explain_authorization(resource.reference, principal.reference)


def _show_words(words: list[str]) -> None:
    rows = "".join(f"<li>{html.escape(sentence)}</li>" for sentence in words)
    st.html(f'<ol class="carrel-ways">{rows}</ol>')
