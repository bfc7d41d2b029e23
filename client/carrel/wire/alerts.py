"""Alerts: what runs and schedules report, what is wrong or was, and whom an organization tells of it; extensions. An
alert begins when something fails and ends when it works again. Rules say which alerts are sent where; each message to a
receiver is a delivery."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any
from uuid import UUID

from pydantic import AfterValidator, Field, model_validator

from carrel.wire import common
from carrel.wire.fields import NO_NUL, EmailAddress, Instant, Label, RequestInstant, StrictFlag, once_each
from carrel.wire.operations import ADDS_DATA, ADMIN, CONFLICT, KEYED, NOT_FOUND, SECRET, WRITE, ApiOperation
from carrel.wire.sources import LedgerName, SourceText

MOST_SCHEDULES = 1000
"""Most schedules that one report names."""


class AlertKind(StrEnum):
    """What an alert is about."""

    RUN_FAILED = "RUN_FAILED"
    """A run failed, was killed, or left something undone."""
    RUN_QUARANTINE = "RUN_QUARANTINE"
    """A run ended, and could not load some of its source."""
    SYNC_BEHIND = "SYNC_BEHIND"
    """A sync's last run failed, left something undone, or just stopped: the collection differs from its source."""
    SCHEDULE_MISSED = "SCHEDULE_MISSED"
    """Nothing has started what a schedule says."""


ALERT_TITLES: Mapping[AlertKind, str] = {
    AlertKind.RUN_FAILED: "A run failed",
    AlertKind.RUN_QUARANTINE: "A run could not load everything",
    AlertKind.SYNC_BEHIND: "A sync is behind",
    AlertKind.SCHEDULE_MISSED: "A schedule was missed",
}
"""What happened, in a few words for messages and pages."""


class DeliveryStatus(StrEnum):
    """How far a delivery is; a pending one is tried again."""

    PENDING = "PENDING"
    DELIVERED = "DELIVERED"
    FAILED = "FAILED"


class RunOutcome(StrEnum):
    """Whether a run has not ended yet, or how it ended."""

    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    INCOMPLETE = "INCOMPLETE"
    """The run ended, and left something undone, such as deletions that its guard blocked."""
    QUARANTINE = "QUARANTINE"
    """It ended, and could not load some of its source."""
    FAILED = "FAILED"
    STOPPED = "STOPPED"
    """Somebody has stopped it."""


def _refuse_repetition(kinds: list[AlertKind]) -> list[AlertKind]:
    if len(set(kinds)) < len(kinds):
        raise ValueError("must be given once each")
    return kinds


def _refuse_other_schemes(url: str) -> str:
    if not url.lower().startswith(("https://", "http://")):
        raise ValueError("must be an https address, such as https://hooks.example.com/carrel")
    return url


Kinds = Annotated[
    list[AlertKind],
    Field(min_length=1, max_length=len(AlertKind), examples=[["RUN_FAILED", "SCHEDULE_MISSED"]]),
    AfterValidator(_refuse_repetition),
]
WebhookUrl = Annotated[
    str,
    Field(min_length=1, max_length=2048, examples=["https://hooks.example.com/carrel"]),
    NO_NUL,
    AfterValidator(_refuse_other_schemes),
]
Names = Annotated[list[SourceText], Field(max_length=100, examples=[["/srv/handbook"]])]
Emails = Annotated[list[EmailAddress], Field(min_length=1, max_length=50)]
Count = Annotated[int, Field(strict=True, ge=0, le=2**31 - 1)]


class ReportRunRequest(common.RequestModel):
    """Report that a run has not ended yet (`RUNNING`), again and again in time, and at its end how it ended."""

    run_id: UUID
    """Id of the run, made by the program that reports it."""
    subject: Label
    """What tells the runs over one thing from others, such as the name of its ledger; its newest run counts."""
    flow: Label
    """What kind of run it is, such as `bulk-upload`."""
    source: SourceText
    """What the run is over, as people know it: a path, a pattern or an address, without credentials."""
    outcome: RunOutcome
    """Whether the run has not ended yet, or how it ended."""
    code: Label | None = None
    """Stable code of the reason, of a run that failed."""
    document_count: Count | None = None
    """Number of documents of the source, as far as it was read."""
    quarantined_count: Count | None = None
    """Number of items that could not be loaded."""
    flow_run_id: UUID | None = None
    """Id of the run on the Prefect server, where the workbench shows it; absent of a run without one."""
    has_begun: StrictFlag | None = None
    """False, not absent, while the run has read nothing of its source."""
    ledger: LedgerName | None = None
    """Name of the source's ledger, as `sources/reportSource` takes it: its quarantine decides about the alert."""
    is_partial: StrictFlag = False
    """True of a run over a part of its source, such as a retry: it says nothing about runs over the whole."""


