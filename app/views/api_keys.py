"""The page of API keys. Programs use a key to act as a person."""

from functools import partial

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app import api
from app.credentials import tokens
from app.labels import PERSON
from app.lookup import Principal
from app.ui import notices
from app.ui.dialogs import dialog, offer_submit, open_dialog, show_held_secret, text_in
from app.ui.errors import require_admin, require_found, show_errors
from app.ui.pickers import get_principals, pick_principals
from app.ui.tables import pages_of, show_pages
from carrel.wire.api_keys import ApiKey
from carrel.wire.scopes import Scope

TITLE, PURPOSE = "API keys", "A program with an API key can do everything that the owner of the key can do."
NEW, OWNER, LIKE = "new_key", "key.owner", "key.like"
FOR_OTHERS = "Can act for other people"


def _show_keys(count_at: DeltaGenerator) -> None:
    show_pages(
        tokens.KEYS,
        pages_of(lambda at: api.client().admin.api_keys.list(**at)),
        row=lambda key: {**tokens.row_of(key), "Acts as": key.owner_email, "Acts for others": key.may_act_for_users},
        empty=lambda: notices.show_empty(
            "No API keys yet.", "Create an API key for a program that acts as one person."
        ),
        go=lambda chosen: notices.look_at("key", chosen.api_key_id),
        count_at=count_at,
    )


def _show_key(key_id: str) -> None:
    notices.offer_way_back("All API keys", "key")
    key = require_found(partial(tokens.key_of, key_id), "This API key does not exist.")
    for_others = "Yes, for anyone in the organization" if key.may_act_for_users else "No"
    facts = [("Acts as", key.owner_email), (FOR_OTHERS, for_others)]
    notices.offer_action("New key with the same settings", open_new, key, key="new.successor", icon="autorenew")
    every = show_errors(tokens.all_keys)
    revoke = partial(api.client().admin.api_keys.revoke, key.api_key_id)
    tokens.show_credential(key, every=every, kind="key", facts=facts, revoke=revoke, then=tokens.clear_keys)


def open_new(like: ApiKey | None = None) -> None:
    """Open the dialog for a new key without a person chosen; with `like`, filled for a replacement of the given key."""
    st.session_state.pop(LIKE, None)
    tokens.fill_expiry("key", like)
    if like is not None:
        st.session_state.update({LIKE: like, "key.name": like.name, "key.for_others": like.may_act_for_users})
    open_dialog(NEW, choice=OWNER)


@dialog("New API key", NEW, width="large")
def _show_new() -> None:
    notices.show_text(
        "Anyone with the key can do everything that its owner can do. For a shared program, use a service "
        "account: its tokens can be limited."
    )
    is_on = show_errors(tokens.organization).service_accounts_enabled
    notices.show_link(f"Service accounts{'' if is_on else ' (turned off)'}", "service_accounts")
    st.text_input("Name", key="key.name", max_chars=200, placeholder="For example: Ada's notebook")
    like: ApiKey | None = st.session_state.get(LIKE)
    owners = [Principal(PERSON, like.owner_email, like.owner_email)] if like else []
    label = "Owner (you, unless you select someone else)"
    pick_principals(OWNER, label=label, chosen=owners, kinds=(PERSON,), most=1)
    if st.checkbox(FOR_OTHERS, key="key.for_others"):
        notices.show_warning(
            "With this key, a request can act for anyone in the organization.",
            "For servers that know which person makes each request. The audit log names both.",
        )
    tokens.ask_expiry("key", default="365")
    offer_submit(NEW, "Create", action=_create)


def _create() -> None:
    name = text_in("key.name", missing="Enter a name for the key.")
    owner = next((principal.id for principal in get_principals(OWNER)), None)
    made = api.client().admin.api_keys.create(
        name,
        owner_email=owner,
        may_act_for_users=bool(st.session_state["key.for_others"]),
        expires_at=tokens.get_expiry("key"),
    )
    tokens.hold_credential("New key", made.api_key, [Scope.CATALOG_READ])
    tokens.clear_keys()


def page() -> None:
    require_admin()
    is_chosen = "key" in st.query_params
    new = partial(notices.offer_action, "New API key", open_new, key="new.open", icon="add", kind="primary")
    count = notices.show_title(TITLE, PURPOSE, action=None if is_chosen else new)
    show_held_secret()
    if is_chosen:
        _show_key(str(st.query_params["key"]))
    _show_new()
    if not is_chosen:
        _show_keys(count)


page()
