"""Alerts: recipients, forms, frequency, and secrecy."""

import json
import random
import re
import socket
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from service.alerting.sending.task import enqueue_overdue
from service.alerting.telling import Telling
from service.alerting.wording import reason_of
from service.domains.documents.docstore.running.task import begin_stuck
from service.domains.oversight.alerts.reports import begin_expired
from tests.harness.cases import cases
from tests.harness.documents import create_collection
from tests.harness.jobs import until
from tests.harness.receivers import Mailbox, Receiver, mail_server, receiving
from tests.harness.services import MakeService, RunningService, ServiceHarness
from tests.service.directory import a_user, another_organization, code, done, entries, on_rows, organization_id
from tests.service.docstore import FOLDER, LOOPBACK
from tests.service.examples import DOCSTORE_CONFIG, a_ledger
from tests.service.sources import Reporter, an_item

KINDS = ["RUN_FAILED", "RUN_QUARANTINE", "SYNC_BEHIND", "SCHEDULE_MISSED"]
NOW = datetime.now(UTC)


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    monkeypatch.setattr("service.alerting.sending.task.PAUSES", (timedelta(0),) * 3)
    with receiving() as receiver:
        yield receiver


@pytest.fixture(scope="module")
def mailbox() -> Iterator[tuple[Mailbox, str]]:
    with mail_server() as served:
        yield served


@pytest.fixture(scope="module")
def alerting(service_harness: ServiceHarness, mailbox: tuple[Mailbox, str]) -> Iterator[RunningService]:
    with service_harness.running(
        webhook_allowed_hosts=LOOPBACK,
        smtp_url=mailbox[1],
        mail_from="carrel@example.test",
        workbench_url="https://carrel.example.test",
        docstore_allowed_hosts=LOOPBACK,
        docstore_connect_seconds=0.1,
    ) as service:
        yield service


@pytest.fixture
def service(alerting: RunningService) -> Iterator[RunningService]:
    with alerting.new_organization() as organization:
        yield organization


def a_rule(service: RunningService, **body) -> dict:
    return done(service.call("admin/alertRules/create", {"kinds": KINDS, **body}))


def send_test(service: RunningService, rule: dict) -> dict:
    return done(service.call("admin/alertRules/test", {"alertRuleId": rule["alertRuleId"]}))


def report(service: RunningService, outcome: str, *, api_key: str | None = None, **body) -> dict:
    run = {"runId": str(uuid4()), "subject": "handbook", "flow": "bulk-upload", "source": "/srv/handbook"}
    return done(service.call("alerts/reportRun", {**run, "outcome": outcome, **body}, api_key=api_key))


def deliveries(service: RunningService, status: str | None = None) -> list[dict]:
    found = done(service.call("admin/alertRules/listDeliveries"))["deliveries"]
    return [one for one in found if status in {None, one["status"]}]


def alerts(service: RunningService, *, only_open: bool = True) -> list[tuple[str, str, str]]:
    found = done(service.call("admin/alerts/list", {"onlyOpen": only_open}))["alerts"]
    return [(one["kind"], one["name"], one["code"]) for one in found]


def look(service: RunningService, check) -> None:
    organization = organization_id(service)
    service.in_transaction(organization, lambda connection: check(service.runtime, connection, organization))


def expire(service: RunningService) -> None:
    on_rows(service, "UPDATE alert_leases SET expires_at = now() - interval '1 second'", more="AND expires_at > now()")
    look(service, begin_expired)


def waiting(service: RunningService, *api_keys: str | None, delete: bool = False) -> list:
    organizations = [str(organization_id(service, api_key=key)) for key in api_keys]
    about = "FROM procrastinate_jobs WHERE status = 'todo' AND args->>'organization_id' = ANY(%s)"
    statement = f"DELETE {about} RETURNING priority" if delete else f"SELECT priority {about} ORDER BY id"
    return service.execute(statement, [organizations])


