"""`carrel alerts`: current alerts, and the rules for sending them."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any
from uuid import UUID

import typer

from carrel.wire.alerts import Alert, AlertDelivery, AlertKind, AlertRule
from cli.choosing import AsJson, Yes, as_id, confirm
from cli.listing import Columns, say_done, show_first, show_list, to_json, words_of
from cli.outcome import connect, usage

app = typer.Typer(no_args_is_help=True)

_Rule = Annotated[UUID, typer.Argument(metavar="RULE", parser=as_id, help="Id from `carrel alerts rules`.")]
_Kinds = Annotated[
    list[AlertKind] | None,
    typer.Option("--kind", case_sensitive=False, help="Kind of alert; repeatable. Default: all kinds."),
]
_Emails = Annotated[list[str] | None, typer.Option("--mail", metavar="EMAIL", help="A recipient; repeatable.")]
_Names = Annotated[
    list[str] | None,
    typer.Option("--source", metavar="NAME", help="Only for this source, sync or schedule; repeatable."),
]
_Sent = Annotated[UUID, typer.Argument(metavar="DELIVERY", parser=as_id, help="Id from `carrel alerts deliveries`.")]
_Alert = Annotated[UUID, typer.Argument(metavar="ALERT", parser=as_id, help="Id from `carrel alerts list`.")]
_Most = Annotated[int, typer.Option("--most", min=1, max=999, metavar="NUMBER", help="Most rows to show.")]

ALERTS: Columns[Alert] = {
    "alert": lambda alert: alert.alert_id,
    "since": lambda alert: alert.began_at,
    "until": lambda alert: alert.ended_at,
    "kind": lambda alert: alert.kind,
    "what": lambda alert: alert.name,
    "reason": lambda alert: alert.code,
    "acknowledged by": lambda alert: alert.acknowledged_by,
    "snoozed until": lambda alert: alert.snoozed_until,
    "failed": lambda alert: alert.quarantined_count,
    "documents": lambda alert: alert.document_count,
    "run": lambda alert: alert.flow,
    "id of the run or sync": lambda alert: alert.flow_run_id or alert.sync_id,
}
RULES: Columns[AlertRule] = {
    "rule": lambda rule: rule.alert_rule_id,
    "alerts": lambda rule: rule.kinds,
    "limited to": lambda rule: rule.names,
    "to": lambda rule: rule.webhook_url or [person.email for person in rule.recipients],
    "sends": lambda rule: rule.enabled,
}
DELIVERIES: Columns[AlertDelivery] = {
    "delivery": lambda delivery: delivery.delivery_id,
    "at": lambda delivery: delivery.created_at,
    "rule": lambda delivery: delivery.alert_rule_id,
    "tells": lambda delivery: delivery.type,
    "to": lambda delivery: delivery.recipient and delivery.recipient.email,
    "status": lambda delivery: delivery.status,
    "attempts": lambda delivery: delivery.attempt_count,
    "last answer": lambda item: item.attempts and (item.attempts[-1].error or item.attempts[-1].status_code),
    "next attempt": lambda delivery: delivery.next_attempt_at,
}


@app.command("list")
def list_alerts(
    *,
    ended: Annotated[bool, typer.Option("--ended", help="Also show alerts that ended in the last 30 days.")] = False,
    most: _Most = 50,
    as_json: AsJson = False,
) -> None:
    """List current alerts, newest first."""
    with connect(as_json=as_json) as (screen, client):
        found = client.admin.alerts.list(only_open=not ended, page_size=most + 1)
        show_first(screen, "alerts", found, ALERTS, most=most, empty="No open alerts.")


@app.command()
def acknowledge(
    alert: _Alert,
    *,
    hours: Annotated[
        float | None, typer.Option("--snooze", min=0, max=8760, metavar="HOURS", help="Snooze the alert until then.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Acknowledge an alert: no more messages until the alert changes. While snoozed, only the end is sent."""
    until = None if hours is None else datetime.now(UTC) + timedelta(hours=hours)
    with connect(as_json=as_json) as (screen, client):
        changed = client.admin.alerts.update(alert, acknowledged=until is None or None, snoozed_until=until)
    say_done(screen, "changed", f"{'Snoozed' if until else 'Acknowledged'}: {changed.name}.", **_to_json(changed))


def _to_json(alert: Alert) -> dict[str, Any]:
    members = to_json(alert)
    return {"reason": members.pop("code"), **members}


