"""The dialog that makes an alert rule."""

from typing import cast

import streamlit as st

from app import api
from app.alerts.labels import KINDS
from app.labels import PERSON
from app.ui.dialogs import NotYetError, Secret, close_dialog, hold_secret, is_open, offer_submit
from app.ui.notices import show_note
from app.ui.pickers import get_principals, pick_principals
from carrel.wire.alerts import AlertKind

NEW = "alert_rule"
_WEBHOOK, _MAIL = "Webhook", "Mail"
_KINDS, _TARGET, _URL, _PEOPLE = f"{NEW}.kinds", f"{NEW}.target", f"{NEW}.url", f"{NEW}.people"


@st.dialog("New alert rule", width="medium", on_dismiss=close_dialog)
def show_new(*, mail_enabled: bool) -> None:
    """Show the fields of a rule: which alerts, and a web address or people."""
    if not is_open(NEW):
        st.rerun()
    st.session_state.setdefault(_KINDS, list(KINDS))
    st.multiselect("Alerts", list(KINDS), key=_KINDS, format_func=KINDS.__getitem__)
    target = st.segmented_control("Send them by", [_WEBHOOK, _MAIL], key=_TARGET, default=_WEBHOOK, required=True)
    if target == _WEBHOOK:
        st.text_input("Address", key=_URL, max_chars=2048, placeholder="https://hooks.example.com/carrel")
        show_note("Messages are signed. The secret that verifies them is shown once, when the rule is created.")
    elif mail_enabled:
        pick_principals(_PEOPLE, label="People", kinds=(PERSON,), most=50)
    else:
        show_note("The service can't send mail yet: an operator sets CARREL_SMTP_URL and CARREL_MAIL_FROM.")
    offer_submit(NEW, "Create", action=create, disabled=target == _MAIL and not mail_enabled)


def create() -> None:
    """Create the rule that the dialog's fields describe, and have a webhook's secret shown."""
    kinds = cast("list[AlertKind]", st.session_state[_KINDS])
    if not kinds:
        raise NotYetError("Choose at least one alert.")
    rules = api.client().admin.alert_rules
    if st.session_state[_TARGET] == _MAIL:
        people = get_principals(_PEOPLE)
        if not people:
            raise NotYetError("Choose whom to send mail.")
        rules.create(kinds, emails=[one.id for one in people])
        return
    url = str(st.session_state[_URL] or "").strip()
    if not url:
        raise NotYetError("Give the address that messages are posted to.")
    made = rules.create(kinds, webhook_url=url)
    if made.webhook_secret is not None:
        hint = "The receiver verifies with it that messages come from here (Standard Webhooks)."
        hold_secret(Secret("The webhook's secret", made.webhook_secret, hint=hint))