class ReportRunResponse(common.ResponseModel):
    """When to report the run again."""

    run_id: UUID
    """Id of the run."""
    report_again_seconds: int | None = None
    """Seconds after which a run that has not ended is reported again; after five times as long, the run counts as lost.

    Absent: the run has ended."""


class ReportedSchedule(common.RequestModel):
    """A schedule, and when it is due."""

    subject: Label
    """Id of the schedule."""
    name: Label
    """What people call it."""
    due_at: RequestInstant
    """When it is due next, or since when it has been due, if nothing has started it yet."""


class ReportSchedulesRequest(common.RequestModel):
    """Report all schedules that a process serves; a schedule that isn't named any more is forgotten."""

    schedules: Annotated[list[ReportedSchedule], Field(max_length=MOST_SCHEDULES)]
    """Every schedule that isn't paused, at most 1000."""

    _schedules_once = once_each("schedules", "schedules must be given once each", key="subject")


class ReportSchedulesResponse(common.ResponseModel):
    """When to report them again."""

    report_again_seconds: int
    """So often they are to be reported."""


class AlertRule(common.Versioned):
    """A rule: which alerts are sent, and to whom."""

    edited = ("kinds", "names", "webhook_url", "recipients", "enabled")
    secret = ("webhook_url",)  # the path of its address may let others post there

    alert_rule_id: UUID
    kinds: list[AlertKind]
    """Which alerts it is about."""
    names: list[str] = Field(default_factory=list[str])
    """Names of the sources, syncs or schedules that it is about; empty: all."""
    webhook_url: str | None = None
    """Address that it posts to; absent of a rule that sends mail."""
    recipients: list[common.UserPrincipal]
    """The people that it sends mail to."""
    enabled: bool
    """Whether it sends anything."""
    created_at: Instant
    """When it was made."""


class AdminAlertRulesCreateRequest(common.RequestModel):
    """Make a rule that posts alerts to a web address, or sends them to people of the organization by mail."""

    kinds: Kinds
    """Which alerts it is about."""
    webhook_url: WebhookUrl | None = None
    """Public https address to post to, as the Standard Webhooks specification says; or `emails`."""
    emails: Emails | None = None
    """Addresses of people of the organization, at most 50; or `webhookUrl`."""
    names: Names = Field(default_factory=list[str])
    """Names of the sources, syncs or schedules that it is about, as alerts have them; all unless given."""

    @model_validator(mode="after")
    def require_one_target(self) -> "AdminAlertRulesCreateRequest":
        """Refuse a rule with both targets, or none."""
        if (self.webhook_url is None) == (self.emails is None):
            raise ValueError("give either webhookUrl or emails")
        return self


class AdminAlertRulesCreateResponse(AlertRule):
    """The rule, and the secret of a webhook's signatures, which is shown here alone."""

    webhook_secret: str | None = Field(default=None, repr=False)
    """What signatures are made with, `whsec_…`; shown once."""


class AdminAlertRulesListRequest(common.PagedRequest):
    """List the rules."""


class AdminAlertRulesListResponse(common.PagedResponse):
    """One page of rules."""

    alert_rules: list[AlertRule]
    """The rules, oldest first."""
    mail_enabled: bool
    """Whether the service can send mail: an operator sets CARREL_SMTP_URL and CARREL_MAIL_FROM."""


class AdminAlertRulesUpdateRequest(common.VersionedRequest):
    """Change what a rule is about, or to whom it sends mail, or let it rest. What isn't given stays."""

    alert_rule_id: UUID
    kinds: Kinds | None = None
    """Which alerts it is about."""
    emails: Emails | None = None
    """Addresses of people of the organization, of a rule that sends mail."""
    enabled: StrictFlag | None = None
    """Whether it sends anything."""
    names: Names | None = None
    """Names of the sources, syncs or schedules that it is about; an empty list: all."""
    webhook_url: WebhookUrl | None = None
    """Address to post to, of a rule that does; its secret stays the same."""


class AdminAlertRulesUpdateResponse(AlertRule):
    """The rule, as it is now."""


class AdminAlertRulesDeleteRequest(common.RequestModel):
    """Delete a rule, its secret and its deliveries; what is on its way is not sent again."""

    alert_rule_id: UUID


