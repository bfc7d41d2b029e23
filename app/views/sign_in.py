"""The page of sign-in for the organization: providers, and the second factor."""

from functools import partial

import streamlit as st

from app import api
from app.credentials.sign_in import CLAIMS, open_edit, open_new, show_edit, show_new, show_passwords, show_policy
from app.formatting import one_line
from app.ui.dialogs import confirm
from app.ui.errors import require_admin, show_errors
from app.ui.notices import offer_action, show_empty, show_heading, show_table, show_text, show_title, show_warning
from carrel.wire.sign_in_providers import SignInProvider

TITLE, PURPOSE = "Sign-in", "How people sign in, and whether they need a second factor."
_MOST = 100
_YES_NO = {True: "Yes", False: "No"}


def _show_provider(provider: SignInProvider) -> None:
    key = f"provider.{provider.provider_id}"
    with st.container(border=True):
        show_heading(one_line(provider.name), provider.issuer)
        if not provider.has_client_secret:
            show_warning("The client secret was lost with the service's key.", "Select Change, and enter it again.")
        if provider.unconfirmed_domains:
            show_warning(
                f"Not confirmed yet: {one_line(', '.join(provider.unconfirmed_domains))}",
                "People with these addresses cannot sign in for the first time. Ask the operator of the service to "
                f"confirm the domain: python -m service domains confirm {provider.unconfirmed_domains[0]}",
            )
        show_table(
            [
                ("Client id", one_line(provider.client_id)),
                ("Domains", one_line(", ".join(provider.domains))),
                ("Trusts email addresses", _YES_NO[provider.trust_addresses]),
                ("Groups claim", CLAIMS[provider.groups_claim]),
                ("Creates accounts", _YES_NO[provider.create_accounts]),
                ("Signs out at the provider", _YES_NO[provider.sign_out_there]),
                ("Redirect URL to register", provider.redirect_uri),
                ("Post-logout URL to register", provider.logout_redirect_uri),
                ("Back-channel logout URL to register", provider.backchannel_logout_uri),
            ],
            named=True,
        )
        with st.container(horizontal=True):
            if st.button("Test", key=f"{key}.test"):
                test = partial(api.client().admin.sign_in_providers.test, provider.provider_id)
                if problems := show_errors(test).problems:
                    show_warning("People cannot sign in with this provider.", *problems)
                else:
                    show_text("No problems found. Sign in to test the rest.")
            offer_action("Change", open_edit, provider, key=f"{key}.edit", icon="edit")
            if st.button("Delete …", key=f"{key}.delete", icon=":material/delete:"):
                confirm(
                    "Delete this provider?",
                    f"Nobody can sign in with “{provider.name}” afterwards. Accounts and group memberships stay. "
                    "People without a password cannot sign in until you invite them.",
                    action=partial(api.client().admin.sign_in_providers.delete, provider.provider_id),
                )


def page() -> None:
    require_admin()
    new = partial(offer_action, "New provider", open_new, key="new.open", icon="add", kind="primary")
    show_title(TITLE, PURPOSE, action=new)
    listed = show_errors(lambda: next(api.client().admin.sign_in_providers.list(page_size=_MOST).pages()))
    if not (providers := listed.sign_in_providers):
        show_empty(
            "No sign-in providers yet.",
            "Add your organization's provider: Microsoft Entra ID, Okta, Google, Keycloak or another OpenID "
            "Connect provider.",
        )
    for provider in providers:
        _show_provider(provider)
    organization = show_errors(api.client().admin.organization.get)
    show_policy(organization)
    show_passwords(organization)
    show_new()
    for provider in providers:
        show_edit(provider)


page()
