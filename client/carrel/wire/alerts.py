"""Alerts: reports of runs and schedules, alerts, and rules for sending them; extensions. An alert begins when
something fails and ends when it works again. A rule sends alerts to a receiver; each message is a delivery."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any
from uuid import UUID

from pydantic import Field

from carrel.wire import common, fields
from carrel.wire.operations import ADDS_DATA, ADMIN, CONFLICT, KEYED, NOT_FOUND, SECRET, WRITE, ApiOperation
from carrel.wire.sources import LedgerName, SourceText

MOST_SCHEDULES = 1000
"""Most schedules in one report."""


class AlertKind(StrEnum):
    """Kind of an alert."""

    RUN_FAILED = "RUN_FAILED"
    """A run failed, was killed, or left work undone."""
    RUN_QUARANTINE = "RUN_QUARANTINE"
    """A run ended, but some items of its source could not be loaded."""
    SYNC_BEHIND = "SYNC_BEHIND"
    """A sync's last run failed, left work undone, or just stopped: the collection differs from its source."""
    SCHEDULE_MISSED = "SCHEDULE_MISSED"
    """A scheduled run was not started."""


ALERT_TITLES: Mapping[AlertKind, str] = {
    AlertKind.RUN_FAILED: "A run failed or left work undone",
    AlertKind.RUN_QUARANTINE: "A run could not load everything",
    AlertKind.SYNC_BEHIND: "A sync is behind",
    AlertKind.SCHEDULE_MISSED: "A schedule was missed",
}
"""Short titles for messages and pages."""


class DeliveryStatus(StrEnum):
    """Progress of a delivery; a pending delivery is retried."""

    PENDING = "PENDING"
    DELIVERED = "DELIVERED"
    FAILED = "FAILED"


class RunOutcome(StrEnum):
    """Whether a run is in progress, or how it ended."""

    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    INCOMPLETE = "INCOMPLETE"
    """The run ended, but left work undone, such as deletions blocked by the guard."""
    QUARANTINE = "QUARANTINE"
    """The run ended, but some items of its source could not be loaded."""
    FAILED = "FAILED"
    STOPPED = "STOPPED"
    """A person stopped the run."""


Kinds = Annotated[
    list[AlertKind],
    Field(min_length=1, max_length=len(AlertKind), examples=[["RUN_FAILED", "SCHEDULE_MISSED"]]),
    fields.must(lambda kinds: len(set(kinds)) == len(kinds), "must be given once each"),
]
WebhookUrl = Annotated[
    str,
    Field(min_length=1, max_length=2048, examples=["https://hooks.example.com/carrel"]),
    fields.NO_NUL,
    fields.must(
        lambda url: url.lower().startswith(("https://", "http://")),
        "must be an https address, such as https://hooks.example.com/carrel",
    ),
]
Names = Annotated[list[SourceText], Field(max_length=100, examples=[["/srv/handbook"]])]
Emails = Annotated[list[fields.EmailAddress], Field(min_length=1, max_length=50)]
Count = Annotated[int, Field(strict=True, ge=0, le=2**31 - 1)]


class ReportRunRequest(common.RequestModel):
    """Report a run in progress (`RUNNING`), repeatedly, and finally how the run ended."""

    run_id: UUID
    """Id of the run, made by the reporting program."""
    subject: fields.Label
    """Identifies runs over the same source, for example by ledger name; the newest run counts."""
    flow: fields.Label
    """Kind of run, such as `bulk-upload`."""
    source: SourceText
    """The run's source for people: a path, a pattern or an address, without credentials."""
    outcome: RunOutcome
    """Whether the run is in progress, or how it ended."""
    code: fields.Label | None = None
    """Stable code of the reason, for a failed run."""
    document_count: Count | None = None
    """Number of documents of the source, as far as it was read."""
    quarantined_count: Count | None = None
    """Number of items not loaded because of problems."""
    flow_run_id: UUID | None = None
    """Id of the run on the Prefect server, where the workbench shows it; absent: none."""
    has_begun: fields.StrictFlag | None = None
    """False, not absent, until the run begins to read its source."""
    ledger: LedgerName | None = None
    """Name of the source's ledger, as in `sources/reportSource`; its quarantine decides the alert."""
    is_partial: fields.StrictFlag = False
    """True for a run over a part of the source, such as a retry. Such runs don't affect alerts about full runs."""