def test_a_run_that_fails_is_posted_once_and_signed(service, receiver, service_logs) -> None:
    """An independent library verifies the signature; the secret is in no other answer, log or row."""
    secret, run = a_rule(service, webhookUrl=receiver.url).pop("webhookSecret"), str(uuid4())
    for _ in range(2):
        report(service, "FAILED", runId=run, code="source_unreadable")
    report(service, "FAILED", code="source_unreadable")
    report(service, "QUARANTINE", quarantinedCount=3, documentCount=10)
    until(lambda: len(receiver.posts) == 3)
    verified = [Webhook(secret).verify(body, headers) for headers, body in receiver.posts]
    assert sorted((one["type"], one["data"]["kind"], one["data"]["code"]) for one in verified) == [
        ("alert.began", "RUN_FAILED", "source_unreadable"),
        ("alert.began", "RUN_QUARANTINE", "run_quarantine"),
        ("alert.ended", "RUN_FAILED", "source_unreadable"),
    ]
    [quarantine] = [one["data"] for one in verified if one["data"]["kind"] == "RUN_QUARANTINE"]
    assert quarantine["quarantinedCount"] == 3
    assert quarantine["name"] == "/srv/handbook"
    assert quarantine["link"] == "https://carrel.example.test/ingestion?part=quarantine"
    headers, body = receiver.posts[0]
    for wrong in ({"webhook-id": "another"}, {"webhook-timestamp": str(int(headers["webhook-timestamp"]) + 1)}):
        with pytest.raises(WebhookVerificationError):
            Webhook(secret).verify(body, {**headers, **wrong})
    with pytest.raises(WebhookVerificationError):
        Webhook(secret).verify(body.replace(b"handbook", b"cookbook"), headers)
    assert len({headers["webhook-id"] for headers, _ in receiver.posts}) == 3
    until(lambda: len(deliveries(service, "DELIVERED")) == 3)
    tables = ("alert_rules", "alert_deliveries", "procrastinate_jobs", "audit_entries")
    rows = [str(service.execute(f"TABLE {table}")) for table in tables]
    listed = service.call("admin/alertRules/list").text + service.call("admin/auditLog/query").text
    assert secret not in "\n".join([*rows, listed, json.dumps(deliveries(service)), service_logs.getvalue()])


def test_what_fails_is_tried_again_and_says_why(service: RunningService, receiver: Receiver) -> None:
    receiver.answers[:] = [500, 302, 200]
    a_rule(service, webhookUrl=receiver.url)
    report(service, "FAILED")
    until(lambda: bool(deliveries(service, "DELIVERED")))
    [delivery] = deliveries(service)
    assert [one.get("statusCode") for one in delivery["attempts"]] == [500, 302, 200]
    assert [bool(one.get("error")) for one in delivery["attempts"]] == [True, True, False]
    assert "nextAttemptAt" not in delivery
    assert len({(headers["webhook-id"], body) for headers, body in receiver.posts}) == 1
    assert delivery["message"] == json.loads(receiver.posts[0][1])
    assert [one.get("answer") for one in delivery["attempts"]] == ["Answer 500", "Answer 302", "Answer 200"]
    done(service.call("admin/alertRules/sendAgain", {"deliveryId": delivery["deliveryId"]}))
    until(lambda: len(receiver.posts) == 4 and bool(deliveries(service, "DELIVERED")))
    assert receiver.posts[3][0]["webhook-id"] == receiver.posts[0][0]["webhook-id"]
    receiver.answers[:] = [410]
    report(service, "COMPLETED")
    until(lambda: bool(deliveries(service, "FAILED")))
    assert [one["attemptCount"] for one in deliveries(service)] == [1, 4]
    receiver.answers[:] = [503] * 4
    report(service, "FAILED")
    until(lambda: len(deliveries(service, "FAILED")) == 2)
    assert deliveries(service)[0]["attemptCount"] == 4
    assert len(receiver.posts) == 9


def told(receiver: Receiver, number: int) -> list[tuple[str, str]]:
    until(lambda: len(receiver.posts) == number)
    bodies = [json.loads(body) for _, body in receiver.posts]
    return [(one["type"].removeprefix("alert."), one["data"]["name"]) for one in bodies]


