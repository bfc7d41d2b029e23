"""Sign-in providers, and the second factor after a password."""

from functools import partial
from typing import Any

import streamlit as st

from app import api
from app.ui.dialogs import NotYetError, confirm, dialog, offer_submit, open_dialog, text_in
from app.ui.notices import show_text
from app.ui.saving import keep_opened, send_changes
from carrel.wire.common import SecondFactorPolicy
from carrel.wire.organization import Organization
from carrel.wire.sign_in_providers import GroupsClaim, SignInProvider

NEW, EDIT = "new_provider", "edit_provider"
CLAIMS = {GroupsClaim.NONE: "None: groups are managed here", GroupsClaim.GROUPS: "groups", GroupsClaim.ROLES: "roles"}
CONFIRMING = (
    "Carrel uses a domain when it is confirmed as your organization's. With a single organization, this is "
    "immediate. With several, the operator of the service confirms it; the provider shows that it waits."
)
_FLAGS = {
    "trust_addresses": (
        "Trust email addresses that are not marked as verified",
        "Microsoft Entra ID never marks them. Use this only if all accounts of the issuer belong to your organization.",
    ),
    "create_accounts": ("Create an account at the first sign-in", "A new account has only the access of its groups."),
    "sign_out_there": ("Sign people out at the provider when they sign out here", ""),
}


def open_new() -> None:
    _fill_fields(None)
    open_dialog(NEW)


def open_edit(provider: SignInProvider) -> None:
    _fill_fields(provider)
    open_dialog(EDIT, str(provider.provider_id))


@dialog("New sign-in provider", NEW, width="large")
def show_new() -> None:
    show_text("People of these domains can then sign in with this provider. Existing passwords keep working.")
    st.text_input("Issuer", key="provider.issuer", max_chars=2048, placeholder="https://login.example.com")
    _ask_fields()
    offer_submit(NEW, "Add", action=_create)


@dialog("Change sign-in provider", EDIT, of="provider_id", width="large")
def show_edit(provider: SignInProvider) -> None:
    provider = keep_opened(EDIT, provider)
    show_text(f"The issuer stays {provider.issuer}. Leave the client secret empty to keep the current secret.")
    _ask_fields()
    offer_submit(EDIT, "Save", action=partial(_update, provider))


def _fill_fields(provider: SignInProvider | None) -> None:
    state = st.session_state
    for text in ("issuer", "secret", "name", "client_id", "domains", "audiences"):
        state[f"provider.{text}"] = ""
    state["provider.groups"] = GroupsClaim.NONE if provider is None else provider.groups_claim
    for flag in _FLAGS:
        state[f"provider.{flag}"] = provider is not None and bool(getattr(provider, flag))
    if provider is not None:
        state["provider.name"], state["provider.client_id"] = provider.name, provider.client_id
        state["provider.domains"] = "\n".join(provider.domains)
        state["provider.audiences"] = "\n".join(provider.accepted_audiences)


def _ask_fields() -> None:
    st.text_input("Button label", key="provider.name", max_chars=200, placeholder="Microsoft")
    st.text_input("Client id", key="provider.client_id", max_chars=255)
    # A password field sends no event when Tab moves from the field to its own button.
    st.text_input("Client secret", key="provider.secret", type="password", max_chars=1024, live="250ms")
    st.text_area("Email domains, one per line", key="provider.domains", placeholder="example.com", help=CONFIRMING)
    st.text_area(
        "Additional audiences, one per line",
        key="provider.audiences",
        help="Some providers name other applications in a token (aud). Carrel refuses names that are not listed here.",
    )
    st.selectbox("Groups claim", list(CLAIMS), key="provider.groups", format_func=CLAIMS.__getitem__)
    for flag, (label, hint) in _FLAGS.items():
        st.checkbox(label, key=f"provider.{flag}", help=hint or None)


def _read_fields() -> dict[str, Any]:
    """Return the values in the dialog's fields, except the issuer. Raises NotYetError."""
    state = st.session_state
    return {
        "name": text_in("provider.name", missing="Enter the button label."),
        "client_id": text_in("provider.client_id", missing="Enter the client id."),
        "client_secret": text_in("provider.secret"),
        "domains": text_in("provider.domains", missing="Enter at least one domain.").split(),
        "accepted_audiences": text_in("provider.audiences").split(),
        "groups_claim": state["provider.groups"],
        **{flag: bool(state[f"provider.{flag}"]) for flag in _FLAGS},
    }


def _create() -> None:
    unnamed = "Enter the issuer: the URL at which the provider publishes its configuration."
    values, issuer = _read_fields(), text_in("provider.issuer", missing=unnamed)
    if not values["client_secret"]:
        raise NotYetError("Enter the client secret.")
    api.client().admin.sign_in_providers.create(values.pop("name"), issuer=issuer, **values)


def _update(provider: SignInProvider) -> None:
    update = partial(api.client().admin.sign_in_providers.update, provider.provider_id)
    send_changes(EDIT, provider, _read_fields(), update)


POLICIES = {
    SecondFactorPolicy.NOBODY: "Nobody",
    SecondFactorPolicy.ADMINS: "Admins",
    SecondFactorPolicy.EVERYBODY: "Everyone",
}


def show_policy(organization: Organization) -> None:
    st.subheader("Second factor", anchor=False)
    show_text(
        "People who sign in with a Carrel password can set up a second factor: a code from an authenticator "
        "app, or a passkey, which also replaces the password. People who need a second factor set it up at "
        "their next sign-in. Carrel does not ask for it after a sign-in at a provider."
    )
    options = list(POLICIES)
    chosen = st.selectbox(
        "Required for",
        options,
        index=options.index(organization.second_factor),
        format_func=POLICIES.__getitem__,
        key="second_factor",
    )
    if chosen is not organization.second_factor and st.button("Save", key="second_factor.save", type="primary"):
        confirm(
            "Change who needs a second factor?",
            "People who set up a second factor still need it. Nobody else does."
            if chosen is SecondFactorPolicy.NOBODY
            else "People who need a second factor and have none must set it up at their next sign-in.",
            action=partial(api.client().admin.organization.update, second_factor=chosen, version=organization.version),
        )


def show_passwords(organization: Organization) -> None:
    st.subheader("Passwords", anchor=False)
    on = organization.passwords_enabled
    show_text(
        "People sign in with a password, a passkey or a sign-in provider."
        if on
        else "Passwords are off: people sign in only with a sign-in provider. If the provider fails, the operator "
        "of the service can let you in: python -m service user set-password --email … --allow-passwords"
    )
    if st.button("Turn off passwords" if on else "Allow passwords", key="passwords"):
        update = api.client().admin.organization.update
        confirm(
            "Turn off passwords?" if on else "Allow passwords?",
            "This signs out browsers that used a password or passkey, including yours. Applications stay connected."
            if on
            else "People can sign in with their previous passwords and passkeys.",
            doing="Turn off" if on else "Allow",
            action=partial(update, passwords_enabled=not on, version=organization.version),
        )