class AdminAlertRulesDeleteResponse(common.ResponseModel):
    """The rule that is gone."""

    alert_rule_id: UUID


class AdminAlertRulesTestRequest(common.RequestModel):
    """Send a test message by a rule, now and once; its outcome is listed with the deliveries."""

    alert_rule_id: UUID


class AdminAlertRulesTestResponse(common.ResponseModel):
    """The deliveries of the test."""

    delivery_ids: list[UUID]
    """Ids of the deliveries: one of a webhook, one for each person of a mail."""


class DeliveryAttempt(common.ResponseModel):
    """An attempt of a delivery."""

    at: Instant
    """When it ended."""
    status_code: int | None = None
    """What the receiver answered; absent when there was no answer, and of mail."""
    error: str | None = None
    """Why it failed, for people; absent when it did not."""
    answer: str | None = None
    """Beginning of the receiver's answer, at most 1000 bytes; absent of mail."""


class AlertDelivery(common.ResponseModel):
    """A message on its way to one receiver."""

    delivery_id: UUID
    alert_rule_id: UUID
    """Id of the rule that it belongs to."""
    alert_id: UUID | None = None
    """Id of the alert; absent of a test."""
    type: str
    """What it tells: `alert.began`, `alert.continues`, `alert.ended`, `alert.test`, or with `alert.left_out` how many
    messages the rule did not send in an hour."""
    recipient: common.UserPrincipal | None = None
    """The person that a mail goes to."""
    status: DeliveryStatus
    """How far it is."""
    attempt_count: int
    """Number of attempts."""
    attempts: list[DeliveryAttempt]
    """The last ten attempts, oldest first."""
    message: dict[str, Any] | None = None
    """Body of the message; absent from a service that doesn't tell."""
    created_at: Instant
    """When it was made."""
    next_attempt_at: Instant | None = None
    """When it is tried again."""


class AdminAlertRulesSendAgainRequest(common.RequestModel):
    """Send a message again, with the same id and body; its outcome is listed with the deliveries."""

    delivery_id: UUID


class AdminAlertRulesSendAgainResponse(common.ResponseModel):
    """The delivery that is on its way again."""

    delivery_id: UUID


class AdminAlertRulesListDeliveriesRequest(common.PagedRequest):
    """List deliveries of the last 30 days, newest first."""

    alert_rule_id: UUID | None = None
    """Only those of this rule."""


class AdminAlertRulesListDeliveriesResponse(common.PagedResponse):
    """One page of deliveries."""

    deliveries: list[AlertDelivery]
    """The deliveries, newest first."""


class Alert(common.ResponseModel):
    """Something that is wrong, or was."""

    alert_id: UUID
    kind: AlertKind
    """What it is about."""
    name: str
    """What has failed: a source, a sync or a schedule, as people know it."""
    code: str
    """Stable code of the reason."""
    text: str | None = None
    """The reason in a sentence for people; absent from a service that doesn't tell."""
    quarantined_count: int | None = None
    """Number of items that could not be loaded, of an alert about quarantine."""
    flow: str | None = None
    """What kind of run failed, such as `bulk-upload`; absent of syncs and schedules."""
    document_count: int | None = None
    """Number of documents of the run's source, as far as it was read."""
    flow_run_id: UUID | None = None
    """Id of the run on the Prefect server; absent of a run without one."""
    sync_id: UUID | None = None
    """Id of the sync, of an alert about one."""
    source_id: UUID | None = None
    """Id of the source, of an alert about its quarantine."""
    began_at: Instant
    """Since when it is wrong."""
    ended_at: Instant | None = None
    """When it worked again; absent while it doesn't."""
    acknowledged_at: Instant | None = None
    """When an admin acknowledged it: it is not told again until its reason or number of items changes."""
    acknowledged_by: str | None = None
    """Name of the admin who acknowledged it."""
    snoozed_until: Instant | None = None
    """Until when nobody is told of it, unless it ends."""


class AdminAlertsListRequest(common.PagedRequest):
    """List alerts, newest first: what is wrong, and what was in the last 30 days."""

    only_open: StrictFlag = False
    """Only what is wrong now; false unless given."""


class AdminAlertsListResponse(common.PagedResponse):
    """One page of alerts."""

    alerts: list[Alert]
    """The alerts, newest first."""


class AdminAlertsEndRequest(common.RequestModel):
    """End an alert whose subject nobody runs any more, such as a folder that was renamed; nobody is told."""

    alert_id: UUID


class AdminAlertsEndResponse(Alert):
    """The alert, which has ended. What fails later begins another one."""


