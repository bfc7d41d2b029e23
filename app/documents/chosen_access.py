"""Access to chosen documents: people and groups get a role on all of them at once, or lose it."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from uuid import UUID

import streamlit as st

import carrel
from app import api
from app.documents.facts import resource_of
from app.documents.listing import CHOSEN, change_each, list_documents
from app.formatting import count_of
from app.labels import EVERYONE, GRANTED
from app.lookup import Principal
from app.permissions import panel
from app.permissions.panel import Grants
from app.ui import notices
from app.ui.dialogs import NotYetError, confirm, dialog, is_open, offer_submit
from app.ui.errors import show_errors
from app.ui.pickers import pick_principals
from app.ui.saving import keep_opened
from carrel.wire.catalog import Document
from carrel.wire.common import GrantRole
from flows.operations.formatting import count_text

ACCESS, WHO, LAST = "chosen.access", "chosen.access.who", "chosen.access.last"
VERBS = {
    GrantRole.VIEWER: "will be able to read",
    GrantRole.EDITOR: "will be able to read and change",
    None: "will no longer have direct access to",
}


@dataclass(frozen=True)
class Opened:
    """The documents of the dialog, the grants of those that have their own, and the grants before and after saving."""

    documents: Sequence[Document]
    grants: dict[UUID, Grants] = field(default_factory=dict[UUID, Grants])
    saved: dict[UUID, tuple[Grants, Grants]] = field(default_factory=dict[UUID, tuple[Grants, Grants]])

    def read_grants(self) -> None:
        self.grants.clear()
        for document in self.documents:
            if document.parent_document_id is None:
                with suppress(carrel.NotFoundError):
                    self.grants[document.document_id] = panel.grants_on(api.client(), resource_of(document))


def show(chosen: Sequence[Document]) -> None:
    """Show the dialog while it is open, and offer to undo the last change."""
    if is_open(ACCESS):
        _show_dialog(keep_opened(ACCESS, Opened(chosen)))
    last: Opened | None = st.session_state.get(LAST)
    if last is None:
        return
    names = [document.document_name for document in last.documents if document.document_id in last.saved]
    many = count_text(len(names), "document")
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption(f"You changed access to {many}.")
        if st.button("Undo …", key="chosen.access.undo", icon=":material/undo:"):
            again = (
                "Each document gets its previous direct access back, unless someone else has changed it since. "
                "Roles that an owner gave come back as roles given by an admin: they stay if the owner leaves."
            )
            confirm(f"Undo the change to {many}?", again, action=partial(_undo, last), names=names)


@dialog("Access to the selected documents", ACCESS, width="large")
def _show_dialog(opened: Opened) -> None:
    if not opened.grants:
        show_errors(opened.read_grants)
    _show_holders(opened.grants.values())
    picked = pick_principals(WHO, label="People or groups")
    role = panel.choose_role("Role", "chosen.access.role", {"": "No direct access"})
    planned = {
        key: (before, after)
        for key, before in opened.grants.items()
        if (after := before.with_changes(added=picked, role=role, changed={}, everybody=before.everybody)) != before
    }
    changing = [document for document in opened.documents if document.document_id in planned]
    list_documents(opened.documents, "Access", partial(_describe_effect, opened, planned))
    said = _changes_in_words(planned.values(), picked, of=len(opened.documents))
    panel.show_changes(said, map(resource_of, changing))
    if said and role is None:
        notices.show_text("Access through a group, ownership or the whole organization stays.")
    # Save the shown change, even if the fields have changed since.
    offer_submit(ACCESS, "Save", action=partial(_save, opened, changing, planned), disabled=not said)


def _show_holders(every: Collection[Grants]) -> None:
    who = {key: named for grants in every for key, named in grants.who.items()}
    held = Counter(pair for grants in every for pair in grants.roles.items())
    held["", GrantRole.VIEWER] = sum(grants.everybody for grants in every)
    rows = [
        (name, f"{GRANTED[role]} on {count_of(held[key, role], len(every), 'document')}")
        for key, name in [("", EVERYONE), *Grants({}, everybody=False, who=who).holders]
        for role in GRANTED
        if held[key, role]
    ]
    panel.show_holders(rows, none="Only the owners have direct access to these documents.")


def _describe_effect(opened: Opened, planned: Mapping[UUID, object], document: Document) -> str:
    if document.document_id not in opened.grants:
        return "Deleted" if document.parent_document_id is None else "Inherits access from its archive or email"
    return "Changes" if document.document_id in planned else "No change"


def _changes_in_words(planned: Iterable[tuple[Grants, Grants]], picked: Sequence[Principal], *, of: int) -> list[str]:
    """Return sentences that say on how many of the `of` documents a person or group gets another role."""
    pairs, said = list(planned), list[str]()
    everyone = {key: item for _, after in pairs for key, item in after.who.items()}.values()
    for principal in picked:
        changes = [(before.roles.get(principal.key), after.roles.get(principal.key)) for before, after in pairs]
        called = re.sub("^the ", "The ", panel.name_of(principal, panel.count_people(principal), among=everyone))
        for had, has in dict.fromkeys(changes):
            if had != has:
                now = f" (now {GRANTED[had].lower()})" if had and has else ""
                said.append(f"{called}{now} {VERBS[has]} {count_of(changes.count((had, has)), of, 'document')}.")
    return said


def _save(opened: Opened, changing: Sequence[Document], planned: Mapping[UUID, tuple[Grants, Grants]]) -> None:
    def save(_: carrel.Carrel, document: Document) -> None:
        before, after = planned[document.document_id]
        now = opened.grants[document.document_id] = panel.send(resource_of(document), before, after)
        opened.saved[document.document_id] = opened.saved.get(document.document_id, (before, now))[0], now
        st.session_state[LAST] = opened

    try:
        change_each(CHOSEN, changing, save, skips_gone=False)
    except NotYetError:
        opened.read_grants()  # the dialog shows other people's changes, and the remaining changes
        raise


def _undo(last: Opened) -> None:
    def restore(_: carrel.Carrel, item: Document) -> None:
        before, after = last.saved[item.document_id]
        panel.send(resource_of(item), after, before)
        del last.saved[item.document_id]

    change_each(CHOSEN, [document for document in last.documents if document.document_id in last.saved], restore)
    st.session_state.pop(LAST, None)
