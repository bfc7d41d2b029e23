"""admin/alertRules and admin/alerts: who is told when something fails, and what has failed."""

from collections.abc import Iterable
from typing import TypeVar
from uuid import UUID

from carrel._calls import Call
from carrel._operations import ListOperation, Operation, Raw, Resource
from carrel._pages import Listing
from carrel.resources._arguments import Id, as_any, as_list
from carrel.resources._choices import AnyAlertKind
from carrel.wire import alerts as wire

M = TypeVar("M")


class AlertRules(Resource[M]):
    """Rules: which alerts are sent to which web address, or to which people."""

    @property
    def with_raw_response(self) -> "AlertRules[Raw[M]]":
        """The operations of the resource, returning the whole HTTP answer (`.headers`, `.request_id`, `.parsed`)."""
        return AlertRules(self._session.as_raw())

    @Operation
    def create(
        self,
        kinds: Iterable[AnyAlertKind],
        *,
        webhook_url: str | None = None,
        emails: Iterable[str] | None = None,
    ) -> Call[wire.AdminAlertRulesCreateResponse]:
        """Make a rule that posts to a web address, or sends mail to people of the organization: give one of both.

        `webhook_secret` of the answer, which signatures are made with, is shown this once. Raises InvalidRequestError
        `webhook_not_allowed`, `mail_not_set_up` and `unknown_principal`, and ConflictError `too_many_alert_rules`.
        """
        request = wire.AdminAlertRulesCreateRequest(
            kinds=as_list(wire.AlertKind, kinds), webhook_url=webhook_url, emails=as_list(str, emails)
        )
        return Call(wire.ADMIN_ALERT_RULES_CREATE, request)

    @ListOperation
    def list(
        self, *, page_size: int = 100, page_token: str | None = None
    ) -> Listing[wire.AlertRule, wire.AdminAlertRulesListResponse]:
        """Walk the rules, oldest first; each page says whether the service can send mail (`mail_enabled`)."""
        request = wire.AdminAlertRulesListRequest(page_size=page_size, page_token=page_token)
        return Listing(wire.ADMIN_ALERT_RULES_LIST, request, lambda page: page.alert_rules)

    @Operation
    def update(
        self,
        alert_rule_id: Id,
        *,
        kinds: Iterable[AnyAlertKind] | None = None,
        emails: Iterable[str] | None = None,
        enabled: bool | None = None,
    ) -> Call[wire.AdminAlertRulesUpdateResponse]:
        """Change what a rule is about, or to whom it sends mail, or let it rest; what isn't given stays."""
        request = wire.AdminAlertRulesUpdateRequest(
            alert_rule_id=as_any(UUID, alert_rule_id),
            kinds=as_list(wire.AlertKind, kinds),
            emails=as_list(str, emails),
            enabled=enabled,
        )
        return Call(wire.ADMIN_ALERT_RULES_UPDATE, request)

    @Operation
    def delete(self, alert_rule_id: Id) -> Call[wire.AdminAlertRulesDeleteResponse]:
        """Delete a rule with its secret and its deliveries."""
        request = wire.AdminAlertRulesDeleteRequest(alert_rule_id=as_any(UUID, alert_rule_id))
        return Call(wire.ADMIN_ALERT_RULES_DELETE, request)

    @Operation
    def test(self, alert_rule_id: Id) -> Call[wire.AdminAlertRulesTestResponse]:
        """Send a test message by a rule, once; `list_deliveries` tells what came of it."""
        request = wire.AdminAlertRulesTestRequest(alert_rule_id=as_any(UUID, alert_rule_id))
        return Call(wire.ADMIN_ALERT_RULES_TEST, request)

    @ListOperation
    def list_deliveries(
        self, *, alert_rule_id: Id | None = None, page_size: int = 100, page_token: str | None = None
    ) -> Listing[wire.AlertDelivery, wire.AdminAlertRulesListDeliveriesResponse]:
        """Walk the deliveries of the last 30 days, newest first, each with its last ten attempts."""
        request = wire.AdminAlertRulesListDeliveriesRequest(
            alert_rule_id=as_any(UUID, alert_rule_id), page_size=page_size, page_token=page_token
        )
        return Listing(wire.ADMIN_ALERT_RULES_LIST_DELIVERIES, request, lambda page: page.deliveries)


class AdminAlerts(Resource[M]):
    """What is wrong, and what was."""

    @property
    def with_raw_response(self) -> "AdminAlerts[Raw[M]]":
        """The operations of the resource, returning the whole HTTP answer (`.headers`, `.request_id`, `.parsed`)."""
        return AdminAlerts(self._session.as_raw())

    @ListOperation
    def list(
        self,
        *,
        only_open: bool = False,
        page_size: int = 100,
        page_token: str | None = None,
    ) -> Listing[wire.Alert, wire.AdminAlertsListResponse]:
        """Walk the alerts of the last 30 days, newest first, or only what is wrong now (`only_open`)."""
        request = wire.AdminAlertsListRequest(only_open=only_open, page_size=page_size, page_token=page_token)
        return Listing(wire.ADMIN_ALERTS_LIST, request, lambda page: page.alerts)

    @Operation
    def end(self, alert_id: Id) -> Call[wire.AdminAlertsEndResponse]:
        """End an alert whose subject nobody runs any more; nobody is told. Ending it again changes nothing."""
        return Call(wire.ADMIN_ALERTS_END, wire.AdminAlertsEndRequest(alert_id=as_any(UUID, alert_id)))
