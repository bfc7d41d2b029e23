"""The page of syncs: collections kept up to date with document databases."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import streamlit as st

from app import api
from app.formatting import one_line
from app.syncs.labels import collection_name, state_in_words
from app.syncs.page import LIST, ask, forget_form, show_sync_page
from app.ui.errors import require_admin, show_errors
from app.ui.notices import look_at, offer_action, offer_way_back, show_empty, show_heading, show_title
from app.ui.tables import forget, pages_of, show_pages, time_cell

TITLE, PURPOSE = "Syncs", "Keep collections up to date with document databases."
_MADE = "sync.made"


def _offer_actions() -> None:
    offer_action("Refresh", forget, LIST, key="again", icon="refresh")
    offer_action("New sync", st.query_params.update, {"new": "yes"}, key="new", icon="add", kind="primary")


def _show_list() -> None:
    count = show_title(TITLE, PURPOSE, action=_offer_actions)
    show_pages(
        LIST,
        pages_of(lambda at: api.client().document_collections.docstore.list_docstore_syncs(**at)),
        row=lambda sync: {
            "Name": one_line(sync.config.sync_name),
            "Source": one_line(sync.config.collection_name),
            "Into": collection_name(str(sync.document_collection_id)),
            "State": state_in_words(sync),
            "Documents": sync.document_count,
            "Failed": sync.counts.failed,
            "Last run": time_cell(sync.finished_at or sync.started_at),
        },
        empty=lambda: show_empty(
            "No syncs yet.",
            "A sync keeps a collection up to date with a MongoDB collection. New and changed documents are copied; "
            "deleted documents are removed. Create the first sync.",
        ),
        columns={
            "Documents": st.column_config.NumberColumn(format="localized", help="Documents that still exist"),
            "Failed": st.column_config.NumberColumn(format="localized"),
        },
        go=lambda chosen: look_at("sync", chosen.docstore_credential_id),
        count_at=count,
    )


def _show_new() -> None:
    offer_way_back("All syncs", "new")
    show_heading("New sync")
    made: str | None = st.session_state.pop(_MADE, None)
    editable = show_errors(api.editable_collections)
    if not (collections := {str(item.document_collection_id): item.collection_name for item in editable}):
        show_empty("You cannot edit any collection.", "Create a collection on the Collections page first.")
        return
    into = st.selectbox("Collection", list(collections), key="into", format_func=lambda item: collections[item])
    ask({}, doing="Create and start", known=[], save=partial(make, into, made), into=into)


def make(into: str, made: str | None, address: str, config: Mapping[str, Any]) -> None:
    """Create a sync and open it. A second click before the page is redrawn opens the sync already created."""
    if made is None:
        docstore = api.client().document_collections.docstore
        answer = docstore.create_docstore_sync(into, docstore_uri=address, config=config)
        made = str(answer.docstore_credential_id)
    st.session_state[_MADE] = made
    forget(LIST)
    st.query_params.from_dict({"sync": made})
    st.rerun()


def page() -> None:
    require_admin()
    if not {"new", "change"} & st.query_params.keys():
        forget_form()  # the next form begins with its own sync's values
    if name := st.query_params.get("sync"):
        show_title(TITLE, PURPOSE)
        show_sync_page(name)
    elif "new" in st.query_params:
        show_title(TITLE, PURPOSE)
        _show_new()
    else:
        _show_list()


page()
