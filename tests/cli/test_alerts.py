"""`carrel alerts`, against the real service."""

import json

from tests.cli.conftest import Run
from tests.harness.services import RunningService
from tests.service.test_alerts import report

URL = "https://hooks.example.test/carrel"


def test_rules_are_made_changed_and_deleted(service: RunningService, run: Run) -> None:
    """The secret is printed once; a rule is listed, changed, tested, and deleted only when that is said."""
    assert run("alerts", "add").code == 2
    assert "CARREL_SMTP_URL" in run("alerts", "add", "--mail", service.admin_email).err
    added = run("alerts", "add", "--webhook", URL, "--kind", "run_failed")
    assert added.code == 0, added.err
    assert "whsec_" in added.out
    listed = run("alerts", "rules", "--json").out
    assert "whsec_" not in listed
    [rule] = json.loads(listed)["alertRules"]
    assert rule["kinds"] == ["RUN_FAILED"]
    assert URL in run("alerts", "rules").out
    changed = json.loads(run("alerts", "change", rule["alertRuleId"], "--kind", "SYNC_BEHIND", "--pause", "--json").out)
    assert (changed["kinds"], changed["enabled"]) == (["SYNC_BEHIND"], False)
    assert run("alerts", "test", rule["alertRuleId"]).code == 0
    assert "alert.test" in run("alerts", "deliveries", rule["alertRuleId"]).out
    assert run("alerts", "delete", rule["alertRuleId"]).code == 2
    assert run("alerts", "delete", rule["alertRuleId"], "--yes").code == 0
    assert run("alerts", "rules").err.startswith("Nobody is told")


def test_what_is_wrong_is_listed(service: RunningService, run: Run) -> None:
    """What is open, and with --ended what is over, too."""
    assert "Nothing is wrong." in run("alerts", "list").err
    report(service, "QUARANTINE", quarantinedCount=3, documentCount=10)
    assert run("alerts", "list").out.splitlines()[1].split()[2:] == [
        "RUN_QUARANTINE",
        "/srv/handbook",
        "run_quarantine",
        "3",
        "10",
        "bulk-upload",
    ]
    report(service, "COMPLETED")
    report(service, "FAILED")
    [failed] = json.loads(run("alerts", "list", "--json").out)["alerts"]
    assert "RUN_FAILED of /srv/handbook" in run("alerts", "end", failed["alertId"]).out
    assert json.loads(run("alerts", "list", "--json").out)["alerts"] == []
    over = json.loads(run("alerts", "list", "--ended", "--json").out)["alerts"]
    assert [one["endedAt"] >= one["beganAt"] for one in over] == [True, True]
