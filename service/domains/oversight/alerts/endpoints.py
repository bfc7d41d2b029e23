"""alerts/* and admin/alertRules, admin/alerts: extensions."""

from carrel.wire import alerts as wire
from service.domains.oversight.alerts import reports, service
from service.web.routing import Router

router = Router()

router.serve(wire.REPORT_RUN, reports.report_run)
router.serve(wire.REPORT_SCHEDULES, reports.report_schedules)
router.serve(wire.ADMIN_ALERT_RULES_CREATE, service.create_rule, name="create_alert_rule")
router.read(wire.ADMIN_ALERT_RULES_LIST, service.list_rules, name="list_alert_rules")
router.serve(wire.ADMIN_ALERT_RULES_UPDATE, service.update_rule, name="update_alert_rule")
router.serve(wire.ADMIN_ALERT_RULES_DELETE, service.delete_rule, name="delete_alert_rule")
router.serve(wire.ADMIN_ALERT_RULES_TEST, service.test_rule, name="test_alert_rule")
router.read(wire.ADMIN_ALERT_RULES_LIST_DELIVERIES, service.list_deliveries, name="list_alert_deliveries")
router.serve(wire.ADMIN_ALERT_RULES_SEND_AGAIN, service.send_again, name="send_alert_delivery_again")
router.serve(wire.ADMIN_ALERTS_UPDATE, service.update_alert)
router.serve(wire.ADMIN_ALERTS_END, service.end_alert)
router.read(wire.ADMIN_ALERTS_LIST, service.list_alerts)
