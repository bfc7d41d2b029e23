"""Who has to have a second factor beside a password: a part of the page about signing in."""

from functools import partial

import streamlit as st

from app import api
from app.ui.dialogs import confirm
from app.ui.notices import show_text
from carrel.wire.common import SecondFactorPolicy
from carrel.wire.organization import Organization

POLICIES = {
    SecondFactorPolicy.NOBODY: "Nobody",
    SecondFactorPolicy.ADMINS: "Admins",
    SecondFactorPolicy.EVERYBODY: "Everybody",
}


def show_policy(organization: Organization) -> None:
    """Show who has to have a second factor, with a field that changes it."""
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
            action=partial(_change, chosen),
        )


def _change(policy: SecondFactorPolicy) -> None:
    api.client().admin.organization.update(second_factor=policy)
