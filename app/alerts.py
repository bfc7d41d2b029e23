"""The alerts on the page Health: open alerts, the rules, and the last deliveries."""

from collections.abc import Mapping
from functools import partial
from typing import cast

import streamlit as st

from app import api
from app.formatting import ago, one_line
from app.labels import PERSON
from app.ui.dialogs import (
    NotYetError,
    Secret,
    confirm,
    dialog,
    hold_secret,
    offer_submit,
    open_dialog,
    show_held_secret,
    text_in,
)
from app.ui.errors import show_errors
from app.ui.notices import LinkedText, address, show_empty, show_heading, show_note, show_table, show_text
from app.ui.pickers import get_principals, pick_principals
from carrel.wire.alerts import (
    AdminAlertRulesListDeliveriesResponse,
    AdminAlertRulesListResponse,
    AdminAlertsListResponse,
    Alert,
    AlertDelivery,
    AlertKind,
    AlertRule,
    DeliveryStatus,
)
from flows.operations.formatting import count_text

KINDS: Mapping[AlertKind, str] = {
    AlertKind.RUN_FAILED: "A run failed",
    AlertKind.RUN_QUARANTINE: "A run could not load everything",
    AlertKind.SYNC_BEHIND: "A sync is behind",
    AlertKind.SCHEDULE_MISSED: "A schedule was missed",
}
STATUSES: Mapping[DeliveryStatus, str] = {
    DeliveryStatus.PENDING: "Will be tried again",
    DeliveryStatus.DELIVERED: "Delivered",
    DeliveryStatus.FAILED: "Not delivered",
}
MESSAGES: Mapping[str, str] = {
    "alert.began": "Something failed",
    "alert.continues": "It still fails",
    "alert.ended": "It works again",
    "alert.test": "Test",
    "alert.left_out": "Messages were left out",
}


def _alert_row(alert: Alert) -> tuple[LinkedText | str, str, str, str]:
    count = alert.quarantined_count
    why = alert.code if count is None else f"{count_text(count, 'item')} not loaded"
    return _link(alert), one_line(about(alert)), why, ago(alert.began_at)


def about(alert: Alert) -> str:
    """Return what an alert is about: a source with the kind of its run and its documents, a sync or a schedule."""
    documents = None if alert.document_count is None else count_text(alert.document_count, "document")
    return " · ".join(part for part in (alert.name, alert.flow, documents) if part)


def _link(alert: Alert) -> LinkedText | str:
    kind = KINDS[alert.kind]
    if alert.sync_id is not None:
        return LinkedText(kind, address("syncs", sync=str(alert.sync_id)))
    return kind if alert.flow_run_id is None else LinkedText(kind, address("ingestion", run=str(alert.flow_run_id)))


def _delivery_row(delivery: AlertDelivery) -> tuple[str, str, str, str]:
    last = delivery.attempts[-1] if delivery.attempts else None
    why = f": {last.error}" if last is not None and last.error else ""
    to = "webhook" if delivery.recipient is None else one_line(delivery.recipient.email)
    status = "On its way" if last is None else STATUSES[delivery.status]
    return ago(delivery.created_at), MESSAGES.get(delivery.type, delivery.type), to, f"{status}{why}"


def _target_of(rule: AlertRule) -> str:
    return rule.webhook_url or one_line(", ".join(one.email for one in rule.recipients)) or "nobody any more"


NEW = "alert_rule"
_WEBHOOK, _MAIL = "Webhook", "Mail"
_KINDS, _TARGET, _URL, _PEOPLE = f"{NEW}.kinds", f"{NEW}.target", f"{NEW}.url", f"{NEW}.people"


@dialog("New alert rule", NEW, width="medium")
def _show_new(*, mail_enabled: bool) -> None:
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
    url = text_in(_URL, missing="Give the address that messages are posted to.")
    made = rules.create(kinds, webhook_url=url)
    if made.webhook_secret is not None:
        hint = "The receiver verifies with it that messages come from here (Standard Webhooks)."
        hold_secret(Secret("The webhook's secret", made.webhook_secret, hint=hint))


