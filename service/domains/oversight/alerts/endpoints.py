"""alerts/* and admin/alertRules, admin/alerts: extensions."""

from carrel.wire import alerts as wire
from service.domains.oversight.alerts import reports, service
from service.web.dependencies import CallerDep, ConnectionDep, RuntimeDep, SnapshotDep
from service.web.routing import Router

router = Router()


@router.operation(wire.REPORT_RUN)
async def report_run(
    request: wire.ReportRunRequest, runtime: RuntimeDep, connection: ConnectionDep, caller: CallerDep
) -> wire.ReportRunResponse:
    """Report that a run has not ended yet, or how it ended, so that somebody is told when it fails."""
    return await reports.report_run(runtime, connection, caller, request=request)


@router.operation(wire.REPORT_SCHEDULES)
async def report_schedules(
    request: wire.ReportSchedulesRequest, runtime: RuntimeDep, connection: ConnectionDep, caller: CallerDep
) -> wire.ReportSchedulesResponse:
    """Report when schedules are due, so that somebody is told when nothing starts them."""
    return await reports.report_schedules(runtime, connection, caller, request=request)


@router.operation(wire.ADMIN_ALERT_RULES_CREATE)
async def create_alert_rule(
    request: wire.AdminAlertRulesCreateRequest, runtime: RuntimeDep, connection: ConnectionDep, caller: CallerDep
) -> wire.AdminAlertRulesCreateResponse:
    """Make a rule that posts alerts to a web address, or sends them to people of the organization by mail."""
    return await service.create_rule(runtime, connection, caller, request=request)


@router.operation(wire.ADMIN_ALERT_RULES_LIST)
async def list_alert_rules(
    request: wire.AdminAlertRulesListRequest, runtime: RuntimeDep, connection: SnapshotDep, caller: CallerDep
) -> wire.AdminAlertRulesListResponse:
    """List the rules about who is told of alerts."""
    return await service.list_rules(runtime, connection, caller, request=request)


@router.operation(wire.ADMIN_ALERT_RULES_UPDATE)
async def update_alert_rule(
    request: wire.AdminAlertRulesUpdateRequest, runtime: RuntimeDep, connection: ConnectionDep, caller: CallerDep
) -> wire.AdminAlertRulesUpdateResponse:
    """Change what a rule is about, or to whom it sends mail, or let it rest."""
    rule = await service.update_rule(runtime, connection, caller, request=request)
    return wire.AdminAlertRulesUpdateResponse(**dict(rule))


@router.operation(wire.ADMIN_ALERT_RULES_DELETE)
async def delete_alert_rule(
    request: wire.AdminAlertRulesDeleteRequest, connection: ConnectionDep, caller: CallerDep
) -> wire.AdminAlertRulesDeleteResponse:
    """Delete a rule with its secret and its deliveries."""
    await service.delete_rule(connection, caller, rule_id=request.alert_rule_id)
    return wire.AdminAlertRulesDeleteResponse(alert_rule_id=request.alert_rule_id)


@router.operation(wire.ADMIN_ALERT_RULES_TEST)
async def test_alert_rule(
    request: wire.AdminAlertRulesTestRequest, runtime: RuntimeDep, connection: ConnectionDep, caller: CallerDep
) -> wire.AdminAlertRulesTestResponse:
    """Send a test message by a rule, now and once."""
    ids = await service.test_rule(runtime, connection, caller, rule_id=request.alert_rule_id)
    return wire.AdminAlertRulesTestResponse(delivery_ids=ids)


@router.operation(wire.ADMIN_ALERT_RULES_LIST_DELIVERIES)
async def list_alert_deliveries(
    request: wire.AdminAlertRulesListDeliveriesRequest, connection: SnapshotDep, caller: CallerDep
) -> wire.AdminAlertRulesListDeliveriesResponse:
    """List the deliveries of the last 30 days, newest first, with what came of each attempt."""
    page = await service.list_deliveries(connection, caller, request=request)
    return wire.AdminAlertRulesListDeliveriesResponse(deliveries=list(page.items), next_page_token=page.next_page_token)


@router.operation(wire.ADMIN_ALERTS_END)
async def end_alert(
    request: wire.AdminAlertsEndRequest, connection: ConnectionDep, caller: CallerDep
) -> wire.AdminAlertsEndResponse:
    """End an alert whose subject nobody runs any more; nobody is told."""
    alert = await service.end_alert(connection, caller, alert_id=request.alert_id)
    return wire.AdminAlertsEndResponse(**dict(alert))


@router.operation(wire.ADMIN_ALERTS_LIST)
async def list_alerts(
    request: wire.AdminAlertsListRequest, connection: SnapshotDep, caller: CallerDep
) -> wire.AdminAlertsListResponse:
    """List what is wrong now, and what was in the last 30 days, newest first."""
    page = await service.list_alerts(connection, caller, request=request)
    return wire.AdminAlertsListResponse(alerts=list(page.items), next_page_token=page.next_page_token)
