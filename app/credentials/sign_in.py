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
CLAIMS = {GroupsClaim.NONE: "None: groups are kept here", GroupsClaim.GROUPS: "groups", GroupsClaim.ROLES: "roles"}
CONFIRMING = (
    "A domain counts once it is confirmed to be your organization's. Where Carrel has one organization, that is at "
    "once; where it has several, those who run the service confirm it, and the provider shows until then that it waits."
)
_FLAGS = {
    "trust_addresses": (
        "Trust its addresses though its tokens don't say they are verified",
        "Microsoft Entra ID never says it. Only for an issuer whose accounts are all your organization's.",
    ),
    "create_accounts": ("Make an account at somebody's first sign-in", "It has no rights but those of its groups."),
    "sign_out_there": ("Sign people out there, too, when they sign out here", ""),
}


def open_new() -> None:
    _fill(None)
    open_dialog(NEW)


def open_edit(provider: SignInProvider) -> None:
    _fill(provider)
    open_dialog(EDIT, str(provider.provider_id))


@dialog("New sign-in provider", NEW, width="large")
def show_new() -> None:
    show_text("People of these domains can then sign in with it. Passwords that people have here go on working.")
    st.text_input("Issuer", key="provider.issuer", max_chars=2048, placeholder="https://login.example.com")
    _ask()
    offer_submit(NEW, "Add", action=_create)


@dialog("Change the sign-in provider", EDIT, width="large")
def show_edit(provider: SignInProvider) -> None:
    provider = keep_opened(EDIT, provider)
    show_text(f"Its issuer stays {provider.issuer}. Without a client secret here, the one that is kept stays.")
    _ask()
    offer_submit(EDIT, "Save", action=partial(_update, provider))


def _fill(provider: SignInProvider | None) -> None:
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


def _ask() -> None:
    st.text_input("Name on the button", key="provider.name", max_chars=200, placeholder="Microsoft")
    st.text_input("Client id", key="provider.client_id", max_chars=255)
    st.text_input("Client secret", key="provider.secret", type="password", max_chars=1024)
    st.text_area(
        "Domains of its addresses, one a line", key="provider.domains", placeholder="example.com", help=CONFIRMING
    )
    st.text_area(
        "Other audiences of its tokens, one a line",
        key="provider.audiences",
        help="Some providers name more applications in a token (aud). Without a line here such a token is refused.",
    )
    st.selectbox("Claim that names groups", list(CLAIMS), key="provider.groups", format_func=CLAIMS.__getitem__)
    for flag, (label, hint) in _FLAGS.items():
        st.checkbox(label, key=f"provider.{flag}", help=hint or None)


def _read_fields() -> dict[str, Any]:
    state = st.session_state
    return {
        "name": text_in("provider.name", missing="Give the name on the button."),
        "client_id": text_in("provider.client_id", missing="Give the client id."),
        "client_secret": text_in("provider.secret"),
        "domains": text_in("provider.domains", missing="Give at least one domain.").split(),
        "accepted_audiences": text_in("provider.audiences").split(),
        "groups_claim": state["provider.groups"],
        **{flag: bool(state[f"provider.{flag}"]) for flag in _FLAGS},
    }


def _create() -> None:
    unnamed = "Give the issuer: the address at which the provider describes itself."
    values, issuer = _read_fields(), text_in("provider.issuer", missing=unnamed)
    if not values["client_secret"]:
        raise NotYetError("Give the client secret.")
    api.client().admin.sign_in_providers.create(values.pop("name"), issuer=issuer, **values)


def _update(provider: SignInProvider) -> None:
    update = partial(api.client().admin.sign_in_providers.update, provider.provider_id)
    send_changes(EDIT, provider, _read_fields(), update)


POLICIES = {
    SecondFactorPolicy.NOBODY: "Nobody",
    SecondFactorPolicy.ADMINS: "Admins",
    SecondFactorPolicy.EVERYBODY: "Everybody",
}


def show_policy(organization: Organization) -> None:
    st.subheader("Second factor", anchor=False)
    show_text(
        "Who signs in with a password that is kept here can set up a second factor: a code of an app on the phone, or "
        "a passkey, which also signs in without the password. Who must have one, and has neither, sets one up at the "
        "next sign-in. Sign-ins by another provider are not asked again."
    )
    options = list(POLICIES)
    chosen = st.selectbox(
        "Who must have one",
        options,
        index=options.index(organization.second_factor),
        format_func=POLICIES.__getitem__,
        key="second_factor",
    )
    if chosen is not organization.second_factor and st.button("Save", key="second_factor.save", type="primary"):
        confirm(
            "Change who must have a second factor?",
            "Who set one up is asked for it still. Nobody else is."
            if chosen is SecondFactorPolicy.NOBODY
            else "Who must have one, and has none, sets it up at the next sign-in, and gets nothing before.",
            doing="Change it",
            action=partial(api.client().admin.organization.update, second_factor=chosen, version=organization.version),
        )


def show_passwords(organization: Organization) -> None:
    st.subheader("Passwords", anchor=False)
    on = organization.passwords_enabled
    show_text(
        "People sign in with a password or passkey, or at a sign-in provider."
        if on
        else "Passwords are off: people sign in at a sign-in provider alone. If the provider fails, the people who run "
        "the service let you in: python -m service user set-password --email … --allow-passwords"
    )
    if st.button("Switch passwords off" if on else "Allow passwords", key="passwords"):
        update = api.client().admin.organization.update
        confirm(
            "Switch passwords off?" if on else "Allow passwords?",
            "Browsers that signed in with a password or passkey are signed out, yours too. Applications stay connected."
            if on
            else "People can sign in with the passwords and passkeys that they had before.",
            doing="Switch off" if on else "Allow",
            action=partial(update, passwords_enabled=not on, version=organization.version),
        )
