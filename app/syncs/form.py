"""The form that creates or changes a sync. The address is a secret, and is never shown."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from uuid import UUID

import streamlit as st

import carrel
from app import api
from app.formatting import one_line
from app.labels import GROUP, PERSON
from app.lookup import Principal
from app.syncs.labels import LABELS, hint_for, in_words_of_the_form, refusal_in_words
from app.ui.notices import show_note, show_problem, show_table, show_text
from app.ui.pickers import drop_choice, pick_principals
from carrel.wire.docstore import DocstoreConfigInfo
from flows.operations.formatting import count_text


@dataclass(frozen=True)
class Draft:
    """The values of a sync's form."""

    name: str = ""
    source: str = ""
    body: str = ""
    title: str = ""
    updated: str = ""
    url: str = ""
    filter: str = ""
    users: Sequence[str] | None = None
    groups: Sequence[str] | None = None
    everybody: bool = False
    delete_missing: bool = True
    limit: int = 20
    address: str = field(default="", repr=False)

    def list_missing_fields(self, *, kept_address: bool) -> list[str]:
        """Return the labels of required fields that are empty; the address isn't, where it is kept."""
        wanted = {
            "syncName": self.name,
            "docstoreURI": self.address or kept_address,
            "collectionName": self.source,
            "body": self.body,
            "sourceName": self.title,
        }
        return [LABELS[name] for name, value in wanted.items() if not value]

    def config(self) -> dict[str, Any]:
        """Return the sync's config for requests. Raises ValueError for a filter that is no JSON object."""
        return {
            "sync_name": self.name,
            "collection_name": self.source,
            "source_fields": {
                "body": self.body,
                "source_name": self.title,
                "source_system_updated": self.updated or None,
                "source_url": self.url or None,
            },
            "filter_expression": _filter_of(self.filter),
            "allowed_users_email_addresses": list(self.users) if self.users is not None else None,
            "allowed_group_ids": list(self.groups) if self.groups is not None else None,
            "internal_public": True if self.everybody else None,
            "delete_missing": self.delete_missing,
            "delete_limit_percent": self.limit,
        }


def _filter_of(text: str) -> dict[str, Any]:
    if not text.strip():
        return {}
    try:
        found: object = json.loads(text)
    except ValueError as error:
        msg = f"Which documents: this is no JSON ({error})."
        raise ValueError(msg) from error
    if not isinstance(found, dict):
        msg = 'Which documents: write an object, such as {"state": "published"}.'
        raise ValueError(msg)  # noqa: TRY004 - it is what somebody wrote, not what a program gave
    return found  # pyright: ignore[reportUnknownVariableType] - JSON's members have text for names


def draft_of(config: DocstoreConfigInfo) -> Draft:
    """Convert a sync's config to the values of the form; its address is never shown."""
    fields = config.source_fields
    return Draft(
        name=config.sync_name,
        source=config.collection_name,
        body=fields.body,
        title=fields.source_name,
        updated=fields.source_system_updated or "",
        url=fields.source_url or "",
        filter=json.dumps(config.filter_expression, ensure_ascii=False) if config.filter_expression else "",
        users=config.allowed_users_email_addresses,
        groups=None if config.allowed_group_ids is None else [str(one) for one in config.allowed_group_ids],
        everybody=bool(config.internal_public),
        delete_missing=config.delete_missing,
        limit=config.delete_limit_percent,
    )


EVERYBODY = "Everybody in the organization"
CHOSEN = "People and groups I choose"
NOBODY = "Only the person who makes the sync"
_READERS = "sync.readers"
_ADDRESS = "sync.address"


def ask(
    draft: Draft,
    *,
    doing: str,
    known: list[Principal],
    save: Callable[[Draft], object],
    into: str,
    saved: UUID | None = None,
) -> None:
    """Show the form, filled with a draft, and call `save` with its values; `known` are the readers in the draft. The
    documents go `into` a collection; a `saved` sync keeps its address where none is typed."""
    filled = _with_readers(_with_fields(draft), known)
    # Above the button, which stands at the window's end: what is wrong is seen by whoever presses it.
    said = st.container()
    with st.container(horizontal=True):
        saving = st.button(doing, type="primary", key="sync.save")
        testing = st.button("Test connection", key="sync.test", help="Shows the fields and the first documents")
    if saving or testing:
        with said:
            _answer(filled, partial(_show_preview, into, saved) if testing else save, saved=saved, testing=testing)