def test_a_rule_tells_of_what_is_open_when_it_is_made_or_changed(service: RunningService, receiver: Receiver) -> None:
    names = ["/srv/a<!channel>", "/srv/b"]
    for name in names:
        report(service, "FAILED", subject=name, source=name, code="source_unreadable")
    rule = a_rule(service, webhookUrl=receiver.url, names=names[:1])
    assert told(receiver, 1) == [("continues", names[0])]
    text = json.loads(receiver.posts[0][1])["text"]
    assert "Still: A run failed or left work undone: /srv/a(!channel). The source can't be read." in text
    assert text.endswith("https://carrel.example.test/ingestion?part=runs")
    named = {"alertRuleId": rule["alertRuleId"]}
    assert done(service.call("admin/alertRules/update", {**named, "names": []}))["names"] == []
    assert told(receiver, 2)[1] == ("continues", names[1])
    done(service.call("admin/alertRules/update", {**named, "webhookUrl": f"{receiver.url}/other", "enabled": False}))
    report(service, "FAILED", subject=names[0], source=names[0], code="refused")
    done(service.call("admin/alertRules/update", {**named, "enabled": True}))
    assert sorted(told(receiver, 4)[2:]) == [("continues", name) for name in names]
    unsafe = {**named, "webhookUrl": "https://127.0.0.2/carrel"}
    assert code(service.call("admin/alertRules/update", unsafe)) == (400, "webhook_not_allowed")


def test_an_alert_is_acknowledged_and_snoozed(service: RunningService, receiver: Receiver) -> None:
    report(service, "FAILED")
    [alert] = done(service.call("admin/alerts/list"))["alerts"]
    named = {"alertId": alert["alertId"]}
    assert done(service.call("admin/alerts/update", {**named, "acknowledged": True}))["acknowledgedBy"]
    a_rule(service, webhookUrl=receiver.url)
    assert told(receiver, 1)[0][0] == "continues"
    on_rows(service, "UPDATE alerts SET told_at = now() - interval '2 days'")
    report(service, "FAILED")
    report(service, "FAILED", code="refused")
    assert told(receiver, 2)[1][0] == "continues"
    assert json.loads(receiver.posts[1][1])["data"]["code"] == "refused"
    tomorrow = (NOW + timedelta(days=1)).isoformat()
    assert "acknowledgedAt" not in done(service.call("admin/alerts/update", {**named, "snoozedUntil": tomorrow}))
    report(service, "FAILED", code="storage_full")
    assert alerts(service) == [("RUN_FAILED", "/srv/handbook", "storage_full")]
    done(service.call("admin/alerts/update", {**named, "snoozedUntil": NOW.isoformat()}))
    report(service, "FAILED", code="storage_full")
    report(service, "COMPLETED")
    assert [one for one, _ in told(receiver, 4)[2:]] == ["continues", "ended"]


def test_a_paused_rule_sends_nothing_again(service: RunningService, receiver: Receiver) -> None:
    rule = a_rule(service, webhookUrl=receiver.url)
    receiver.answers[:] = [500]
    receiver.open.clear()
    report(service, "FAILED")
    until(lambda: len(receiver.posts) == 1)
    done(service.call("admin/alertRules/update", {"alertRuleId": rule["alertRuleId"], "enabled": False}))
    receiver.open.set()
    until(lambda: bool(deliveries(service, "FAILED")))
    assert deliveries(service)[0]["attempts"][-1]["error"] == "The rule is paused."
    assert len(receiver.posts) == 1
    send_test(service, rule)
    until(lambda: bool(deliveries(service, "DELIVERED")))


def test_a_delivery_without_a_job_gets_another_one(service, receiver, monkeypatch) -> None:
    monkeypatch.setattr("service.alerting.sending.task.PAUSES", (timedelta(days=1),) * 3)
    receiver.answers[:] = [500]
    a_rule(service, webhookUrl=receiver.url)
    report(service, "FAILED")
    until(lambda: [one["attemptCount"] for one in deliveries(service)] == [1])
    assert len(waiting(service, None, delete=True)) == 1
    look(service, enqueue_overdue)
    assert waiting(service, None) == []
    on_rows(service, "UPDATE alert_deliveries SET due_at = now() - interval '2 hours'")
    for _ in range(2):
        look(service, enqueue_overdue)
    until(lambda: bool(deliveries(service, "DELIVERED")))
    assert len(receiver.posts) == 2


REFUSED = cases("webhooks_that_are_refused")


