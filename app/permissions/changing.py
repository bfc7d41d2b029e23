"""Grants on a resource, a dialog for changes, and the reasons for a principal's access."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise

import streamlit as st

from app import api
from app.formatting import escape, one_line
from app.labels import GRANTED, GROUP, PERSON, ROLE_MEANINGS, ROLES
from app.lookup import Principal, Resource, disambiguate
from app.people.directory import clear_caches, gains_in_words, person_at
from app.ui.dialogs import confirm, dialog, is_open, naming, offer_submit, open_dialog
from app.ui.errors import show_errors
from app.ui.notices import offer_action, show_link, show_note, show_table, show_text, show_warning
from app.ui.passages import label
from app.ui.pickers import drop_choice, pick_principals
from app.ui.tables import forget
from carrel import Carrel
from carrel.wire.admin import Grant
from carrel.wire.common import GrantRole, ResourceType, Role
from carrel.wire.permissions import AuthorizationStep, ExplainAuthorizationResponse, StepType
from flows.operations.formatting import count_text

Path = Sequence[AuthorizationStep]

_LABEL_LENGTH = 34
# Light boxes with dark writing stand out on a light page and on a dark one; lines are seen on both.
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
    StepType.ORGANIZATION: "everybody in the organization",
}
_GRAPH = (
    'rankdir="LR"; bgcolor="transparent"; nodesep="0.25"; ranksep="0.45"; '
    'node [shape="box", style="filled,rounded", color="#8a8f98", fontcolor="#1c1917", fontname="sans-serif", '
    'fontsize="12", margin="0.15,0.08"]; '
    'edge [color="#8a8f98", fontcolor="#8a8f98", fontname="sans-serif", fontsize="11", arrowsize="0.7"];'
)


Names = Mapping[tuple[str, str], str]


def names_in(paths: Iterable[Path]) -> Names:
    """Return a name for each stop of the paths, with facts that tell apart equal names of a kind."""
    stops = {_identity(step): step for path in paths for step in path if step.type is not StepType.GRANT}
    names = {identity: one_line(step.name or step.email or step.id or "") for identity, step in stops.items()}
    shared = Counter((identity[0], name) for identity, name in names.items())
    facts = {identity: one_line(step.email or f"…{(step.id or '')[-6:]}") for identity, step in stops.items()}
    return {
        identity: name if shared[identity[0], name] == 1 else f"{name} ({facts[identity]})"
        for identity, name in names.items()
    }


def draw_paths(paths: Iterable[Path], names: Names) -> str:
    """Return the paths as a single graph in DOT, with shared stops drawn once."""
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
        f"{member} is one of everybody in {group}" if step.type is StepType.ORGANIZATION else f"{member} is in {group}"
        for member, group, step in zip(called, called[1:], stops[1:], strict=False)
    ]
    who = "everybody there" if stops[-1].type is StepType.ORGANIZATION else called[-1]
    held = f"{who} is {_role_of(path).lower()} of “{names[_identity(path[-1])]}”"
    return f"{', '.join([*inside, held])}."


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
    """Escape text for a quoted DOT string, where backslashes and entities are special."""
    return text.replace("&", "&amp;").replace("\\", "&#92;").replace('"', "&quot;").replace("<", "&lt;")


_IN_WORDS = 10


def show_why(resource: Resource, principal: Principal) -> bool:
    """Show the reason why a principal may read a resource, or the missing permission. Return whether reading is
    allowed."""
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
    return api.client().permissions.explain_authorization(resource.reference, principal.reference)


def _show_words(words: list[str]) -> None:
    rows = "".join(f"<li>{escape(sentence)}</li>" for sentence in words)
    st.html(f'<ol class="carrel-ways">{rows}</ol>')


@dataclass(frozen=True)
class Grants:
    """The grants on a resource: roles by key of the principal, and whether everyone in the organization may read."""

    roles: Mapping[str, GrantRole]
    everybody: bool
    who: Mapping[str, Principal] = field(compare=False)
    version: str | None = field(default=None, compare=False)

    def with_changes(
        self, *, added: Iterable[Principal], role: GrantRole, removed: Iterable[str], everybody: bool
    ) -> "Grants":
        """Return the grants with `role` for the added principals, without the removed, and open to everyone or not."""
        new = {one.key: one for one in added}
        gone = frozenset(removed)
        roles = {key: had for key, had in self.roles.items() if key not in gone} | dict.fromkeys(new, role)
        return Grants(roles, everybody, {**self.who, **new}, self.version)


def grants_on(client: Carrel, resource: Resource) -> Grants:
    """Read all grants on a resource. Ownership is not a grant."""
    pages = list(client.admin.grants.list(resource.reference, page_size=1000).pages())
    held = [(Principal.of(grant.principal), grant.role) for page in pages for grant in page.grants]
    roles, who = {one.key: role for one, role in held}, {one.key: one for one, _ in held}
    return Grants(roles, pages[-1].organization_wide, who, pages[0].version)


def _changes_in_words(before: Grants, after: Grants) -> list[str]:
    named = {**before.who, **after.who}
    said = [
        f"{one_line(named[key].name)} ({named[key].facts}) {_change(had, has)}"
        for key in sorted(before.roles.keys() | after.roles.keys(), key=lambda key: named[key].name.lower())
        if (had := before.roles.get(key)) != (has := after.roles.get(key))
    ]
    if after.everybody and not before.everybody:
        said.insert(0, "Everybody in the organization may read it, people who come later too.")
    if before.everybody and not after.everybody:
        said.insert(0, "It is not open to everybody in the organization any more.")
    return said


def _change(had: GrantRole | None, has: GrantRole | None) -> str:
    if has is None:
        return f"is not {_role(had)} any more."
    return f"becomes {_role(has)}." if had is None else f"becomes {_role(has)} instead of {_role(had)}."


def _role(role: GrantRole | None) -> str:
    return "" if role is None else GRANTED[role].lower()


READERS, CHANGE, ADDED, REMOVED = "readers", "change", "grants.added", "grants.removed"
OFFERED_GROUPS, SHOWN_HOLDERS = 5, 20


def offer_change(resource: Resource, grants: Grants | None = None) -> None:
    """Show the button for the dialog that changes access to a resource; pass `grants` if already read."""
    offer_action("Manage access", _open_change, resource, key="grants.change", icon="edit")
    if is_open(CHANGE, resource.key):
        change(resource, grants or show_errors(partial(grants_on, api.client(), resource)))


def _open_change(resource: Resource) -> None:
    drop_choice(ADDED)
    st.session_state.pop(REMOVED, None)
    open_dialog(CHANGE, resource.key)


@dialog("Manage access", CHANGE, width="large")
def change(resource: Resource, before: Grants, given: Sequence[Principal] = ()) -> None:
    """Show the dialog that changes grants, with `given` preselected and a preview of the effect; save the changes."""
    show_text(resource.name)
    added = pick_principals(ADDED, label="Add people or groups", chosen=given)
    role = st.segmented_control(
        "Role of those who are added",
        list(GRANTED),
        default=GrantRole.VIEWER,
        format_func=lambda one: GRANTED[one],
        required=True,
        key="as",
    )
    st.caption("A viewer " + ROLE_MEANINGS[Role.VIEWER] + ", an editor " + ROLE_MEANINGS[Role.EDITOR] + ".")
    removed = choose_removed(before)
    everybody = st.checkbox("Everybody in the organization may read it", value=before.everybody, key="everybody")
    after = before.with_changes(added=added, role=role, removed=removed, everybody=everybody)
    said = _changes_in_words(before, after)
    _show_changes(resource, said)
    # What was said is what is done, whatever the fields hold by then.
    offer_submit(CHANGE, "Save", action=partial(save, resource, before, after), disabled=not said)


def choose_removed(before: Grants) -> list[str]:
    """List principals with direct access and role, with a button for removal. Return the removed."""
    holders = sorted(disambiguate(before.who.values()).items(), key=lambda pair: pair[1][0].lower())
    st.html('<p class="carrel-facts">Who has direct access now</p>')
    if len(holders) > SHOWN_HOLDERS:
        asked = st.text_input("Find among them", key="grants.find", placeholder="A part of the name").strip().lower()
        holders = [one for one in holders if asked in one[1][0].lower()]
    removed: list[str] = [key for key in st.session_state.get(REMOVED, ()) if key in before.roles]
    for key, (name, _) in holders[:SHOWN_HOLDERS]:
        is_removed = key in removed
        with st.container(horizontal=True, vertical_alignment="center", key=f"holder.{key}"):
            show_text(f"{name} · {'access is taken away' if is_removed else GRANTED[before.roles[key]]}")
            offer_action("Keep" if is_removed else "Remove", _toggle, key, key=f"remove.{key}", kind="tertiary")
    if len(holders) > SHOWN_HOLDERS:
        show_note(f"And {count_text(len(holders) - SHOWN_HOLDERS, 'other')}: type a part of the name to find one.")
    if not before.who:
        show_text("Nobody but its owner.")
    return removed


def _toggle(key: str) -> None:
    removed: list[str] = st.session_state.get(REMOVED, [])
    st.session_state[REMOVED] = [one for one in removed if one != key] if key in removed else [*removed, key]


def _show_changes(resource: Resource, said: Sequence[str]) -> None:
    if not said:
        show_text("Nothing will change.")
        return
    show_table([(sentence,) for sentence in said], heads=("What will change, from the next request on",))
    if resource.kind == "document" and resource.type is not ResourceType.UPLOADED_DOCUMENT:
        show_warning("The next load from its source may set its readers again.")


def save(resource: Resource, before: Grants, after: Grants) -> None:
    """Save the changes. Raises ChangedMeanwhileError if the grants have changed since `before`."""
    wanted = [Grant(principal=after.who[key].reference, role=role) for key, role in after.roles.items()]
    with naming(*after.who.values()):
        set_grants = api.client().admin.grants.set
        set_grants(resource.reference, wanted, organization_wide=after.everybody, version=before.version)
    forget(READERS)


def offer_access(resource: Resource, who: Principal) -> None:
    """List groups with access, and offer to add `who` to a group or to grant the resource directly."""
    if who.kind == PERSON:
        found = show_errors(partial(person_at, who.id))
        if found is None or not found.active:
            show_link("Open person", "people", person=str(found.id) if found else "")
            return
    grants = show_errors(partial(grants_on, api.client(), resource))
    others = [one for one in grants.who.values() if one.kind == GROUP and one.key != who.key]
    groups = sorted(others, key=lambda one: one.name)
    show_text(groups_in_words(groups, who))
    with st.container(horizontal=True):
        offer_action("Give access", _open_change, resource, key="give", kind="primary")
        for group in groups[:OFFERED_GROUPS]:
            if st.button(f"Add to {label(one_line(group.name))}", key=f"join.{group.id}"):
                _ask_joining(group, who)
    if is_open(CHANGE, resource.key):
        change(resource, grants, given=[who])


def groups_in_words(groups: Sequence[Principal], who: Principal) -> str:
    """Return a sentence that lists groups with a grant on a resource, for a principal without access."""
    name = one_line(who.name)
    if not groups:
        return "It is granted to no group."
    if len(groups) == 1:
        return f"{one_line(groups[0].name)} is the only group with access; {name} isn't in it."
    named = ", ".join(one_line(one.name) for one in groups[:OFFERED_GROUPS])
    more = f" and {len(groups) - OFFERED_GROUPS:,} more" if len(groups) > OFFERED_GROUPS else ""
    return f"Groups with access: {named}{more}. {name} is in none of them."


def _ask_joining(group: Principal, who: Principal) -> None:
    more = show_errors(partial(gains_in_words, group, who))
    said = f"{one_line(who.name)} joins {one_line(group.name)}, and can read {more} more from the next request on."
    confirm("Add to the group?", said, doing="Add", action=partial(join, group, who))


def join(group: Principal, who: Principal) -> None:
    with naming(group, who):
        api.client().admin.groups.add_members(group.id, [who.reference])
    clear_caches()
    forget(READERS)