def _show_preview(into: str, saved: UUID | None, draft: Draft) -> None:
    preview = api.client().document_collections.docstore.preview_docstore_sync
    named = replace(draft, name=draft.name or "_", body=draft.body or "_id", title=draft.title or "_id")
    found = preview(into, docstore_credential_id=saved, docstore_uri=draft.address or None, config=named.config())
    if found.problem is not None:
        show_problem("The database can't be read.", found.problem.message, hint_for(found.problem.code))
        return
    number, slow = found.document_count, "The database takes long to count the documents that the filter chooses."
    said = slow if number is None else f"The filter chooses {count_text(number, 'document')}."
    show_text(f"The database answers. {said}")
    show_text(f"Fields: {', '.join(map(one_line, found.fields)) or 'none'}")
    if not (draft.body and draft.title):
        show_text("To see the first documents, name the fields with the text and the title, and test again.")
        return
    rows = [(one.name or json.dumps(one.source_id), one.problem or one.text or "") for one in found.documents]
    show_table(
        [(one_line(name), one_line(in_words_of_the_form(text))) for name, text in rows],
        heads=("Title", "Text or problem"),
    )


def _answer(filled: Draft | None, save: Callable[[Draft], object], *, saved: UUID | None, testing: bool) -> None:
    if filled is None:
        show_problem("Nobody is chosen who may read them.", "Choose at least one person or group.")
    elif testing and not (filled.source and (filled.address or saved)):
        show_problem("Something is missing.", f"Fill in: {LABELS['docstoreURI']}, {LABELS['collectionName']}.")
    elif not testing and (missing := filled.list_missing_fields(kept_address=saved is not None)):
        show_problem("Something is missing.", f"Fill in: {', '.join(missing)}.")
    else:
        try:
            save(filled)
        except carrel.CarrelError as error:
            refusal_in_words(error).show()
        except ValueError as error:
            show_problem(str(error))


def forget() -> None:
    st.session_state.pop(_ADDRESS, None)
    drop_choice(_READERS)


def _with_fields(draft: Draft) -> Draft:
    left, right = st.columns(2)
    with left:
        draft = replace(
            draft,
            name=_text("syncName", draft.name, "Articles"),
            address=st.text_input(
                LABELS["docstoreURI"],
                type="password",
                key=_ADDRESS,
                # A password's field says nothing when Tab leads from it to its own button.
                live="250ms",
                autocomplete="off",
                placeholder="mongodb://reader:password@mongo.example.com/shop",
                help="MongoDB, or what speaks its protocol. It is kept encrypted and never shown again.",
            ).strip(),
            source=_text("collectionName", draft.source, "articles"),
            filter=st.text_area(
                LABELS["filterExpression"],
                draft.filter,
                key="sync.filter",
                placeholder='{"state": "published"}',
                help="A query in JSON, as MongoDB has them; without one, all.",
            ),
        )
    with right:
        draft = replace(
            draft,
            body=_text("body", draft.body, "content.text"),
            title=_text("sourceName", draft.title, "title"),
            updated=_text("sourceSystemUpdated", draft.updated, "updatedAt"),
            url=_text("sourceUrl", draft.url, "links.public"),
        )
        show_note("Fields in fields are joined by dots. Without a time of the last change, every run reads everything.")
    delete = st.toggle("Remove documents that are deleted in the database", draft.delete_missing, key="sync.delete")
    limit = st.number_input(
        "The most that may be removed at once, in percent", 0, 100, draft.limit, key="sync.limit", disabled=not delete
    )
    return replace(draft, delete_missing=delete, limit=limit)


def _text(member: str, value: str, example: str) -> str:
    return st.text_input(LABELS[member], value, key=f"sync.{member}", placeholder=example).strip()


def _with_readers(draft: Draft, known: list[Principal]) -> Draft | None:
    kinds = [EVERYBODY, CHOSEN, NOBODY]
    now = EVERYBODY if draft.everybody else CHOSEN if known else NOBODY
    readers = st.radio("Who may read them", kinds, index=kinds.index(now), key="sync.kind")
    picked = pick_principals(_READERS, label="Find", chosen=known, kinds=(PERSON, GROUP)) if readers == CHOSEN else []
    if readers == CHOSEN and not picked:
        return None
    users, groups = ([one.id for one in picked if one.kind == kind] for kind in (PERSON, GROUP))
    chosen = {"users": users, "groups": groups} if readers == CHOSEN else {"users": None, "groups": None}
    return replace(draft, **chosen, everybody=readers == EVERYBODY)
