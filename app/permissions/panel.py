"""The access panel of a document, a collection or an agent: who has direct access, and the dialog that changes it."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from uuid import UUID

import streamlit as st

from app import api
from app.auth.current import person_client
from app.formatting import escape, one_line
from app.labels import AGENT, DOCUMENT, EVERYONE, GRANTED, GROUP, PERSON, ROLE_MEANINGS
from app.lookup import Principal, Resource, disambiguate
from app.people.directory import clear_caches, gains_in_words, losses_of, person_at
from app.permissions.explaining import Path, explanation, groups_in, key_of_holder
from app.ui.dialogs import NotYetError, confirm, dialog, is_open, naming, offer_submit, open_dialog
from app.ui.errors import FAILURES, problem_of, show_errors
from app.ui.notices import offer_action, show_link, show_note, show_table, show_text, show_warning
from app.ui.passages import label
from app.ui.pickers import pick_principals
from app.ui.tables import forget
from carrel import Carrel, EditConflictError
from carrel.wire.admin import Grant, GrantInfo
from carrel.wire.common import GrantRole, ResourceType, Role
from flows.operations.formatting import count_text, list_text

READERS, REACH, CHANGE, ADDED, CHANGED = "readers", "reach", "change", "grants.added", "grants.changed"
NEWER, HAD = "grants.newer", "grants.had"
OFFERED_GROUPS, SHOWN_HOLDERS = 5, 20
Warn = Callable[[Iterable[Principal]], None]


@dataclass(frozen=True)
class Grants:
    """The grants on a resource: roles by principal key, and whether everybody in the organization may read. `own`: only
    roles that the signed-in owner gave. `twice`: keys of editors who are also viewers by an admin's grant."""

    roles: Mapping[str, GrantRole]
    everybody: bool
    who: Mapping[str, Principal] = field(compare=False)
    version: str | None = field(default=None, compare=False)
    own: bool = False
    twice: frozenset[str] = frozenset()

    def with_changes(
        self,
        *,
        added: Iterable[Principal],
        role: GrantRole | None,
        changed: Mapping[str, GrantRole | None],
        everybody: bool,
    ) -> "Grants":
        """Return the grants with roles given, changed or removed (None), and open to everybody or not."""
        new = {principal.key: principal for principal in added}
        after = {**self.roles, **changed, **dict.fromkeys(new, role)}
        roles = {key: has for key, has in after.items() if has is not None}
        return replace(self, roles=roles, everybody=everybody, who={**self.who, **new})

    @property
    def holders(self) -> list[tuple[str, str]]:
        labels = disambiguate(self.who.values())
        return sorted(((key, text) for key, (text, _) in labels.items()), key=lambda pair: pair[1].lower())


def grants_on(client: Carrel, resource: Resource) -> Grants:
    """Read all grants on a resource. Ownership is not a grant."""
    pages = list(client.admin.grants.list(resource.reference, page_size=1000).pages())
    given = [grant for page in pages for grant in page.grants]
    return _grants(given, pages[0].version, everybody=pages[-1].organization_wide)


def _shares_on(resource: Resource) -> Grants:
    found = person_client().permissions.get_shares(resource.reference)
    return _grants(found.grants, found.version, own=True)


def _grants(given: Sequence[GrantInfo], version: str | None, *, everybody: bool = False, own: bool = False) -> Grants:
    held = [(Principal.of(grant.principal), grant.given_by, grant.role) for grant in given]
    who = {
        one.key: one if by is None else replace(one, note=f"{one.note} · shared by {one_line(by.name)}".lstrip(" ·"))
        for one, by, _ in held
    }
    # A principal with several roles is an editor first.
    roles = {item.key: role for item, _, role in reversed(held)}
    twice = frozenset(item.key for item, _, role in held if role is not roles[item.key])
    return Grants(roles, everybody, who, version, own, twice)