@app.command()
def end(alert: _Alert, *, as_json: AsJson = False) -> None:
    """End an alert about work that has ended, for example of a renamed folder, without notifying anyone."""
    with connect(as_json=as_json) as (screen, client):
        ended = client.admin.alerts.end(alert)
    say_done(screen, "ended", f"Ended: {ended.kind} of {ended.name}.", **_to_json(ended))


@app.command()
def rules(*, as_json: AsJson = False) -> None:
    """List the alert rules."""
    with connect(as_json=as_json) as (screen, client):
        found = client.admin.alert_rules.list(page_size=1000)
        show_list(screen, "alertRules", found, RULES, empty="No alert rules. Create a rule with: carrel alerts add")


@app.command()
def add(
    *,
    webhook: Annotated[str | None, typer.Option("--webhook", metavar="URL", help="Webhook URL (https).")] = None,
    mail: _Emails = None,
    kind: _Kinds = None,
    source: _Names = None,
    as_json: AsJson = False,
) -> None:
    """Send alerts to a webhook, or by mail to people of the organization.

    The secret for verifying the webhook's messages is printed once, and never again."""
    with connect(as_json=as_json) as (screen, client):
        if (webhook is None) == (not mail):
            raise usage(screen, "Give either --webhook or --mail.")
        create = client.admin.alert_rules.create
        made = create(kind or list(AlertKind), webhook_url=webhook, emails=mail or None, names=source or [])
    say_done(screen, "created", f"Created rule {made.alert_rule_id}.", **to_json(made))
    if made.webhook_secret is not None:
        screen.line(f"The secret, shown only once: {made.webhook_secret}")


@app.command()
def change(
    rule: _Rule,
    *,
    mail: _Emails = None,
    kind: _Kinds = None,
    source: _Names = None,
    webhook: Annotated[str | None, typer.Option("--webhook", metavar="URL", help="New webhook URL.")] = None,
    pause: Annotated[bool | None, typer.Option("--pause/--resume", help="Pause or resume the rule.")] = None,
    as_json: AsJson = False,
) -> None:
    """Change the alerts or the recipients of a rule, or pause the rule for a while."""
    with connect(as_json=as_json) as (screen, client):
        enabled = None if pause is None else not pause
        names = None if not source else list(filter(None, source))  # an empty name means all
        update, kinds, emails = client.admin.alert_rules.update, kind or None, mail or None
        changed = update(rule, kinds=kinds, emails=emails, names=names, webhook_url=webhook, enabled=enabled)
    say_done(screen, "changed", f"Rule {rule} covers {words_of(changed.kinds)}.", **to_json(changed))


@app.command()
def delete(rule: _Rule, *, yes: Yes = False, as_json: AsJson = False) -> None:
    """Delete a rule with its secret and its deliveries."""
    with connect(as_json=as_json, yes=yes) as (screen, client):
        confirm(screen, f"Delete rule {rule}?")
        client.admin.alert_rules.delete(rule)
    say_done(screen, "deleted", f"Deleted rule {rule}.", alertRuleId=str(rule))


@app.command("test")
def send_test(rule: _Rule, *, as_json: AsJson = False) -> None:
    """Send a test message by a rule; `carrel alerts deliveries` shows the result."""
    with connect(as_json=as_json) as (screen, client):
        sent = client.admin.alert_rules.test(rule)
    say_done(screen, "sent", "Test sent. `carrel alerts deliveries` shows the result.", **to_json(sent))


@app.command("send-again")
def send_again(delivery: _Sent, *, as_json: AsJson = False) -> None:
    """Send a message again, whether it was delivered or not."""
    with connect(as_json=as_json) as (screen, client):
        sent = client.admin.alert_rules.send_again(delivery)
    say_done(screen, "sent", "Message sent. `carrel alerts deliveries` shows the result.", **to_json(sent))


@app.command()
def deliveries(
    rule: Annotated[UUID | None, typer.Argument(help="Only deliveries of this rule.")] = None,
    *,
    most: _Most = 50,
    as_json: AsJson = False,
) -> None:
    """List the messages of the last 30 days and results, newest first; of one rule, or of all."""
    with connect(as_json=as_json) as (screen, client):
        listed = client.admin.alert_rules.list_deliveries(alert_rule_id=rule, page_size=most + 1)
        show_first(screen, "deliveries", listed, DELIVERIES, most=most, empty="No messages yet.")