class ReportRunResponse(common.ResponseModel):
    """When to report the run again."""

    run_id: UUID
    report_again_seconds: int | None = None
    """Seconds until the next report of a run in progress; after five times as long, it is lost. Absent: ended."""


class ReportedSchedule(common.RequestModel):
    """A schedule and its due time."""

    subject: fields.Label
    """Id of the schedule."""
    name: fields.Label
    """Name of the schedule, for people."""
    due_at: fields.RequestInstant
    """When the schedule is due next, or since when it is overdue."""


class ReportSchedulesRequest(common.RequestModel):
    """Report all schedules of a process; schedules missing from the report are forgotten."""

    schedules: Annotated[list[ReportedSchedule], Field(max_length=MOST_SCHEDULES)]
    """Every schedule that isn't paused, at most 1000."""

    _schedules_once = fields.once_each("schedules", "schedules must be given once each", key="subject")


class ReportSchedulesResponse(common.ResponseModel):
    """When to report the schedules again."""

    report_again_seconds: int
    """Seconds until the next report."""


class AlertRule(common.Versioned):
    """A rule: the alerts to send, and the receivers."""

    edited = ("kinds", "names", "webhook_url", "recipients", "enabled")
    secret = ("webhook_url",)  # with the address's path, other people could post there

    alert_rule_id: UUID
    kinds: list[AlertKind]
    """Kinds of alerts that the rule sends."""
    names: list[str] = Field(default_factory=list[str])
    """Names of the sources, syncs or schedules of the rule; empty: all."""
    webhook_url: str | None = None
    """URL of the webhook; absent for a mail rule."""
    recipients: list[common.UserPrincipal]
    """The people who receive mail."""
    enabled: bool
    created_at: fields.Instant
    """When the rule was created."""


class AdminAlertRulesCreateRequest(common.RequestModel):
    """Create a rule that posts alerts to a webhook, or mails them to people of the organization."""

    kinds: Kinds
    webhook_url: WebhookUrl | None = None
    """Public https address to post to, as the Standard Webhooks specification says; or `emails`."""
    emails: Emails | None = None
    """Addresses of people of the organization, at most 50; or `webhookUrl`."""
    names: Names = Field(default_factory=list[str])
    """Names of the sources, syncs or schedules, as in alerts; default: all."""

    _has_one_target = fields.must_fit(
        lambda rule: (rule.webhook_url is None) != (rule.emails is None), "give either webhookUrl or emails"
    )


class AdminAlertRulesCreateResponse(AlertRule):
    """The rule, and the signing secret of the webhook, shown only here."""

    webhook_secret: str | None = Field(default=None, repr=False)
    """Signing secret, `whsec_…`; shown once."""


class AdminAlertRulesListRequest(common.PagedRequest):
    """List the rules."""


class AdminAlertRulesListResponse(common.PagedResponse):
    """A page of rules."""

    alert_rules: list[AlertRule]
    """The rules, oldest first."""
    mail_enabled: bool
    """Whether the service can send mail: an operator sets CARREL_SMTP_URL and CARREL_MAIL_FROM."""


class AdminAlertRulesUpdateRequest(common.VersionedRequest):
    """Change a rule's alerts or mail recipients, or pause it. Omitted values stay."""

    alert_rule_id: UUID
    kinds: Kinds | None = None
    emails: Emails | None = None
    """Email addresses of people of the organization, for a mail rule."""
    enabled: fields.StrictFlag | None = None
    names: Names | None = None
    """Names of the sources, syncs or schedules; an empty list: all."""
    webhook_url: WebhookUrl | None = None
    """New URL, for a webhook rule; the secret stays the same."""


class AdminAlertRulesUpdateResponse(AlertRule):
    """The rule after the change."""


class AdminAlertRulesDeleteRequest(common.RequestModel):
    """Delete a rule with secret and deliveries; pending messages are not retried."""

    alert_rule_id: UUID


class AdminAlertRulesDeleteResponse(common.ResponseModel):
    """The deleted rule."""

    alert_rule_id: UUID


class AdminAlertRulesTestRequest(common.RequestModel):
    """Send a test message by a rule, now and once; its outcome is listed with the deliveries."""

    alert_rule_id: UUID


