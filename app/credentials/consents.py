"""What people allowed applications: a part of the page about applications, of all of them and of one."""

from functools import partial

import streamlit as st

from app import api
from app.credentials.applications import CONSENTS, agents, clear_caches
from app.formatting import one_line
from app.labels import PERSON, scopes_named
from app.ui.dialogs import confirm
from app.ui.errors import show_errors
from app.ui.notices import show_empty
from app.ui.pickers import pick_principals
from app.ui.tables import PAGE_ROWS, Source, show_pages, time_cell
from carrel.wire.oauth_clients import AdminOAuthClientsListConsentsResponse, OAuthClient, OAuthConsent


def show_consents(client: OAuthClient | None = None) -> None:
    """Show who allowed what to which application, or to this one; one consent can be withdrawn, or all of this one."""
    st.header("Connected for people", anchor=False)
    people = [] if client else pick_principals("consents.person", label="Of this person", kinds=(PERSON,), most=1)
    email = people[0].id if people else None

    def fetch(token: str | None) -> AdminOAuthClientsListConsentsResponse:
        listed = api.client().admin.oauth_clients.list_consents(
            client_id=client and client.client_id, email=email, page_size=PAGE_ROWS, page_token=token
        )
        return next(listed.pages())

    nobody: list[bool] = []

    def show_none() -> None:
        nobody.append(True)
        _show_none(email)

    chosen = show_pages(
        CONSENTS,
        Source(fetch, lambda page: page.consents, about=(client and client.client_id, email)),
        row=partial(_row, names=show_errors(agents), with_client=client is None),
        empty=show_none,
        columns=dict.fromkeys(("Application", "May", "Narrowed to"), st.column_config.TextColumn(width="small")),
        hint="Choose a row to withdraw what the person allowed.",
    )
    if chosen is not None and st.button("Withdraw it", key="consent.withdraw"):
        confirm(
            "Withdraw this consent?",
            f"“{chosen.application_name}” does nothing for {chosen.person_name} ({chosen.email}) from the next request "
            "on. They can allow it again.",
            doing="Withdraw it",
            action=partial(_withdraw, chosen, chosen.email),
        )
    if client is not None and not nobody:
        _offer_withdrawal(client)


def _offer_withdrawal(client: OAuthClient) -> None:
    """Offer to withdraw what everybody has allowed an application."""
    if st.button("Withdraw all", key="consents.withdraw", icon=":material/link_off:"):
        confirm(
            "Withdraw it for everybody?",
            f"“{client.name}” does nothing for anybody from the next request on. People can allow it again: to prevent "
            "that, delete the application, or take its host away.",
            doing="Withdraw all",
            action=partial(_withdraw, client, None),
        )


def _row(consent: OAuthConsent, *, names: dict[str, str], with_client: bool) -> dict[str, object]:
    narrowed_to = "not narrowed" if consent.collection_ids is None else ", ".join(consent.collection_names or [])
    return {
        "Person": f"{one_line(consent.person_name)} ({consent.email})",
        **({"Application": one_line(consent.application_name)} if with_client else {}),
        "May": one_line(scopes_named(consent.scopes, agents=names)),
        "Narrowed to": one_line(narrowed_to) or "collections that are gone",
        "Allowed": time_cell(consent.granted_at),
        "Last used": time_cell(consent.last_used_at),
    }


def _show_none(email: str | None) -> None:
    if email is not None:
        show_empty("This person has allowed no application anything.")
    else:
        show_empty("Nobody has allowed anything yet.", "People are asked when an application first sends them here.")


def _withdraw(of: OAuthClient | OAuthConsent, email: str | None) -> None:
    api.client().admin.oauth_clients.withdraw_consents(of.client_id, email=email)
    clear_caches()