def test_internal_and_unsafe_addresses_are_refused(module_service: RunningService) -> None:
    bodies = [{"kinds": KINDS, "webhookUrl": url} for url in REFUSED]
    answers = [code(module_service.call("admin/alertRules/create", body)) for body in bodies]
    assert answers == [(400, "webhook_not_allowed")] * len(REFUSED)


def test_a_name_that_leads_inside_is_posted_nothing(module_service: RunningService, receiver: Receiver) -> None:
    """Names are checked by the connected address, at the time of connecting."""
    rule = a_rule(
        module_service, webhookUrl=receiver.url.replace("http://127.0.0.1", f"https://{socket.gethostname()}")
    )
    sent = send_test(module_service, rule)["deliveryIds"]
    until(lambda: bool(deliveries(module_service, "FAILED")))
    [delivery] = deliveries(module_service)
    assert [delivery["deliveryId"]] == sent
    assert delivery["attempts"][0]["error"].startswith(("The address is not public", "The host's name is unknown"))
    assert receiver.posts == []


def test_mail_goes_to_people_of_the_organization(service: RunningService, mailbox: tuple[Mailbox, str]) -> None:
    mails = mailbox[0].mails
    mails.clear()
    for name in ("ada", "ben"):
        a_user(service, f"{name}@example.test", name=name)
    refused = {"kinds": KINDS, "emails": ["eve@elsewhere.test"]}
    assert code(service.call("admin/alertRules/create", refused)) == (400, "unknown_principal")
    rule = a_rule(service, emails=["ada@example.test", "ben@example.test"])
    assert [one["email"] for one in rule["recipients"]] == ["ada@example.test", "ben@example.test"]
    report(service, "FAILED", source="/srv/a\r\nBcc: eve@elsewhere.test\r\n\r\nhello")
    until(lambda: len(mails) == 2)
    assert sorted(to for to, _ in mails) == [["ada@example.test"], ["ben@example.test"]]
    for to, mail in mails:
        assert mail["To"] == to[0]
        assert mail["Bcc"] is None
        assert "A run failed or left work undone: /srv/a Bcc: eve@elsewhere.test hello" in mail["Subject"]
        assert mail["Subject"].startswith("[")
        assert "Look at it: https://carrel.example.test/ingestion?part=runs" in mail.get_content()
    a_user(service, "ben@example.test", active=False)
    report(service, "COMPLETED")
    until(lambda: len(mails) == 3 and bool(deliveries(service, "FAILED")))
    assert mails[2][0] == ["ada@example.test"]
    assert "Works again: " in mails[2][1]["Subject"]


def test_mail_needs_a_server_and_tls(module_service: RunningService, make_service: MakeService) -> None:
    body = {"kinds": KINDS, "emails": [module_service.admin_email]}
    assert code(module_service.call("admin/alertRules/create", body)) == (400, "mail_not_set_up")
    assert done(module_service.call("admin/alertRules/list"))["mailEnabled"] is False
    with mail_server("127.0.0.2") as (mailbox, url):
        service = make_service(smtp_url=url, mail_from="carrel@example.test")
        send_test(service, a_rule(service, emails=[service.admin_email]))
        until(lambda: bool(deliveries(service, "FAILED")))
        assert "TLS" in deliveries(service)[0]["attempts"][0]["error"]
        assert mailbox.mails == []


def test_a_run_that_reports_no_more_is_lost(service: RunningService) -> None:
    """A killed process can't report; late reports of an ended run are ignored."""
    run = str(uuid4())
    assert report(service, "RUNNING", runId=run)["reportAgainSeconds"] == 60
    look(service, begin_expired)
    assert alerts(service) == []
    expire(service)
    expire(service)
    assert alerts(service) == [("RUN_FAILED", "/srv/handbook", "run_lost")]
    report(service, "RUNNING", runId=run)  # it was only cut off
    report(service, "COMPLETED", runId=run)
    assert alerts(service) == []
    report(service, "RUNNING", runId=run)
    report(service, "RUNNING", runId=(stopped := str(uuid4())))
    report(service, "STOPPED", runId=stopped)
    expire(service)
    assert alerts(service) == []
    assert len(alerts(service, only_open=False)) == 1


