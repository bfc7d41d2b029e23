"""Owners, the audit and search logs, changes of many documents, alerts, and the status: extensions."""

from fastapi import Request

from carrel.wire import alerts, document_changes, oversight, owners
from service.domains.oversight.alerts import reports
from service.domains.oversight.alerts import service as rules
from service.domains.oversight.audit_log import log
from service.domains.oversight.changes import changing
from service.domains.oversight.owners import transferring
from service.domains.oversight.status import service as status
from service.domains.search import log as search_log
from service.web.connections import Connections
from service.web.dependencies import CallerDep, ConnectionDep, RuntimeDep
from service.web.routing import Router

router = Router()

router.serve(owners.ADMIN_OWNERS_TRANSFER, transferring.transfer, name="transfer_ownership")
router.serve(owners.ADMIN_USERS_PLAN_OFFBOARDING, transferring.plan_offboarding)
router.serve(owners.ADMIN_USERS_OFFBOARD, transferring.offboard, name="offboard_user")
router.read(oversight.ADMIN_AUDIT_LOG_QUERY, log.query_log, name="query_audit_log")
router.serve(oversight.ADMIN_SEARCH_LOG_QUERY, search_log.query_log, name="query_search_log")
router.serve(oversight.ADMIN_SEARCH_LOG_SUMMARIZE, search_log.summarize, name="summarize_search_log")
router.serve(document_changes.START_DOCUMENT_CHANGE, changing.start_change)
router.serve(document_changes.START_ACCESS_CHANGE, changing.start_access_change)
router.read(document_changes.GET_DOCUMENT_CHANGE, changing.get_change)
router.serve(alerts.REPORT_RUN, reports.report_run)
router.serve(alerts.REPORT_SCHEDULES, reports.report_schedules)
router.serve(alerts.ADMIN_ALERT_RULES_CREATE, rules.create_rule, name="create_alert_rule")
router.read(alerts.ADMIN_ALERT_RULES_LIST, rules.list_rules, name="list_alert_rules")
router.serve(alerts.ADMIN_ALERT_RULES_UPDATE, rules.update_rule, name="update_alert_rule")
router.serve(alerts.ADMIN_ALERT_RULES_DELETE, rules.delete_rule, name="delete_alert_rule")
router.serve(alerts.ADMIN_ALERT_RULES_TEST, rules.test_rule, name="test_alert_rule")
router.read(alerts.ADMIN_ALERT_RULES_LIST_DELIVERIES, rules.list_deliveries, name="list_alert_deliveries")
router.serve(alerts.ADMIN_ALERT_RULES_SEND_AGAIN, rules.send_again, name="send_alert_delivery_again")
router.serve(alerts.ADMIN_ALERTS_UPDATE, rules.update_alert)
router.serve(alerts.ADMIN_ALERTS_END, rules.end_alert)
router.read(alerts.ADMIN_ALERTS_LIST, rules.list_alerts)


@router.operation(oversight.ADMIN_STATUS_GET)
async def get_status(
    request: oversight.AdminStatusGetRequest,
    http_request: Request,
    runtime: RuntimeDep,
    connection: ConnectionDep,
    caller: CallerDep,
) -> oversight.AdminStatusGetResponse:
    """Return the state of the organization: counts, indexing in progress, and running or failed jobs and syncs."""
    del request
    connections: Connections | None = http_request.app.state.connections
    return await status.get_status(runtime, connection, caller, connections=connections)
