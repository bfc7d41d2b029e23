"""Access to chosen documents: people and groups get a role on all of them at once, or lose it."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any
from uuid import UUID

import streamlit as st

import carrel
from app import api
from app.documents.facts import resource_of
from app.documents.listing import CHANGE, CHOSEN, list_documents
from app.formatting import count_of
from app.labels import EVERYONE, GRANTED
from app.lookup import Principal
from app.permissions import panel
from app.permissions.panel import Grants
from app.ui import notices
from app.ui.dialogs import dialog, is_open, offer_submit
from app.ui.errors import show_errors
from app.ui.pickers import pick_principals
from app.ui.saving import keep_opened
from app.ui.tables import forget
from carrel.wire.catalog import Document
from carrel.wire.common import GrantRole

ACCESS, WHO = "chosen.access", "chosen.access.who"
VERBS = {
    GrantRole.VIEWER: "will be able to read",
    GrantRole.EDITOR: "will be able to read and change",
    None: "will no longer have direct access to",
}


def show(chosen: Sequence[Document]) -> None:
    if is_open(ACCESS):
        documents, grants = keep_opened(ACCESS, (chosen, dict[UUID, Grants]()))
        _show_dialog(documents, grants)


def _read_grants(documents: Sequence[Document], grants: dict[UUID, Grants]) -> None:
    """Read the grants of the documents that have their own."""
    for document in documents:
        if document.parent_document_id is None:
            with suppress(carrel.NotFoundError):
                grants[document.document_id] = panel.grants_on(api.client(), resource_of(document))


@dialog("Access to the selected documents", ACCESS, width="large")
def _show_dialog(documents: Sequence[Document], grants: dict[UUID, Grants]) -> None:
    if not grants:
        show_errors(lambda: _read_grants(documents, grants))
    _show_holders(grants.values())
    picked = pick_principals(WHO, label="People or groups")
    role = panel.choose_role("Role", "chosen.access.role", {"": "No direct access"})
    planned = {
        key: (before, after)
        for key, before in grants.items()
        if (after := before.with_changes(added=picked, role=role, changed={}, everybody=before.everybody)) != before
    }
    changing = [document for document in documents if document.document_id in planned]
    list_documents(documents, "Access", partial(_describe_effect, grants, planned))
    said = _changes_in_words(planned.values(), picked, of=len(documents))
    panel.show_changes(said, map(resource_of, changing))
    if said and role is None:
        notices.show_text("Access through a group, ownership or the whole organization stays.")
    # Save the shown change, even if the fields have changed since.
    offer_submit(ACCESS, "Save", action=partial(_save, changing, picked, role), disabled=not said)


def _show_holders(every: Collection[Grants]) -> None:
    who = {key: one for grants in every for key, one in grants.who.items()}
    held = Counter(pair for grants in every for pair in grants.roles.items())
    held["", GrantRole.VIEWER] = sum(grants.everybody for grants in every)
    rows = [
        (name, f"{GRANTED[role]} on {count_of(held[key, role], len(every), 'document')}")
        for key, name in [("", EVERYONE), *Grants({}, everybody=False, who=who).holders]
        for role in GRANTED
        if held[key, role]
    ]
    panel.show_holders(rows, none="Only the owners have direct access to these documents.")


def _describe_effect(grants: Mapping[UUID, Grants], planned: Mapping[UUID, object], document: Document) -> str:
    if document.document_id not in grants:
        return "Deleted" if document.parent_document_id is None else "Inherits access from its archive or email"
    return "Changes" if document.document_id in planned else "No change"


def _changes_in_words(planned: Iterable[tuple[Grants, Grants]], picked: Sequence[Principal], *, of: int) -> list[str]:
    """Return sentences that say on how many of the `of` documents a person or group gets another role."""
    pairs, said = list(planned), list[str]()
    everyone = {key: one for _, after in pairs for key, one in after.who.items()}.values()
    for principal in picked:
        changes = [(before.roles.get(principal.key), after.roles.get(principal.key)) for before, after in pairs]
        called = re.sub("^the ", "The ", panel.name_of(principal, panel.count_people(principal), among=everyone))
        for had, has in dict.fromkeys(changes):
            if had != has:
                now = f" (now {GRANTED[had].lower()})" if had and has else ""
                said.append(f"{called}{now} {VERBS[has]} {count_of(changes.count((had, has)), of, 'document')}.")
    return said


def _save(documents: Sequence[Document], picked: Sequence[Principal], role: GrantRole | None) -> None:
    """Start a change for each person or group, which the page then shows, and which can be undone."""
    names = [document.document_external_id for document in documents]
    more: dict[str, Any] = {"document_external_ids": names, "role": role, "expected_count": len(names)}
    start = api.client().catalog.start_access_change
    st.query_params[CHANGE] = [str(start(one.reference, **more).document_change_id) for one in picked]
    forget(CHOSEN, unchoose=True)