def test_reports_are_bounded(service: RunningService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.domains.oversight.alerts.reports.MOST_LEASES", 2)
    for subject in ("one", "two"):
        report(service, "RUNNING", subject=subject, runId=str(uuid4()))
    third = {"runId": str(uuid4()), "subject": "three", "flow": "x", "source": "/srv/3", "outcome": "RUNNING"}
    assert code(service.call("alerts/reportRun", third)) == (409, "too_many_reports")
    report(service, "COMPLETED", subject="two")
    expire(service)
    assert alerts(service) == [("RUN_FAILED", "/srv/handbook", "run_lost")]
    schedules = {"schedules": [{"subject": "one", "name": "One", "dueAt": NOW.isoformat()}]}
    assert code(service.call("alerts/reportSchedules", schedules)) == (409, "too_many_reports")


def test_odd_figures_are_refused_or_taken(service: RunningService) -> None:
    large = {"runId": str(uuid4()), "subject": "x", "flow": "x", "source": "/srv/x", "outcome": "QUARANTINE"}
    assert service.call("alerts/reportRun", {**large, "quarantinedCount": 2**31}).status_code == 400
    done(service.call("alerts/reportRun", {**large, "quarantinedCount": 2**31 - 1}))
    late = {"schedules": [{"subject": "x", "name": "X", "dueAt": "9999-12-31T23:59:59Z"}]}
    done(service.call("alerts/reportSchedules", late))
    look(service, begin_expired)
    assert [kind for kind, *_ in alerts(service)] == ["RUN_QUARANTINE"]


def test_a_rule_sends_so_much_an_hour(service, receiver, monkeypatch) -> None:
    monkeypatch.setattr("service.alerting.sending.queries.MOST_MESSAGES", 2)
    rule = a_rule(service, webhookUrl=receiver.url)
    for number in range(5):
        report(service, "FAILED", subject=str(number))
    a_rule(service, webhookUrl=receiver.url, kinds=["RUN_QUARANTINE"])
    report(service, "QUARANTINE", subject="last")
    until(lambda: len(deliveries(service, "DELIVERED")) == 3)
    assert len(alerts(service)) == 6
    look(service, lambda *of: Telling(*of).tell_left_out())
    assert len(deliveries(service)) == 3
    on_rows(service, "UPDATE alert_rules SET hour_began_at = now() - interval '61 minutes'")
    for _ in range(2):
        look(service, lambda *of: Telling(*of).tell_left_out())
    until(lambda: len(deliveries(service, "DELIVERED")) == 4)
    latest = deliveries(service)[0]
    assert (latest["type"], latest["alertRuleId"]) == ("alert.left_out", rule["alertRuleId"])
    [told] = [json.loads(body)["data"] for _, body in receiver.posts if b"left_out" in body]
    assert (told["leftOutCount"], told["link"]) == (4, "https://carrel.example.test/health")
    report(service, "FAILED", subject="after")
    assert len(deliveries(service)) == 5


def test_many_deliveries_of_one_organization_keep_no_other_waiting(service: RunningService, receiver: Receiver) -> None:
    other = another_organization(service)
    a_rule(service, webhookUrl=receiver.url)
    done(service.call("admin/alertRules/create", {"kinds": KINDS, "webhookUrl": receiver.url}, api_key=other))
    receiver.open.clear()
    for number in range(6):
        report(service, "FAILED", subject=str(number))
    until(lambda: waiting(service, None, other) == [(-4,), (-5,)])
    report(service, "FAILED", api_key=other)
    assert waiting(service, None, other) == [(-4,), (-5,), (0,)]
    receiver.open.set()


def quarantined(service: RunningService) -> list[int]:
    found = done(service.call("admin/alerts/list", {"onlyOpen": True}))["alerts"]
    return [one["quarantinedCount"] for one in found if one["kind"] == "RUN_QUARANTINE"]


@pytest.mark.parametrize("seed", range(3))
def test_an_alert_follows_the_current_state(service: RunningService, seed: int) -> None:
    """Random histories of runs, retries, failures and items ignored, restored or removed, against a plain count."""
    chance, reporter = random.Random(seed), Reporter(service)  # noqa: S311 - no secret
    items, ignored, failed = {"first"}, set[str](), False
    source_id = reporter.report([an_item("first")])["sourceId"]
    for told in ({"quarantinedCount": 1}, {"ledger": reporter.ledger}):
        report(service, "QUARANTINE", **told)
    assert len(alerts(service, only_open=False)) == 1, "an alert about the run becomes the alert about its source"
    for _ in range(25):
        partial, ledger = chance.random() < 0.5, {"ledger": reporter.ledger}
        match chance.choice(("run", "run", "fail", "stop", "ignore", "restore", "remove")):
            case "run":
                kept = {name for name in items if chance.random() < 0.5}
                items = kept if partial else kept | {f"{chance.randrange(9)}" for _ in range(chance.randrange(3))}
                source_id = reporter.report([an_item(name) for name in sorted(items)])["sourceId"]
                ignored, failed = ignored & items, failed and partial
                told = "COMPLETED" if partial or items <= ignored else "QUARANTINE"
                report(service, told, isPartial=partial, quarantinedCount=len(items - ignored), **ledger)
            case "fail":
                report(service, "FAILED", isPartial=partial, hasBegun=False, **ledger)
                failed = failed or not partial
            case "stop":
                report(service, "STOPPED", **ledger)
            case "ignore" | "restore" as what if items:
                name = chance.choice(sorted(items))
                reporter.ignore(source_id, name, undo=what == "restore")
                ignored = ignored | {name} if what == "ignore" else ignored - {name}
            case "remove":
                source_id, items, ignored = reporter.report()["sourceId"], set(), set()
                done(reporter.call("removeSource", {"sourceId": source_id}))
            case _:
                continue
        left = len(items - ignored)
        assert quarantined(service) == [left] * bool(left)
        assert ("RUN_FAILED" in [kind for kind, *_ in alerts(service)]) is failed
        state = done(service.call("admin/status/get"))
        assert (state["quarantine"]["itemCount"], state.get("failedRunCount")) == (left, int(failed) or None)


def test_an_alert_says_what_run_it_is_about(service: RunningService, receiver: Receiver) -> None:
    run = str(uuid4())
    a_rule(service, webhookUrl=receiver.url)
    report(service, "FAILED", flowRunId=run, documentCount=7, hasBegun=False)
    [alert] = done(service.call("admin/alerts/list"))["alerts"]
    assert (alert["flow"], alert["documentCount"], alert["flowRunId"]) == ("bulk-upload", 7, run)
    until(lambda: len(receiver.posts) == 1)
    told = json.loads(receiver.posts[0][1])["data"]
    assert (told["flow"], told["documentCount"]) == ("bulk-upload", 7)
    assert told["link"] == f"https://carrel.example.test/ingestion?run={run}"
    source_id = Reporter(service).report([an_item("first")])["sourceId"]
    report(service, "QUARANTINE", quarantinedCount=1, ledger=Reporter(service).ledger)
    until(lambda: len(receiver.posts) == 3)
    links = {json.loads(body)["data"]["link"] for _, body in receiver.posts}
    assert f"https://carrel.example.test/ingestion?part=quarantine&source={source_id}" in links
    assert source_id in {one.get("sourceId") for one in done(service.call("admin/alerts/list"))["alerts"]}


def test_every_reason_why_a_sync_fails_has_a_sentence() -> None:
    table = Path("docs/docstore-sync.md").read_text("utf-8").partition("| `lastError.code` |")[2].partition("\n\n")[0]
    codes = re.findall("`([a-z_]+)`", "".join(line.split("|")[1] for line in table.splitlines() if "|" in line[1:]))
    assert "source_unreachable" in codes
    assert not [code for code in codes if reason_of(code, None).startswith("Reason:")]


def test_an_admin_ends_the_alert_of_what_nobody_runs_any_more(service: RunningService, receiver: Receiver) -> None:
    report(service, "INCOMPLETE")
    report(service, "COMPLETED", api_key=service.new_user("other@example.test"))
    assert alerts(service) == [("RUN_FAILED", "/srv/handbook", "run_incomplete")]
    a_rule(service, webhookUrl=receiver.url)
    [alert] = done(service.call("admin/alerts/list"))["alerts"]
    ended = [done(service.call("admin/alerts/end", {"alertId": alert["alertId"]})) for _ in range(2)]
    assert ended[0] == ended[1]
    assert ended[0]["endedAt"]
    assert [one["type"] for one in deliveries(service)] == ["alert.continues"]
    assert len(entries(service, action="alert.end")) == 1
    report(service, "FAILED")
    assert len(alerts(service)) == 1
    assert len(alerts(service, only_open=False)) == 2


def test_a_schedule_that_nothing_starts_is_missed(service: RunningService) -> None:

    def serve(**due: datetime) -> None:
        rows = [{"subject": name, "name": name.title(), "dueAt": at.isoformat()} for name, at in due.items()]
        assert done(service.call("alerts/reportSchedules", {"schedules": rows}))["reportAgainSeconds"] == 60
        look(service, begin_expired)

    now, hour = datetime.now(UTC), timedelta(hours=1)
    serve(nightly=now + hour, hourly=now - timedelta(minutes=5))
    assert alerts(service) == []
    serve(nightly=now + hour, hourly=now - hour)
    serve(nightly=now + hour, hourly=now - hour)
    assert alerts(service) == [("SCHEDULE_MISSED", "Hourly", "schedule_missed")]
    serve(nightly=now + hour, hourly=now + hour)
    assert alerts(service) == []
    expire(service)
    assert sorted(alerts(service)) == [("SCHEDULE_MISSED", name, "schedule_missed") for name in ("Hourly", "Nightly")]
    serve(hourly=now + hour)
    assert alerts(service) == []


@pytest.mark.usefixtures("impatient")
def test_a_sync_that_fails_or_stands_still_is_behind(service: RunningService) -> None:
    body = {"documentCollectionId": create_collection(service, "Things"), "config": DOCSTORE_CONFIG}
    done(service.call(f"{FOLDER}/createDocstoreSync", {**body, "docstoreURI": "mongodb://127.0.0.1:1/shop"}))
    until(lambda: bool(alerts(service)))
    [(kind, name, why)] = alerts(service)
    assert (kind, name) == ("SYNC_BEHIND", "things")
    assert why.startswith("source_")
    [alert] = done(service.call("admin/alerts/list"))["alerts"]
    assert on_rows(service, "SELECT sync_id::text FROM docstore_syncs") == [(alert["syncId"],)]
    on_rows(service, "UPDATE docstore_syncs SET status = 'RUNNING', progress_at = now() - interval '16 minutes'")
    look(service, begin_stuck)
    assert alerts(service) == [("SYNC_BEHIND", "things", "run_stuck")]


def test_rules_are_changed_and_deleted(service: RunningService, receiver: Receiver) -> None:
    named = {"alertRuleId": a_rule(service, webhookUrl=receiver.url)["alertRuleId"]}
    done(service.call("admin/alertRules/update", {**named, "kinds": ["SYNC_BEHIND"]}))
    report(service, "FAILED")
    done(service.call("admin/alertRules/update", {**named, "kinds": KINDS, "enabled": False}))
    report(service, "COMPLETED")
    assert deliveries(service) == []
    emails = {**named, "emails": [service.admin_email]}
    assert code(service.call("admin/alertRules/update", emails)) == (400, "not_a_mail_rule")
    done(service.call("admin/alertRules/delete", named))
    assert code(service.call("admin/alertRules/test", named)) == (404, "alert_rule_not_found")
    log = entries(service)[:4]
    actions = [one["action"] for one in log]
    assert actions == ["alertRule.delete", "alertRule.update", "alertRule.update", "alertRule.create"]
    assert log[0]["details"]["host"] == "127.0.0.1"
    assert "/carrel" not in json.dumps(log)


def test_the_status_knows_of_the_quarantine_and_of_alerts(service: RunningService) -> None:
    for number in (1, 2):
        reporter = Reporter(service, ledger=a_ledger())
        reporter.report([an_item(f"{line}") for line in range(number)], source=f"/srv/{number}")
    report(service, "FAILED")
    status = done(service.call("admin/status/get"))
    sources = [(one["source"], one["itemCount"]) for one in status["quarantine"]["sources"]]
    assert (sources, status["openAlertCount"]) == ([("/srv/2", 2), ("/srv/1", 1)], 1)
    assert status["jobs"]["waiting"] == 0