_SHOWN = 20
_MOST_RULES = 100


def show_alerts() -> None:
    """Show what is wrong, who is told, and what was sent to whom."""
    show_held_secret()
    listed = show_errors(_rules)
    with st.container(horizontal=True, vertical_alignment="center"):
        show_heading("Alerts", "Somebody is told when loading fails, and when it works again.")
        st.button("New alert rule", key="alerts.new", icon=":material/add:", on_click=open_dialog, args=(NEW,))
    _show_open()
    if not listed.alert_rules:
        show_empty("Nobody is told.", "Create an alert rule: it posts to a web address, or sends mail to people.")
    for rule in listed.alert_rules:
        _show_rule(rule)
    if listed.alert_rules:
        _show_deliveries()
    _show_new(mail_enabled=listed.mail_enabled)


def _show_open() -> None:
    found = show_errors(_open_alerts).alerts
    if not found:
        show_text("No alert is open.")
        return
    show_table(map(_alert_row, found), heads=("Alert", "Of", "Reason", "Since"))
    by_id = {str(one.alert_id): one for one in found}
    with st.container(horizontal=True, vertical_alignment="bottom"):
        chosen = st.selectbox(
            "End an alert of what nobody runs any more",
            list(by_id),
            index=None,
            key="alert.end",
            format_func=lambda one: f"{KINDS[by_id[one].kind]} · {one_line(about(by_id[one]))}",
        )
        st.button("End", key="alert.end.do", disabled=chosen is None, on_click=_end, args=(chosen,))


def _end(alert_id: str | None) -> None:
    if alert_id is not None:
        show_errors(partial(api.client().admin.alerts.end, alert_id))


def _show_rule(rule: AlertRule) -> None:
    key = f"alert_rule.{rule.alert_rule_id}"
    with st.container(horizontal=True, vertical_alignment="center", border=True):
        paused = "" if rule.enabled else " · paused"
        every = len(rule.kinds) == len(AlertKind)
        kinds = "Every alert" if every else "; ".join(KINDS[kind] for kind in rule.kinds)
        show_text(f"{kinds} → {_target_of(rule)}{paused}")
        if st.button("Send a test", key=f"{key}.test"):
            show_errors(partial(api.client().admin.alert_rules.test, rule.alert_rule_id))
            st.toast("A test is on its way. Its outcome is in the list below after a refresh.")
        label = "Pause" if rule.enabled else "Resume"
        st.button(label, key=f"{key}.pause", on_click=_set_enabled, args=(rule,))
        if st.button("Delete", key=f"{key}.delete", icon=":material/delete:"):
            confirm(
                "Delete this alert rule?",
                f"{_target_of(rule)} is told nothing any more. Its secret and the list of its deliveries are deleted.",
                doing="Delete it",
                action=partial(api.client().admin.alert_rules.delete, rule.alert_rule_id),
            )


def _set_enabled(rule: AlertRule) -> None:
    show_errors(partial(api.client().admin.alert_rules.update, rule.alert_rule_id, enabled=not rule.enabled))


def _show_deliveries() -> None:
    found = show_errors(_deliveries).deliveries
    if not found:
        show_note("Nothing was sent yet.")
        return
    show_table(map(_delivery_row, found), heads=("Sent", "Message", "To", "Outcome"))
    st.button("Refresh", key="alerts.refresh", icon=":material/refresh:")


def _rules() -> AdminAlertRulesListResponse:
    return next(api.client().admin.alert_rules.list(page_size=_MOST_RULES).pages())


def _open_alerts() -> AdminAlertsListResponse:
    return next(api.client().admin.alerts.list(only_open=True, page_size=_SHOWN).pages())


def _deliveries() -> AdminAlertRulesListDeliveriesResponse:
    return next(api.client().admin.alert_rules.list_deliveries(page_size=_SHOWN).pages())