def show_access(
    resource: Resource, *, owns: bool = False, warn: Warn | None = None, leads: bool = True, within: bool | None = None
) -> Grants | None:
    """Show direct access to a resource, offer changes, and return the grants. An owner who is no admin sees only the
    owner's shares. Others see nothing: None. `leads`: with a link to the effective access. `within`: whether it is a
    file in an archive or mail; None: not known."""
    if api.me().is_admin:
        grants = show_errors(partial(grants_on, api.client(), resource))
        _show_holders(resource, grants)
        if warn is not None:
            warn(grants.who.values())
        offer_change(resource, grants, warn, within=within)
        if leads:
            show_link("Effective access: who can read it, and why", "who_can_read", resource=resource.key)
        return grants
    if owns:
        shares = show_errors(partial(_shares_on, resource))
        if api.me().shares_own or shares.who:
            _show_holders(resource, shares)
            offer_change(resource, shares, within=within)
        if had := st.session_state.pop(HAD, ""):
            show_text(f"Already had access: {had}.")
    show_text("Ask an admin of your organization who else can read it.")
    return None


def _show_holders(resource: Resource, grants: Grants) -> None:
    only, empty = "", "You haven't shared it." if grants.own else "Only its owner has direct access."
    if resource.kind == AGENT:
        only, empty = "Use", "No person or group has access."
    everybody = [(EVERYONE, only or GRANTED[GrantRole.VIEWER])] if grants.everybody else []
    rows = everybody + [(text, only or GRANTED[grants.roles[key]]) for key, text in grants.holders]
    show_holders(rows, none=empty)


def show_holders(rows: Sequence[tuple[str, str]], *, none: str) -> None:
    if not rows:
        show_text(none)
        return
    chips = "".join(f"<li>{escape(name)} <b>{escape(role)}</b></li>" for name, role in rows[:SHOWN_HOLDERS])
    st.html(f'<ul class="carrel-holders" aria-label="Direct access">{chips}</ul>')
    if len(rows) > SHOWN_HOLDERS:
        show_note(f"And {count_text(len(rows) - SHOWN_HOLDERS, 'other')}. Find them by name under “Manage access”.")


def offer_change(
    resource: Resource, grants: Grants | None = None, warn: Warn | None = None, *, within: bool | None = None
) -> None:
    """Offer the dialog for changing a resource's access; `grants` saves reading the grants again."""
    if within is not False and _show_container(resource):
        return
    offer_action("Manage access", open_change, resource, key="grants.change", icon="edit")
    if is_open(CHANGE, resource.key):
        change(resource, grants or show_errors(partial(grants_on, api.client(), resource)), warn=warn)


def _show_container(resource: Resource) -> bool:
    """Return whether a document is a file in an archive or mail; if so, lead to where its access is changed."""
    if (container := show_errors(partial(_container_of, resource))) is not None:
        said = "The archive or email that contains this file has its access."
        show_link(said, "documents", document=str(container), part="readers")
    return container is not None


@st.cache_data(ttl=60, show_spinner=False, scope="session")
def _container_of(resource: Resource) -> UUID | None:
    if resource.kind != DOCUMENT or resource.object_id is None:
        return None
    return api.client().catalog.get_document(resource.object_id).parent_document_id


def open_change(resource: Resource) -> None:
    for kept in (f"{ADDED}.groups", CHANGED, NEWER):
        st.session_state.pop(kept, None)
    open_dialog(CHANGE, resource.key, ADDED)


@dialog("Manage access", CHANGE, width="large")
def change(resource: Resource, before: Grants, given: Sequence[Principal] = (), warn: Warn | None = None) -> None:
    """Show the dialog that changes and saves grants, with the effect of the changes. `given` are preselected."""
    show_text(resource.name)
    before = st.session_state.get(NEWER, before)  # the page's access is older while only its dialog is drawn again
    gives, may_edit = not before.own or bool(api.me().shares_own), resource.kind != AGENT
    added: list[Principal] | None = []
    if not gives:
        show_text("Owners cannot share here: ask an admin, or choose who can read a document when you upload it.")
        show_text("You can remove access that you gave.")
    else:
        added = name_principals() if before.own else pick_principals(ADDED, label="Add people or groups", chosen=given)
    role = choose_role("Role of new people and groups", "as") if may_edit and gives else GrantRole.VIEWER
    changed = choose_roles(before, may_edit=may_edit and gives)
    everybody = not before.own and st.checkbox(
        f"{EVERYONE} can {_verb(resource)} it", value=before.everybody, key=f"everybody.{before.everybody}"
    )
    after = before.with_changes(added=added or (), role=role, changed=changed, everybody=everybody)
    if added and before.own and not _check_known(resource, after):
        added, after = None, before
    said = changes_in_words(resource, before, after)
    show_changes(said, [resource])
    if warn is not None:
        warn(after.who[key] for key in after.roles)
    # Save the shown change, and refuse it if a field has changed since.
    fields = (f"{ADDED}.typed", f"{ADDED}.groups", f"{ADDED}.kept", "as", f"everybody.{before.everybody}", CHANGED)
    drawn = {field: st.session_state.get(field) for field in fields}
    action = partial(_save_drawn, drawn, partial(save, resource, before, after))
    offer_submit(CHANGE, "Save", action=action, disabled=not said or added is None)


