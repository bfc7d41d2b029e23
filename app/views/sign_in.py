"""The page of sign-in for the organization: providers, and the second factor."""

from functools import partial

import streamlit as st

from app import api
from app.credentials.sign_in import CLAIMS, EDIT, open_edit, open_new, show_edit, show_new, show_passwords, show_policy
from app.formatting import one_line
from app.ui.dialogs import confirm, is_open
from app.ui.errors import require_admin, show_errors
from app.ui.notices import offer_action, show_empty, show_heading, show_table, show_text, show_title, show_warning
from carrel.wire.sign_in_providers import SignInProvider

TITLE, PURPOSE = "Sign-in", "How your people sign in, and what is asked for beside a password."
_MOST = 100
_YES_NO = {True: "yes", False: "no"}


def _offer_new() -> None:
    offer_action("New provider", open_new, key="new.open", icon="add", kind="primary")


def _show_provider(provider: SignInProvider) -> None:
    key = f"provider.{provider.provider_id}"
    with st.container(border=True):
        show_heading(one_line(provider.name), provider.issuer)
        if not provider.has_client_secret:
            show_warning("Its client secret was lost with the service's key.", "Give it again by Change.")
        if provider.unconfirmed_domains:
            show_warning(
                f"Not confirmed yet: {one_line(', '.join(provider.unconfirmed_domains))}",
                "Nobody with such an address signs in with it for the first time. Ask those who run the service to "
                f"confirm that it is yours: python -m service domains confirm {provider.unconfirmed_domains[0]}",
            )
        show_table(
            [
                ("Client id", one_line(provider.client_id)),
                ("Domains", one_line(", ".join(provider.domains))),
                ("Its addresses are trusted", _YES_NO[provider.trust_addresses]),
                ("Claim that names groups", CLAIMS[provider.groups_claim]),
                ("Makes accounts", _YES_NO[provider.create_accounts]),
                ("Signs out there", _YES_NO[provider.sign_out_there]),
                ("Register there: redirect address", provider.redirect_uri),
                ("Register there: after signing out", provider.logout_redirect_uri),
                ("Register there: back-channel logout", provider.backchannel_logout_uri),
            ],
            named=True,
        )
        with st.container(horizontal=True):
            if st.button("Test", key=f"{key}.test"):
                test = partial(api.client().admin.sign_in_providers.test, provider.provider_id)
                if problems := show_errors(test).problems:
                    show_warning("People can't sign in with it as it is.", *problems)
                else:
                    show_text("Nothing is wrong, as far as can be told without signing in.")
            offer_action("Change", open_edit, provider, key=f"{key}.edit", icon="edit")
            if st.button("Delete", key=f"{key}.delete", icon=":material/delete:"):
                confirm(
                    "Delete this provider?",
                    f"Nobody signs in with “{provider.name}” any more. Accounts and memberships that came by it stay; "
                    "who has no password here can't sign in until they are invited.",
                    doing="Delete it",
                    action=partial(api.client().admin.sign_in_providers.delete, provider.provider_id),
                )


def page() -> None:
    require_admin()
    show_title(TITLE, PURPOSE, action=_offer_new)
    listed = show_errors(lambda: next(api.client().admin.sign_in_providers.list(page_size=_MOST).pages()))
    if not (providers := listed.sign_in_providers):
        show_empty(
            "People sign in with a password here.",
            "Add your organization's provider: Microsoft Entra ID, Okta, Google, Keycloak, or another that speaks "
            "OpenID Connect.",
        )
    for provider in providers:
        _show_provider(provider)
    organization = show_errors(api.client().admin.organization.get)
    show_policy(organization)
    show_passwords(organization)
    show_new()
    for provider in providers:
        if is_open(EDIT, str(provider.provider_id)):
            show_edit(provider)


page()
