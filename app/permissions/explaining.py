"""Why a principal may read a resource or not: every path by groups and grants, as a graph and in words."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import streamlit as st

from app import api
from app.formatting import escape, one_line
from app.labels import ROLES
from app.lookup import Principal, Resource
from app.ui.errors import show_errors
from app.ui.notices import show_text, show_warning
from carrel.wire.permissions import AuthorizationStep, ExplainAuthorizationResponse, StepType

Path = Sequence[AuthorizationStep]

_LABEL_LENGTH = 34
# Light boxes with dark text are readable in both themes, and so are the lines.
_COLORS = {
    StepType.USER: "#cfe8ec",
    StepType.SERVICE_ACCOUNT: "#e4dcf5",
    StepType.GROUP: "#fbe7c2",
    StepType.ORGANIZATION: "#fbe7c2",
    StepType.RESOURCE: "#d9ead3",
}
_KINDS = {
    StepType.USER: "person",
    StepType.SERVICE_ACCOUNT: "service account",
    StepType.GROUP: "group",
    StepType.ORGANIZATION: "everyone in the organization",
}
_GRAPH = (
    'rankdir="LR"; bgcolor="transparent"; nodesep="0.25"; ranksep="0.45"; '
    'node [shape="box", style="filled,rounded", color="#8a8f98", fontcolor="#1c1917", fontname="sans-serif", '
    'fontsize="12", margin="0.15,0.08"]; '
    'edge [color="#8a8f98", fontcolor="#8a8f98", fontname="sans-serif", fontsize="11", arrowsize="0.7"];'
)

Names = Mapping[tuple[str, str], str]


def names_in(paths: Iterable[Path]) -> Names:
    """Return a name for each stop of the paths, with facts that distinguish equal names of a kind."""
    stops = {_identity(step): step for path in paths for step in path if step.type is not StepType.GRANT}
    names = {identity: one_line(step.name or step.email or step.id or "") for identity, step in stops.items()}
    shared = Counter((identity[0], name) for identity, name in names.items())
    facts = {identity: one_line(step.email or f"…{(step.id or '')[-6:]}") for identity, step in stops.items()}
    return {
        identity: name if shared[identity[0], name] == 1 else f"{name} ({facts[identity]})"
        for identity, name in names.items()
    }


def draw_paths(paths: Iterable[Path], names: Names) -> str:
    """Return the paths as one graph in DOT, with each shared stop once."""
    nodes: dict[tuple[str, str], str] = {}
    lines: dict[str, None] = {}
    for path in paths:
        stops = [step for step in path if step.type is not StepType.GRANT]
        for step in stops:
            _add_node(nodes, lines, step, names=names)
        places = [nodes[_identity(step)] for step in stops]
        for number, (start, end) in enumerate(pairwise(places)):
            label = f' [label=" {_quote(_role_of(path))} "]' if number == len(places) - 2 else ""
            lines.setdefault(f"{start} -> {end}{label};")
    return f"digraph {{ {_GRAPH} {' '.join(lines)} }}"


def in_words(path: Path, names: Names) -> str:
    """Return a path as a sentence: Ada is in Crew, Crew is in Ship, Ship is viewer of Log."""
    stops = [step for step in path if step.type in _KINDS]
    called = [names[_identity(step)] for step in stops]
    inside = [
        f"{member} belongs to {group}" if step.type is StepType.ORGANIZATION else f"{member} is in {group}"
        for member, group, step in zip(called, called[1:], stops[1:], strict=False)
    ]
    reader = "everyone there" if stops[-1].type is StepType.ORGANIZATION else called[-1]
    held = f"{reader} is {_role_of(path).lower()} of “{names[_identity(path[-1])]}”"
    return f"{', '.join([*inside, held])}."


def key_of_holder(path: Path) -> str:
    """Return the page key of the principal with the role; `organization:…` means the whole organization."""
    holder = path[-3]
    return f"{holder.type}:{holder.email if holder.type is StepType.USER else holder.id}"


def groups_in(path: Path) -> str:
    """Return the groups of a path, the innermost first: Crew > Ship."""
    return " > ".join(one_line(step.name or step.id or "") for step in path[1:-2])


def _role_of(path: Path) -> str:
    return next((ROLES[step.role] for step in path if step.type is StepType.GRANT and step.role is not None), "")


def _add_node(
    nodes: dict[tuple[str, str], str], lines: dict[str, None], step: AuthorizationStep, *, names: Names
) -> None:
    identity = _identity(step)
    if identity in nodes:
        return
    nodes[identity] = f"n{len(nodes)}"
    name = names[identity]
    short = name if len(name) <= _LABEL_LENGTH else f"{name[: _LABEL_LENGTH - 1]}…"
    label = "\\n".join(_quote(part) for part in (short, _KINDS.get(step.type, "")) if part)
    lines[f'{nodes[identity]} [label="{label}", tooltip="{_quote(name)}", fillcolor="{_COLORS[step.type]}"];'] = None


def _identity(step: AuthorizationStep) -> tuple[str, str]:
    return step.type.value, step.id or ""


def _quote(text: str) -> str:
    """Escape backslashes and entities in a text for a quoted string of DOT."""
    return text.replace("&", "&amp;").replace("\\", "&#92;").replace('"', "&quot;").replace("<", "&lt;")


_IN_WORDS = 10


def show_why(resource: Resource, principal: Principal) -> bool:
    """Show the reasons for a principal's access, or the missing part; return whether the principal may read."""
    found = show_errors(lambda: explanation(resource, principal))
    name, reader = one_line(resource.name), one_line(principal.name)
    if not found.authorized:
        show_warning(f"{reader} cannot read “{name}”.", found.missing or "")
        return False
    show_text(f"{reader} can read “{name}”" + (" in several ways:" if len(found.paths) > 1 else ":"))
    names = names_in(found.paths)
    words = [in_words(path, names) for path in found.paths]
    st.graphviz_chart(draw_paths(found.paths, names), width="content", alt=" ".join(words[:_IN_WORDS]))
    _show_words(words[:_IN_WORDS])
    if len(words) > _IN_WORDS:
        with st.expander(f"{len(words) - _IN_WORDS} more ways in words"):
            _show_words(words[_IN_WORDS:])
    if not found.complete:
        show_warning("There are more ways. The shortest are shown.")
    return True


def explanation(resource: Resource, principal: Principal) -> ExplainAuthorizationResponse:
    return api.client().permissions.explain_authorization(resource.reference, principal.reference)


def _show_words(words: list[str]) -> None:
    rows = "".join(f"<li>{escape(sentence)}</li>" for sentence in words)
    st.html(f'<ol class="carrel-ways">{rows}</ol>')
