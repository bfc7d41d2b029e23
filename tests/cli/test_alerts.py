"""`carrel alerts` and `carrel providers`, against the real service."""

from tests.cli.conftest import Run, ran
from tests.service.test_alerts import report

URL = "https://hooks.example.test/carrel"


def test_rules_are_made_changed_and_deleted(service, run) -> None:
    assert run("alerts", "add").code == 2
    assert "CARREL_SMTP_URL" in run("alerts", "add", "--mail", service.admin_email).err
    added = run("alerts", "add", "--webhook", URL, "--kind", "run_failed")
    assert (added.code, "whsec_" in added.out) == (0, True), added
    listed = run("alerts", "rules", "--json")
    assert "whsec_" not in listed.out
    [rule] = listed.json["alertRules"]
    assert rule["kinds"] == ["RUN_FAILED"]
    assert URL in run("alerts", "rules").out
    of_it = ("--kind", "SYNC_BEHIND", "--pause", "--source", "things", "--webhook", f"{URL}/other")
    changed = run("alerts", "change", rule["alertRuleId"], *of_it, "--json").json
    assert (changed["kinds"], changed["enabled"]) == (["SYNC_BEHIND"], False)
    assert (changed["names"], changed["webhookUrl"]) == (["things"], f"{URL}/other")
    assert run("alerts", "test", rule["alertRuleId"]).code == 0
    assert "'mine' is not an id. --help names the command" in run("alerts", "test", "mine").err
    assert "alert.test" in run("alerts", "deliveries", rule["alertRuleId"]).out
    [sent] = run("alerts", "deliveries", "--json").json["deliveries"]
    assert run("alerts", "send-again", sent["deliveryId"]).code == 0
    assert run("alerts", "delete", rule["alertRuleId"]).code == 2
    assert run("alerts", "delete", rule["alertRuleId"], "--yes").code == 0
    assert run("alerts", "rules").err.startswith("No alert rules")


def test_what_is_wrong_is_listed(service, run) -> None:
    assert "No open alerts." in run("alerts", "list").err
    report(service, "QUARANTINE", quarantinedCount=3, documentCount=10)
    row = run("alerts", "list").out.splitlines()[1].split()
    assert row[2:] == ["RUN_QUARANTINE", "/srv/handbook", "run_quarantine", "3", "10", "bulk-upload"]
    [alert] = run("alerts", "list", "--json").json["alerts"]
    assert "Acknowledged: /srv/handbook." in run("alerts", "acknowledge", alert["alertId"]).out
    assert run("alerts", "acknowledge", alert["alertId"], "--snooze", "2", "--json").json["snoozedUntil"]
    report(service, "COMPLETED")
    report(service, "FAILED")
    [failed] = run("alerts", "list", "--json").json["alerts"]
    assert "RUN_FAILED of /srv/handbook" in run("alerts", "end", failed["alertId"]).out
    assert run("alerts", "list", "--json").json["alerts"] == []
    over = run("alerts", "list", "--ended", "--json").json["alerts"]
    assert [one["endedAt"] >= one["beganAt"] for one in over] == [True, True]


def test_providers_are_added_changed_tested_and_deleted(run: Run) -> None:
    own = ("--issuer", "https://login.example.test", "--client-id", "carrel")
    assert "CARREL_PROVIDER_SECRET" in run("providers", "add", "Work", *own).err
    added = run("providers", "add", "Work", *own, "--secret", "s3cret-word", "--domain", "example.test")
    assert (added.code, "/api/oauth/upstream/callback" in added.out) == (0, True), added
    listed = run("providers", "list", "--json")
    assert "s3cret-word" not in listed.out + added.out
    [provider] = listed.json["signInProviders"]
    provider_id = provider["providerId"]
    changed = ran(run, "providers", "change", provider_id, "--trust-addresses", "--groups", "roles")
    assert (changed["trustAddresses"], changed["groupsClaim"]) == (True, "ROLES")
    tested = run("providers", "test", provider_id, "--json")
    assert (tested.code, tested.err) == (1, "")
    assert run("providers", "test", provider_id).out.splitlines() == tested.json["problems"]
    assert run("providers", "delete", provider_id).code == 2
    assert run("providers", "delete", provider_id, "--yes").code == 0
    assert run("providers", "list").err.startswith("People sign in with a password")
