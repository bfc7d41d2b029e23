"""The page of provisioning: the SCIM address, and the tokens of identity providers that manage people and groups."""

from collections.abc import Sequence
from functools import partial

import streamlit as st

from app import api
from app.credentials.tokens import ask_expiry, get_expiry, row_of, show_credential
from app.formatting import ago, moment, one_line
from app.lookup import by_id
from app.ui import notices
from app.ui.dialogs import Secret, dialog, hold_secret, offer_dialog, offer_submit, show_held_secret, text_in
from app.ui.errors import require_admin, require_found, show_errors
from app.ui.tables import forget, pages_of, show_pages
from carrel.wire.scim_tokens import AdminScimTokensListResponse, ScimToken

TITLE, PURPOSE = "Provisioning", "Identity providers such as Entra or Okta maintain people and groups here (SCIM)."
NEW, TOKENS = "new_scim_token", "scim_tokens"


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def first_page() -> AdminScimTokensListResponse:
    return next(api.client().admin.scim_tokens.list(page_size=1000).pages())


def _clear_tokens() -> None:
    first_page.clear()
    forget(TOKENS)


def _show_address(page: AdminScimTokensListResponse) -> None:
    notices.show_text("Enter this URL in your identity provider, as the tenant URL or base URL:")
    st.code(page.base_url, language=None, wrap_lines=True)
    last = max((token.last_used_at for token in page.tokens if token.last_used_at), default=None)
    notices.show_text("No requests yet." if last is None else f"Last request: {ago(last)}.")
    notices.show_warning(
        "Anyone with a token can change group membership and delete groups. Treat it like an admin password."
    )
    notices.show_help("How to set up Entra and Okta", "provisioning")


def _show_refusals() -> None:
    found = next(api.client().admin.audit_log.query(action="scim.refuse", page_size=20).pages()).entries
    if not found:
        return
    st.header("Refused", anchor=False)
    rows: list[tuple[str, str, str]] = []
    for entry in found:
        told, target = entry.details, entry.target
        reason = f"{told.get('method', '')} {told.get('path', '')}: {told['code']}"
        if told["code"] == "unknown_members":
            known = "The other members were added" if "count" in told else "No member was added"
            reason = f"{known}. Unknown here, provision first: {', '.join(told['unknown'])}"
        rows.append((moment(entry.at), one_line((target and target.name) or (target and target.id) or ""), reason))
    notices.show_table(rows, heads=("When", "Item", "Reason"))


def _show_token(token_id: str, every: Sequence[ScimToken]) -> None:
    notices.offer_way_back("All tokens", "token")
    token = require_found(partial(by_id, api.client().admin.scim_tokens.list, token_id), "This token does not exist.")
    revoke = partial(api.client().admin.scim_tokens.revoke, token.token_id)
    show_credential(token, every=every, kind="token", facts=[], revoke=revoke, then=_clear_tokens)


@dialog("New token", NEW, width="large")
def _show_new() -> None:
    notices.show_text("Anyone with this token can add, change and deactivate people. It cannot make anyone an admin.")
    st.text_input("Name", key="scim.name", max_chars=200, placeholder="Entra, production")
    ask_expiry("scim", default="365")
    offer_submit(NEW, "Create", action=_create)


def _create() -> None:
    name = text_in("scim.name", missing="Enter a name for the token.")
    made = api.client().admin.scim_tokens.create(name, expires_at=get_expiry("scim"))
    hint = f"Enter it in your identity provider, with the URL {made.base_url}"
    hold_secret(Secret("The new token", made.token, hint=hint))
    _clear_tokens()


def page() -> None:
    require_admin()
    is_chosen = "token" in st.query_params
    notices.show_title(TITLE, PURPOSE, action=None if is_chosen else partial(offer_dialog, "New token", NEW))
    show_held_secret()
    first = show_errors(first_page)
    if is_chosen:
        _show_token(str(st.query_params["token"]), first.tokens)
    _show_new()
    if not is_chosen:
        _show_address(first)
        show_pages(
            TOKENS,
            pages_of(lambda at: api.client().admin.scim_tokens.list(**at)),
            row=row_of,
            empty=lambda: notices.show_empty(
                "No tokens yet.", "Create a token, and enter it in your identity provider with the URL."
            ),
            go=lambda chosen: notices.look_at("token", chosen.token_id),
        )
        show_errors(_show_refusals)


page()