class AdminAlertRulesTestResponse(common.ResponseModel):
    """The deliveries of the test."""

    delivery_ids: list[UUID]
    """Ids of the deliveries: one for a webhook, one per person for mail."""


class DeliveryAttempt(common.ResponseModel):
    """An attempt of a delivery."""

    at: fields.Instant
    """When the attempt ended."""
    status_code: int | None = None
    """HTTP status of the receiver; absent without a response, and for mail."""
    error: str | None = None
    """Reason for the failure, for people; absent on success."""
    answer: str | None = None
    """Beginning of the receiver's answer, at most 1000 bytes; absent of mail."""


class AlertDelivery(common.ResponseModel):
    """A message to one receiver."""

    delivery_id: UUID
    alert_rule_id: UUID
    """Id of the delivery's rule."""
    alert_id: UUID | None = None
    """Id of the alert; absent of a test."""
    type: str
    """Type of the message: `alert.began`, `alert.continues`, `alert.ended`, `alert.test`, or `alert.left_out` with the
    number of messages not sent by the rule in an hour."""
    recipient: common.UserPrincipal | None = None
    """The recipient of a mail."""
    status: DeliveryStatus
    attempt_count: int
    """Number of attempts."""
    attempts: list[DeliveryAttempt]
    """The last ten attempts, oldest first."""
    message: dict[str, Any] | None = None
    """Body of the message; absent from an older service."""
    created_at: fields.Instant
    """When the delivery was created."""
    next_attempt_at: fields.Instant | None = None
    """When the next attempt is due."""


class AdminAlertRulesSendAgainRequest(common.RequestModel):
    """Send a message again, with the same id and body; its outcome is listed with the deliveries."""

    delivery_id: UUID


class AdminAlertRulesSendAgainResponse(common.ResponseModel):
    """The delivery being sent again."""

    delivery_id: UUID


class AdminAlertRulesListDeliveriesRequest(common.PagedRequest):
    """List deliveries of the last 30 days, newest first."""

    alert_rule_id: UUID | None = None
    """Only deliveries of this rule."""


class AdminAlertRulesListDeliveriesResponse(common.PagedResponse):
    """A page of deliveries."""

    deliveries: list[AlertDelivery]
    """The deliveries, newest first."""


class Alert(common.ResponseModel):
    """A current or past failure."""

    alert_id: UUID
    kind: AlertKind
    name: str
    """Name of the failed source, sync or schedule."""
    code: str
    """Stable code of the reason."""
    text: str | None = None
    """The reason in a sentence for people; absent from an older service."""
    quarantined_count: int | None = None
    """Number of items that could not be loaded, for a quarantine alert."""
    flow: str | None = None
    """Kind of the failed run, such as `bulk-upload`; absent for syncs and schedules."""
    document_count: int | None = None
    """Number of documents of the run's source, as far as it was read."""
    flow_run_id: UUID | None = None
    """Id of the run on the Prefect server; absent: none."""
    sync_id: UUID | None = None
    """Id of the sync, for an alert about a sync."""
    source_id: UUID | None = None
    """Id of the source, for an alert about its quarantine."""
    began_at: fields.Instant
    """When the failure began."""
    ended_at: fields.Instant | None = None
    """When the failure ended; absent for an open alert."""
    acknowledged_at: fields.Instant | None = None
    """When an admin acknowledged the alert; messages resume when its reason or number of items changes."""
    acknowledged_by: str | None = None
    """Name of the acknowledging admin."""
    snoozed_until: fields.Instant | None = None
    """End of the snooze: no messages until then, except about the alert's end."""


class AdminAlertsListRequest(common.PagedRequest):
    """List alerts, newest first: open alerts and alerts of the last 30 days."""

    only_open: fields.StrictFlag = False
    """Only open alerts; default: false."""


class AdminAlertsListResponse(common.PagedResponse):
    """A page of alerts."""

    alerts: list[Alert]
    """The alerts, newest first."""


class AdminAlertsEndRequest(common.RequestModel):
    """End an alert whose subject is no longer run, such as a renamed folder; no message is sent."""

    alert_id: UUID


class AdminAlertsEndResponse(Alert):
    """The ended alert. A later failure begins a new alert."""


