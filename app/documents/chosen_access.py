"""Direct access to chosen documents: the people and groups with access now, and the preview of a change."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from uuid import UUID

import carrel
from app import api
from app.documents.facts import resource_of
from app.documents.listing import list_documents
from app.formatting import count_of
from app.labels import EVERYONE, GRANTED, ROLES
from app.lookup import Principal
from app.permissions import panel
from app.permissions.panel import Grants
from app.ui import notices
from app.ui.errors import show_errors
from carrel.wire.catalog import Document
from carrel.wire.common import GrantRole, Role, UserPrincipal

NAMES: Mapping[str, str] = {**ROLES, "": "No direct access"}
VERBS: Mapping[str, str] = {
    Role.VIEWER: "will be able to read",
    Role.EDITOR: "will be able to read and change",
    Role.OWNER: "will own",
    "": "will no longer have direct access to",
}


def show_holders(documents: Sequence[Document], grants: dict[UUID, Grants]) -> None:
    """Show the people and groups with direct access. Read the grants of documents that have their own, once."""
    if not grants:
        show_errors(lambda: _read_grants(documents, grants))
    every = grants.values()
    who = {key: named for each in every for key, named in each.who.items()}
    held = Counter(pair for each in every for pair in each.roles.items())
    held["", GrantRole.VIEWER] = sum(each.everybody for each in every)
    rows = [
        (name, f"{GRANTED[role]} on {count_of(held[key, role], len(every), 'document')}")
        for key, name in [("", EVERYONE), *Grants({}, everybody=False, who=who).holders]
        for role in GRANTED
        if held[key, role]
    ]
    panel.show_holders(rows, none="Only the owners have direct access to these documents.")


def _read_grants(documents: Sequence[Document], grants: dict[UUID, Grants]) -> None:
    for document in documents:
        if document.parent_document_id is None:
            with suppress(carrel.NotFoundError):
                grants[document.document_id] = panel.grants_on(api.client(), resource_of(document))


def preview(
    documents: Sequence[Document], grants: Mapping[UUID, Grants], picked: Principal, role: str
) -> list[Document]:
    """Show each document's present and new role, and return the documents that change."""
    had: dict[UUID, str] = {
        document.document_id: Role.OWNER
        if isinstance(document.owner, UserPrincipal) and document.owner.email == picked.id
        else grants[document.document_id].roles.get(picked.key, "")
        for document in documents
        if document.document_id in grants
    }

    def tell_effect(document: Document) -> str:
        if (now := had.get(document.document_id)) is None:
            return "Deleted" if document.parent_document_id is None else "Inherits access from its archive or email"
        return "No change" if now in {role, Role.OWNER} else f"{NAMES[now]} → {NAMES[role]}"

    list_documents(documents, "Role", tell_effect)
    changing = [document for document in documents if had.get(document.document_id, role) not in {role, Role.OWNER}]
    among = {key: named for each in grants.values() for key, named in each.who.items()} | {picked.key: picked}
    called = re.sub("^the ", "The ", panel.name_of(picked, panel.count_people(picked), among=among.values()))
    said = [f"{called} {VERBS[role]} {count_of(len(changing), len(documents), 'document')}."] if changing else []
    panel.show_changes(said, map(resource_of, changing))
    if said and not role:
        notices.show_text("Access through a group, ownership or the whole organization stays.")
    return changing
