"""The section about alerts: what is wrong now, the rules, and the last deliveries."""

from functools import partial

import streamlit as st

from app import api
from app.alerts.form import NEW, show_new
from app.alerts.labels import KINDS, about, alert_row, delivery_row, kinds_of, target_of
from app.formatting import one_line
from app.ui.dialogs import confirm, is_open, open_dialog, show_held_secret
from app.ui.errors import show_errors
from app.ui.notices import show_empty, show_heading, show_note, show_table, show_text
from carrel.wire.alerts import (
    AdminAlertRulesListDeliveriesResponse,
    AdminAlertRulesListResponse,
    AdminAlertsListResponse,
    AlertRule,
)

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
    if is_open(NEW):
        show_new(mail_enabled=listed.mail_enabled)


def _show_open() -> None:
    found = show_errors(_open_alerts).alerts
    if not found:
        show_text("No alert is open.")
        return
    show_table(map(alert_row, found), heads=("Alert", "Of", "Reason", "Since"))
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
    """Show a rule with its buttons."""
    key = f"alert_rule.{rule.alert_rule_id}"
    with st.container(horizontal=True, vertical_alignment="center", border=True):
        paused = "" if rule.enabled else " · paused"
        show_text(f"{kinds_of(rule)} → {target_of(rule)}{paused}")
        if st.button("Send a test", key=f"{key}.test"):
            show_errors(partial(api.client().admin.alert_rules.test, rule.alert_rule_id))
            st.toast("A test is on its way. Its outcome is in the list below after a refresh.")
        label = "Pause" if rule.enabled else "Resume"
        st.button(label, key=f"{key}.pause", on_click=_set_enabled, args=(rule,))
        if st.button("Delete", key=f"{key}.delete", icon=":material/delete:"):
            confirm(
                "Delete this alert rule?",
                f"{target_of(rule)} is told nothing any more. Its secret and the list of its deliveries are deleted.",
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
    show_table(map(delivery_row, found), heads=("Sent", "Message", "To", "Outcome"))
    st.button("Refresh", key="alerts.refresh", icon=":material/refresh:")


def _rules() -> AdminAlertRulesListResponse:
    return next(api.client().admin.alert_rules.list(page_size=_MOST_RULES).pages())


def _open_alerts() -> AdminAlertsListResponse:
    return next(api.client().admin.alerts.list(only_open=True, page_size=_SHOWN).pages())


def _deliveries() -> AdminAlertRulesListDeliveriesResponse:
    return next(api.client().admin.alert_rules.list_deliveries(page_size=_SHOWN).pages())
