"""The alerts on the Health page: open alerts, rules, and recent deliveries."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, cast
from uuid import UUID

import streamlit as st

from app import api
from app.formatting import ago, moment, one_line
from app.labels import DELIVERIES, MESSAGES, PERSON, RUN_KINDS
from app.loading.runs import source_in_words
from app.ui import dialogs
from app.ui.errors import show_errors
from app.ui.notices import LinkedText, address, offer_action, show_empty, show_heading, show_note, show_table, show_text
from app.ui.pickers import Principal, get_principals, pick_principals
from app.ui.saving import keep_opened, send_changes
from app.ui.tables import forget, pages_of, show_text_pages
from carrel.wire.alerts import ALERT_TITLES as KINDS
from carrel.wire.alerts import Alert, AlertDelivery, AlertKind, AlertRule
from carrel.wire.common import UserPrincipal
from flows.operations.formatting import count_text


def _alert_row(alert: Alert) -> tuple[LinkedText, str, str, str]:
    notes = [alert.text or alert.code]
    if alert.acknowledged_at is not None:
        notes.append(f"Acknowledged by {one_line(alert.acknowledged_by or 'an admin')}.")
    if alert.snoozed_until is not None and alert.snoozed_until > datetime.now(UTC):
        notes.append(f"Snoozed until {moment(alert.snoozed_until)}.")
    return LinkedText(KINDS[alert.kind], place_of(alert)), one_line(about(alert)), " ".join(notes), ago(alert.began_at)


def about(alert: Alert) -> str:
    """Return the subject of an alert: a source with kind of run and documents, a sync, or a schedule."""
    documents = None if alert.document_count is None else count_text(alert.document_count, "document")
    if documents and alert.quarantined_count:
        documents = f"{alert.quarantined_count:,} of {documents}"
    kind = RUN_KINDS.get(alert.flow or "", alert.flow)
    return " · ".join(filter(None, (source_in_words(alert.name), kind, documents)))


def place_of(alert: Alert) -> str:
    """Return the address of the page where a person can act on an alert."""
    if alert.sync_id is not None:
        return address("syncs", sync=str(alert.sync_id))
    if alert.source_id is not None:
        return address("ingestion", part="quarantine", source=str(alert.source_id))
    if alert.flow_run_id is not None:
        return address("ingestion", run=str(alert.flow_run_id))
    return address("ingestion", part="schedules" if alert.kind is AlertKind.SCHEDULE_MISSED else "sources")


def _delivery_row(delivery: AlertDelivery) -> tuple[str, str, str, str]:
    last = delivery.attempts[-1] if delivery.attempts else None
    why = f": {last.error}" if last is not None and last.error else ""
    to = "webhook" if delivery.recipient is None else one_line(delivery.recipient.email)
    status = "Sending" if last is None else DELIVERIES[delivery.status]
    name: str = (delivery.message or {}).get("data", {}).get("name", "")
    message = ": ".join(filter(None, (MESSAGES.get(delivery.type, delivery.type), one_line(source_in_words(name)))))
    return ago(delivery.created_at), message, to, f"{status}{why}"


def _target_of(rule: AlertRule) -> str:
    return rule.webhook_url or one_line(", ".join(recipient.email for recipient in rule.recipients)) or "nobody"


NEW = "alert_rule"
_WEBHOOK, _MAIL = "Webhook", "Email"
_KINDS, _NAMES, _TARGET, _URL, _PEOPLE = (f"{NEW}.{part}" for part in ("kinds", "names", "target", "url", "people"))


def _open_rule(rule: AlertRule | None) -> None:
    st.session_state[_KINDS] = list(KINDS) if rule is None else rule.kinds
    st.session_state[_NAMES] = [] if rule is None else rule.names
    st.session_state[_TARGET] = _WEBHOOK
    st.session_state[_URL] = "" if rule is None else rule.webhook_url or ""
    dialogs.open_dialog(NEW, "" if rule is None else str(rule.alert_rule_id), _PEOPLE)


def _is_mail(rule: AlertRule | None) -> bool:
    return st.session_state[_TARGET] == _MAIL if rule is None else rule.webhook_url is None


@dialogs.dialog("Alert rule", NEW, width="medium")
def _show_rule_fields(rules: list[AlertRule], names: list[str], *, mail_enabled: bool) -> None:
    rule = keep_opened(NEW, next((item for item in rules if dialogs.is_open(NEW, str(item.alert_rule_id))), None))
    st.multiselect("Alerts", list(KINDS), key=_KINDS, format_func=KINDS.__getitem__)
    options = list(dict.fromkeys([*st.session_state[_NAMES], *names]))
    every = "All sources, syncs and schedules"
    st.multiselect("Limit to", options, key=_NAMES, accept_new_options=True, placeholder=every)
    if rule is None:
        st.segmented_control("Send by", [_WEBHOOK, _MAIL], key=_TARGET, required=True)
    if not (is_mail := _is_mail(rule)):
        st.text_input("Webhook URL", key=_URL, max_chars=2048, placeholder="https://hooks.example.com/carrel")
        show_note("Messages are signed. Carrel shows the signing secret once, when you create the rule.")
    elif mail_enabled:
        chosen = [Principal(PERSON, recipient.email, recipient.name) for recipient in rule.recipients] if rule else []
        pick_principals(_PEOPLE, label="People", chosen=chosen, kinds=(PERSON,), most=50)
    else:
        show_note("The service cannot send email. An operator must set CARREL_SMTP_URL and CARREL_MAIL_FROM.")
    show_note("Open alerts are sent immediately.")
    action = partial(save_rule, rule)
    dialogs.offer_submit(NEW, "Save" if rule else "Create", action=action, disabled=is_mail and not mail_enabled)


def save_rule(rule: AlertRule | None) -> None:
    """Create or change a rule from the dialog's fields. A new webhook's secret is held. Raises NotYetError."""
    kinds, names = cast("list[AlertKind]", st.session_state[_KINDS]), cast("list[str]", st.session_state[_NAMES])
    if not kinds:
        raise dialogs.NotYetError("Choose at least one alert.")
    url = emails = None
    if _is_mail(rule):
        if not (emails := [principal.id for principal in get_principals(_PEOPLE)]):
            raise dialogs.NotYetError("Choose at least one recipient.")
    else:
        url = dialogs.text_in(_URL, missing="Enter the webhook URL.")
    rules = api.client().admin.alert_rules
    if rule is not None:
        people = [recipient for recipient in rule.recipients if recipient.email in (emails or ())]
        new = sorted({*(emails or ())} - {person.email for person in people})
        people += [UserPrincipal(email=item, id="", name=item) for item in new]
        kinds = [kind for kind in AlertKind if kind in kinds]
        written = {"kinds": kinds, "names": sorted(names), "webhook_url": url, "recipients": people}
        send_changes(NEW, rule, written, partial(_update_rule, rule.alert_rule_id))
    elif secret := rules.create(kinds, names=names, webhook_url=url, emails=emails).webhook_secret:
        hint = "The receiver uses it to verify that messages come from Carrel (Standard Webhooks)."
        dialogs.hold_secret(dialogs.Secret("Webhook secret", secret, hint=hint))


def _update_rule(rule_id: UUID, *, recipients: Sequence[UserPrincipal] | None = None, **changed: Any) -> None:
    emails = None if recipients is None else [recipient.email for recipient in recipients]
    api.client().admin.alert_rules.update(rule_id, emails=emails, **changed)


_SHOWN, OPEN = 20, "alerts.open"


def show_alerts() -> None:
    dialogs.show_held_secret()
    listed = show_errors(lambda: next(api.client().admin.alert_rules.list(page_size=100).pages()))
    with st.container(horizontal=True, vertical_alignment="center"):
        show_heading("Alerts", "Carrel sends messages when loading fails, and when it works again.")
        offer_action("New alert rule", _open_rule, None, key="alerts.new", icon="add")
    found = _show_open_alerts()
    if not listed.alert_rules:
        show_empty("No alert rules yet.", "Create an alert rule to send messages to a webhook or by email.")
    for rule in listed.alert_rules:
        _show_rule(rule)
    if listed.alert_rules:
        _show_deliveries()
    _show_rule_fields(listed.alert_rules, sorted({alert.name for alert in found}), mail_enabled=listed.mail_enabled)


def _show_open_alerts() -> Sequence[Alert]:
    listed, heads = api.client().admin.alerts.list, ("Alert", "Source", "Reason", "Since")
    source = pages_of(lambda at: listed(only_open=True, **at))
    if not (found := show_text_pages(OPEN, source, heads=heads, row=_alert_row)):
        show_text("No open alerts.")
        return ()
    by_id = {str(alert.alert_id): alert for alert in found}
    with st.container(horizontal=True, vertical_alignment="bottom"):
        chosen = st.selectbox(
            "Choose an alert",
            list(by_id),
            index=None,
            key="alert.end",
            format_func=lambda item: f"{KINDS[by_id[item].kind]} · {one_line(about(by_id[item]))}",
        )
        days = {f"Snooze for {count_text(number, 'day')}": number for number in (1, 7)}
        until = {label: {"snoozed_until": datetime.now(UTC) + timedelta(days=day)} for label, day in days.items()}
        for label, change in {"Acknowledge": {"acknowledged": True}, **until, "End": None}.items():
            offer_action(label, _change_alert, chosen, change, key=f"alert.{label}", disabled=chosen is None)
    show_note("End an alert if its source is no longer used. Carrel sends an acknowledged alert again if it changes.")
    return found


def _change_alert(alert_id: str | None, change: dict[str, Any] | None) -> None:
    forget(OPEN)
    if alert_id is not None:
        alerts = api.client().admin.alerts
        show_errors(partial(alerts.end, alert_id) if change is None else partial(alerts.update, alert_id, **change))


def _show_rule(rule: AlertRule) -> None:
    key = f"alert_rule.{rule.alert_rule_id}"
    with st.container(horizontal=True, vertical_alignment="center", border=True):
        kinds = "All alerts" if len(rule.kinds) == len(AlertKind) else "; ".join(KINDS[kind] for kind in rule.kinds)
        only = f" for {one_line(', '.join(rule.names))}" if rule.names else ""
        show_text(f"{kinds}{only} → {_target_of(rule)}{'' if rule.enabled else ' · paused'}")
        offer_action("Change", _open_rule, rule, key=f"{key}.change", icon="edit")
        if st.button("Send test", key=f"{key}.test"):
            show_errors(partial(api.client().admin.alert_rules.test, rule.alert_rule_id))
            st.toast("Test sent. The list below shows the result.")
        offer_action("Pause" if rule.enabled else "Resume", _set_enabled, rule, key=f"{key}.pause")
        if st.button("Delete …", key=f"{key}.delete", icon=":material/delete:"):
            dialogs.confirm(
                "Delete this alert rule?",
                f"{_target_of(rule)} gets no more messages. The secret and the delivery list are deleted.",
                action=partial(api.client().admin.alert_rules.delete, rule.alert_rule_id),
            )


def _set_enabled(rule: AlertRule) -> None:
    update = api.client().admin.alert_rules.update
    show_errors(partial(update, rule.alert_rule_id, enabled=not rule.enabled, version=rule.version))


@st.fragment(run_every=3.0)
def _show_deliveries() -> None:
    rules = api.client().admin.alert_rules
    found = show_errors(lambda: next(rules.list_deliveries(page_size=_SHOWN).pages())).deliveries
    if not found:
        show_note("No messages yet.")
        return
    show_table(map(_delivery_row, found), heads=("Sent", "Message", "To", "Outcome"))
    by_id = {str(delivery.delivery_id): delivery for delivery in found}
    chosen = st.selectbox(
        "Show message",
        list(by_id),
        index=None,
        key="delivery",
        format_func=lambda item: " · ".join(_delivery_row(by_id[item])),
    )
    if chosen is None:
        return
    st.json(by_id[chosen].message or {})
    for attempt in by_id[chosen].attempts:
        said = " ".join(str(part) for part in (attempt.status_code, attempt.error, attempt.answer) if part)
        show_text(f"{moment(attempt.at)}: {said or 'Accepted.'}")
    if st.button("Send again", key="delivery.again", icon=":material/replay:"):
        show_errors(partial(rules.send_again, chosen))
        st.toast("Message sent. The list shows the result.")