def _save_drawn(drawn: Mapping[str, object], save: Callable[[], None]) -> None:
    if any(st.session_state.get(field) != value for field, value in drawn.items()):
        raise NotYetError("The form has changed. Review the changes, and save again.")
    save()


def choose_role(words: str, key: str, others: Mapping[str, str] | None = None) -> GrantRole | None:
    """Ask for a role, at first viewer; `others` are further choices with labels, and return None."""
    named: dict[str, str] = {**GRANTED, **(others or {})}
    role = st.segmented_control(
        words, list(named), default=GrantRole.VIEWER, format_func=named.__getitem__, required=True, key=key
    )
    st.caption("A viewer " + ROLE_MEANINGS[Role.VIEWER] + ", an editor " + ROLE_MEANINGS[Role.EDITOR] + ".")
    return GrantRole(role) if role in GRANTED else None


def choose_roles(before: Grants, *, may_edit: bool) -> dict[str, GrantRole | None]:
    """List the people with direct access, each with the role and a button for removal; return changed roles, None for
    none. Changes are kept apart from changes that other people save until then."""
    holders = before.holders
    st.html(f'<p class="carrel-facts">{"You have shared it with" if before.own else "Direct access now"}</p>')
    if len(holders) > SHOWN_HOLDERS:
        asked = st.text_input("Find among them", key="grants.find", placeholder="Part of the name").strip().lower()
        holders = [holder for holder in holders if asked in holder[1].lower()]
    kept: dict[str, GrantRole | None] = st.session_state.get(CHANGED, {})
    changed = {key: role for key, role in kept.items() if key in before.roles and role != before.roles[key]}
    for key, name in holders[:SHOWN_HOLDERS]:
        had, is_removed = before.roles[key], changed.get(key, before.roles[key]) is None
        with st.container(horizontal=True, vertical_alignment="center", key=f"holder.{key}"):
            show_text(f"{name} · access will be removed" if is_removed else name)
            if may_edit and not is_removed:
                field_key = f"role.{key}.{had}"
                st.selectbox(
                    f"Role of {name}",
                    list(GRANTED),
                    index=list(GRANTED).index(changed.get(key) or had),
                    format_func=GRANTED.__getitem__,
                    key=field_key,
                    label_visibility="collapsed",
                    on_change=_keep_role,
                    args=(key, field_key),
                    width=130,
                )
            offer_action("Keep" if is_removed else "Remove", _toggle_removal, key, key=f"remove.{key}", kind="tertiary")
    if len(holders) > SHOWN_HOLDERS:
        show_note(f"And {count_text(len(holders) - SHOWN_HOLDERS, 'other')}. Type part of the name to find them.")
    if not before.who:
        show_text("No person or group.")
    return changed


def name_principals() -> list[Principal] | None:
    """Ask an owner for exact addresses and their groups, without suggestions; return None if an address is wrong."""
    typed = st.text_input("Email addresses", key=f"{ADDED}.typed", placeholder="name@example.com, other@example.com")
    addresses = dict.fromkeys(re.split(r"[\s,;]+", typed.strip().lower()) if typed.strip() else ())
    if wrong := [item for item in addresses if not re.fullmatch(r"[^@]+@[^@]+", item)]:
        show_warning(f"{one_line(wrong[0])} is not an email address.", "Use addresses such as name@example.com.")
    groups = {str(group.id): group.name for group in api.me().groups}
    chosen = st.multiselect("Your groups", list(groups), format_func=groups.__getitem__, key=f"{ADDED}.groups")
    people = [Principal(PERSON, address, address) for address in addresses]
    return None if wrong else [*people, *(Principal(GROUP, item, groups[item]) for item in chosen)]