class AdminAlertsUpdateRequest(common.RequestModel):
    """Acknowledge or snooze an open alert. What isn't given stays."""

    alert_id: UUID
    acknowledged: StrictFlag | None = None
    """true: acknowledge it; false: take that back."""
    snoozed_until: RequestInstant | None = None
    """Until when nobody is told of it; a time that is past ends the snooze."""


class AdminAlertsUpdateResponse(Alert):
    """The alert, as it is now."""


REPORT_RUN = ApiOperation(
    "alerts/reportRun", ReportRunRequest, ReportRunResponse, WRITE, CONFLICT, by_position=("run_id", "outcome")
)
"""Report that a run has not ended yet, or how it ended; the former again after `report_again_seconds`.

Raises ConflictError `too_many_reports`."""
REPORT_SCHEDULES = ApiOperation(
    "alerts/reportSchedules", ReportSchedulesRequest, ReportSchedulesResponse, WRITE, CONFLICT
)
"""Report all schedules that are served (at most 1000), each with when it is due.

Raises ConflictError `too_many_reports`."""
ADMIN_ALERT_RULES_CREATE = ApiOperation(
    "admin/alertRules/create",
    AdminAlertRulesCreateRequest,
    AdminAlertRulesCreateResponse,
    ADMIN,
    KEYED | SECRET | ADDS_DATA | CONFLICT,
)
"""Create a rule that posts to a web address or sends mail, and send the alerts that are open: give one of both.

`webhook_secret` of the answer, which signatures are made with, is shown this once. Raises InvalidRequestError
`webhook_not_allowed`, `mail_not_set_up` and `unknown_principal`, and ConflictError `too_many_alert_rules`."""
ADMIN_ALERT_RULES_LIST = ApiOperation(
    "admin/alertRules/list", AdminAlertRulesListRequest, AdminAlertRulesListResponse, ADMIN
)
"""Walk the rules, oldest first; each page says whether the service can send mail (`mail_enabled`)."""
ADMIN_ALERT_RULES_UPDATE = ApiOperation(
    "admin/alertRules/update", AdminAlertRulesUpdateRequest, AdminAlertRulesUpdateResponse, ADMIN, NOT_FOUND | CONFLICT
)
"""Change a rule, or pause it; what isn't given stays. Open alerts that it was not about before are sent."""
ADMIN_ALERT_RULES_DELETE = ApiOperation(
    "admin/alertRules/delete", AdminAlertRulesDeleteRequest, AdminAlertRulesDeleteResponse, ADMIN, KEYED | NOT_FOUND
)
"""Delete a rule with its secret and its deliveries."""
ADMIN_ALERT_RULES_TEST = ApiOperation(
    "admin/alertRules/test", AdminAlertRulesTestRequest, AdminAlertRulesTestResponse, ADMIN, KEYED | NOT_FOUND
)
"""Send a test message by a rule, once; `list_deliveries` tells what came of it."""
ADMIN_ALERT_RULES_SEND_AGAIN = ApiOperation(
    "admin/alertRules/sendAgain",
    AdminAlertRulesSendAgainRequest,
    AdminAlertRulesSendAgainResponse,
    ADMIN,
    KEYED | NOT_FOUND,
)
"""Send a message again, whether it was delivered or not; `list_deliveries` shows the result."""
ADMIN_ALERT_RULES_LIST_DELIVERIES = ApiOperation(
    "admin/alertRules/listDeliveries",
    AdminAlertRulesListDeliveriesRequest,
    AdminAlertRulesListDeliveriesResponse,
    ADMIN,
    NOT_FOUND,
)
"""Walk the deliveries of the last 30 days, newest first, each with its last ten attempts."""
ADMIN_ALERTS_LIST = ApiOperation("admin/alerts/list", AdminAlertsListRequest, AdminAlertsListResponse, ADMIN)
"""Walk the alerts of the last 30 days, newest first, or only what is wrong now (`only_open`)."""
ADMIN_ALERTS_UPDATE = ApiOperation(
    "admin/alerts/update", AdminAlertsUpdateRequest, AdminAlertsUpdateResponse, ADMIN, NOT_FOUND
)
"""Acknowledge an open alert, or snooze it: nobody is told of it until then, unless it ends."""
ADMIN_ALERTS_END = ApiOperation("admin/alerts/end", AdminAlertsEndRequest, AdminAlertsEndResponse, ADMIN, NOT_FOUND)
"""End an alert whose subject nobody runs any more; nobody is told. Ending it again changes nothing."""