class AdminAlertsUpdateRequest(common.RequestModel):
    """Acknowledge or snooze an open alert. Omitted values stay."""

    alert_id: UUID
    acknowledged: fields.StrictFlag | None = None
    """true: acknowledge the alert; false: undo the acknowledgement."""
    snoozed_until: fields.RequestInstant | None = None
    """End of the snooze; a time in the past ends the snooze now."""


class AdminAlertsUpdateResponse(Alert):
    """The alert after the change."""


REPORT_RUN = ApiOperation(
    "alerts/reportRun", ReportRunRequest, ReportRunResponse, WRITE, CONFLICT, by_position=("run_id", "outcome")
)
"""Report that a run is in progress, or how it ended. Repeat the report after `report_again_seconds` until the
run ends. Raises ConflictError `too_many_reports`."""
REPORT_SCHEDULES = ApiOperation(
    "alerts/reportSchedules", ReportSchedulesRequest, ReportSchedulesResponse, WRITE, CONFLICT
)
"""Report all active schedules (at most 1000), with their due times. Raises ConflictError `too_many_reports`."""
ADMIN_ALERT_RULES_CREATE = ApiOperation(
    "admin/alertRules/create",
    AdminAlertRulesCreateRequest,
    AdminAlertRulesCreateResponse,
    ADMIN,
    KEYED | SECRET | ADDS_DATA | CONFLICT,
)
"""Create a rule for a webhook or for mail (exactly one of them), and send the open alerts. `webhook_secret` in
the answer is the signing key, shown only once. Raises InvalidRequestError `webhook_not_allowed`,
`mail_not_set_up` and `unknown_principal`, and ConflictError `too_many_alert_rules`."""
ADMIN_ALERT_RULES_LIST = ApiOperation(
    "admin/alertRules/list", AdminAlertRulesListRequest, AdminAlertRulesListResponse, ADMIN
)
"""Walk the rules, oldest first; each page says whether the service can send mail (`mail_enabled`)."""
ADMIN_ALERT_RULES_UPDATE = ApiOperation(
    "admin/alertRules/update", AdminAlertRulesUpdateRequest, AdminAlertRulesUpdateResponse, ADMIN, NOT_FOUND | CONFLICT
)
"""Change a rule, or pause it; omitted values stay. Open alerts newly covered by the rule are sent."""
ADMIN_ALERT_RULES_DELETE = ApiOperation(
    "admin/alertRules/delete", AdminAlertRulesDeleteRequest, AdminAlertRulesDeleteResponse, ADMIN, KEYED | NOT_FOUND
)
"""Delete a rule with secret and deliveries."""
ADMIN_ALERT_RULES_TEST = ApiOperation(
    "admin/alertRules/test", AdminAlertRulesTestRequest, AdminAlertRulesTestResponse, ADMIN, KEYED | NOT_FOUND
)
"""Send a test message by a rule, once; `list_deliveries` shows the result."""
ADMIN_ALERT_RULES_SEND_AGAIN = ApiOperation(
    "admin/alertRules/sendAgain",
    AdminAlertRulesSendAgainRequest,
    AdminAlertRulesSendAgainResponse,
    ADMIN,
    KEYED | NOT_FOUND,
)
"""Send a message again, delivered or not; `list_deliveries` shows the result."""
ADMIN_ALERT_RULES_LIST_DELIVERIES = ApiOperation(
    "admin/alertRules/listDeliveries",
    AdminAlertRulesListDeliveriesRequest,
    AdminAlertRulesListDeliveriesResponse,
    ADMIN,
    NOT_FOUND,
)
"""List the deliveries of the last 30 days, newest first, each with its last ten attempts."""
ADMIN_ALERTS_LIST = ApiOperation("admin/alerts/list", AdminAlertsListRequest, AdminAlertsListResponse, ADMIN)
"""List the alerts of the last 30 days, newest first, or only the open alerts (`only_open`)."""
ADMIN_ALERTS_UPDATE = ApiOperation(
    "admin/alerts/update", AdminAlertsUpdateRequest, AdminAlertsUpdateResponse, ADMIN, NOT_FOUND
)
"""Acknowledge an open alert, or snooze it: no messages until then, except about the end."""
ADMIN_ALERTS_END = ApiOperation("admin/alerts/end", AdminAlertsEndRequest, AdminAlertsEndResponse, ADMIN, NOT_FOUND)
"""End an alert whose subject is no longer run, without a message. Repeating has no effect."""