def _check_known(resource: Resource, after: Grants) -> bool:
    """Return False and show the service's error if a new person is unknown. Other errors are shown when saving."""
    wanted = [Grant(principal=after.who[key].reference, role=role) for key, role in after.roles.items()]
    try:
        person_client().permissions.set_shares(resource.reference, wanted, validate_only=True)
    except FAILURES as error:
        if getattr(error, "code", "") == "unknown_principal":
            problem_of(error).show()
            return False
    return True


def _keep_role(key: str, field_key: str) -> None:
    st.session_state[CHANGED] = st.session_state.get(CHANGED, {}) | {key: st.session_state[field_key]}


def _toggle_removal(key: str) -> None:
    changed: dict[str, GrantRole | None] = dict(st.session_state.get(CHANGED, {}))
    if changed.pop(key, GrantRole.VIEWER) is not None:
        changed[key] = None
    st.session_state[CHANGED] = changed


def changes_in_words(resource: Resource, before: Grants, after: Grants) -> list[str]:
    """Return a sentence for each change of access that saving the grants makes."""
    named, what = {**before.who, **after.who}, f"“{one_line(resource.name)}”"
    verbs = {GrantRole.VIEWER: _verb(resource), GrantRole.EDITOR: "read and change"}
    order = sorted(before.roles.keys() | after.roles.keys(), key=lambda key: named[key].name.lower())
    roles = {key: (had, has) for key in order if (had := before.roles.get(key)) != (has := after.roles.get(key))}
    counts = {key: None if before.own else count_people(named[key]) for key in roles}
    called = {key: name_of(named[key], counts[key], among=named.values()) for key in roles}
    said: list[str] = []
    if after.everybody and not before.everybody:
        said.append(f"{EVERYONE} will be able to {_verb(resource)} {what}, including people who join later.")
    if before.everybody and not after.everybody:
        said.append("It is no longer open to everyone in the organization.")
    for role, verb in verbs.items():
        if gained := [called[key] for key, (had, has) in roles.items() if had is None and has is role]:
            said.append(f"{re.sub('^the ', 'The ', list_text(gained))} will be able to {verb} {what}.")
    for key, (had, has) in roles.items():
        if had is not None and has is not None:
            said.append(f"The role of {called[key]} changes from {GRANTED[had].lower()} to {GRANTED[has].lower()}.")
        elif had is not None:
            is_many = named[key].kind == GROUP and counts[key] != 1
            way = _find_other_access(resource, named[key], before, after)
            said.append(f"{re.sub('^the ', 'The ', called[key])} {'lose' if is_many else 'loses'} access{way}.")
    return said


def _verb(resource: Resource) -> str:
    return "use" if resource.kind == AGENT else "read"


def count_people(principal: Principal) -> int | None:
    """Return the number of people in a group, also in nested groups; None for people, and on an error."""
    try:
        return losses_of(principal.id).person_count if principal.kind == GROUP else None
    except FAILURES:  # saving shows the problem
        return None


def name_of(principal: Principal, count: int | None, *, among: Iterable[Principal]) -> str:
    """Return a principal in a sentence: of a group, its `count` members; with facts if `among` repeats the name."""
    name = one_line(principal.name)
    if sum(one_line(other.name) == name for other in among) > 1:
        name = f"{name} ({principal.facts} · {principal.id})" if principal.kind == GROUP else f"{name} ({principal.id})"
    if principal.kind != GROUP:
        return name
    return f"the members of {name}" if count is None else f"{count_text(count, 'member')} of {name}"


def _find_other_access(resource: Resource, principal: Principal, before: Grants, after: Grants) -> str:
    """Say, as the end of a sentence, how a principal keeps access after losing a direct grant; "" if access ends."""
    if before.own or principal.kind == GROUP:
        return ", unless they have access in another way"
    if after.everybody and principal.kind == PERSON:
        return " of their own, but keeps the access of everyone in the organization"
    try:
        paths = _paths_of(resource, principal, before.version)
    except FAILURES:  # saving shows the problem
        return ", unless they have access in another way"
    left = (path for path in paths if key_of_holder(path) in after.roles)
    return next((f" of their own, but keeps it through {groups_in(path)}" for path in left), "")


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def _paths_of(resource: Resource, principal: Principal, version: str | None) -> Sequence[Path]:  # noqa: ARG001 - a part of the key
    return explanation(resource, principal).paths


def show_changes(said: Sequence[str], resources: Iterable[Resource]) -> None:
    """Show the changes, or that nothing will change, and warn if a source may overwrite the access."""
    if not said:
        show_text("Nothing will change.")
        return
    show_table([(sentence,) for sentence in said], heads=("Changes, effective immediately",))
    if any(resource.kind == DOCUMENT and resource.type is not ResourceType.UPLOADED_DOCUMENT for resource in resources):
        show_warning("The next load from the source may overwrite this access.")


def save(resource: Resource, before: Grants, after: Grants) -> None:
    """Save the changes. If another person has changed the grants since, read them again and raise NotYetError."""
    try:
        send(resource, before, after)
    except EditConflictError as error:
        st.session_state[NEWER] = _shares_on(resource) if before.own else grants_on(api.client(), resource)
        msg = "Someone else changed access. Review the changes below, and save again."
        raise NotYetError(msg) from error


def send(resource: Resource, before: Grants, after: Grants) -> Grants:
    """Replace the grants, and return them with the new version. Raises EditConflictError after another person's
    change, and NotYetError for a deleted principal. An owner's shares already held by others wait in HAD."""
    twice = [(key, GrantRole.VIEWER) for key in before.twice if after.roles.get(key) is before.roles[key]]
    wanted = [Grant(principal=after.who[key].reference, role=role) for key, role in (*after.roles.items(), *twice)]
    if before.own:
        shared = person_client().permissions.set_shares(resource.reference, wanted, version=before.version)
        # For an admin, the service leaves out the roles of people.
        given = {Principal.of(grant.principal).key for grant in shared.grants}
        st.session_state[HAD] = list_text([one_line(after.who[key].name) for key in after.roles if key not in given])
        return replace(after, version=shared.version)
    with naming(*after.who.values()):
        set_grants = api.client().admin.grants.set
        saved = set_grants(resource.reference, wanted, organization_wide=after.everybody, version=before.version)
    for listed in (READERS, REACH):
        forget(listed)
    return replace(after, version=saved.version)


def offer_access(resource: Resource, who: Principal) -> None:
    """Show the groups with access to a resource and buttons for joining or access; for an inactive person, a link."""
    if who.kind == PERSON:
        found = show_errors(partial(person_at, who.id))
        if found is None or not found.active:
            show_link("Open person", "people", person=str(found.id) if found else "")
            return
    grants = show_errors(partial(grants_on, api.client(), resource))
    others = [principal for principal in grants.who.values() if principal.kind == GROUP and principal.key != who.key]
    groups = sorted(others, key=lambda principal: principal.name)
    show_text(groups_in_words(groups, who))
    is_contained = _show_container(resource)
    with st.container(horizontal=True):
        if not is_contained:
            offer_action("Give access", open_change, resource, key="give", kind="primary")
        for group in groups[:OFFERED_GROUPS]:
            if st.button(f"Add to {label(one_line(group.name))}", key=f"join.{group.id}"):
                _ask_joining(group, who)
    if is_open(CHANGE, resource.key):
        change(resource, grants, given=[who])


def groups_in_words(groups: Sequence[Principal], principal: Principal) -> str:
    """Name the groups with a grant on a resource that a principal outside may not read."""
    name = one_line(principal.name)
    if not groups:
        return "No group has access."
    if len(groups) == 1:
        return f"{one_line(groups[0].name)} is the only group with access, and {name} is not a member."
    named = ", ".join(one_line(group.name) for group in groups[:OFFERED_GROUPS])
    more = f" and {len(groups) - OFFERED_GROUPS:,} more" if len(groups) > OFFERED_GROUPS else ""
    return f"Groups with access: {named}{more}. {name} is in none of them."


def _ask_joining(group: Principal, principal: Principal) -> None:
    more = show_errors(partial(gains_in_words, group, principal))
    said = f"{one_line(principal.name)} joins {one_line(group.name)}, and can read {more} more."
    confirm("Add to the group?", said, action=partial(join, group, principal))


def join(group: Principal, principal: Principal) -> None:
    with naming(group, principal):
        api.client().admin.groups.add_members(group.id, [principal.reference])
    clear_caches()
    forget(READERS)
