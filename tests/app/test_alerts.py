"""Alerts on the page Health: rules made, tested, paused and deleted; what is wrong."""

from carrel.wire.alerts import AlertKind
from tests.service.test_alerts import report


def test_a_webhook_is_set_and_its_secret_shown_once(house) -> None:
    page = house.open("health")
    assert "Nobody is told." in page.shown
    page = page.press("New alert rule")
    page.segmented_control(key="alert_rule.target").set_value("Mail").run()
    assert "CARREL_SMTP_URL" in page.shown
    page.segmented_control(key="alert_rule.target").set_value("Webhook").run().press_key("alert_rule.submit")
    assert "Give the address that messages are posted to." in page.shown
    page.text_input(key="alert_rule.url").set_value("https://hooks.example.test/carrel").run()
    page.press_key("alert_rule.submit")
    value = page.secret
    assert value.startswith("whsec_")
    page.press_key("secret.done")
    assert value not in page.kept + page.shown
    assert "Every alert → https://hooks.example.test/carrel" in page.shown
    [rule] = list(house.client.admin.alert_rules.list())
    page = page.press("Send a test")
    assert [one.type for one in house.client.admin.alert_rules.list_deliveries()] == ["alert.test"]
    page = page.press_key(f"alert_rule.{rule.alert_rule_id}.change")
    house.client.admin.alert_rules.update(rule.alert_rule_id, webhook_url="https://hooks.example.test/theirs")
    page.multiselect(key="alert_rule.names").set_value(["/srv/handbook"]).run()
    page.text_input(key="alert_rule.url").set_value("hooks.example.test").run().press_key("alert_rule.submit")
    assert "Address: must be an https address" in page.shown
    page.text_input(key="alert_rule.url").set_value("https://hooks.example.test/other").run()
    page.press_key("alert_rule.submit")
    page.radio(key="alert_rule.choice.webhook_url").set_value("Use mine").run().press_key("alert_rule.submit")
    assert "Every alert of /srv/handbook → https://hooks.example.test/other" in page.shown
    [entry, *_] = house.client.admin.audit_log.query(action="alertRule.update")
    assert "hooks.example.test/" not in entry.model_dump_json()
    [sent] = list(house.client.admin.alert_rules.list_deliveries())
    page.selectbox(key="delivery").set_value(str(sent.delivery_id)).run()
    assert "A test of Carrel" in page.json[0].value
    page.press("Send again")
    page = page.press("Pause")
    assert "· paused" in page.shown
    page.button(key=f"alert_rule.{rule.alert_rule_id}.delete").click().run()
    page.button(key="confirm.yes").click()
    page.button(key=f"alert_rule.{rule.alert_rule_id}.delete").click().run()
    assert list(house.client.admin.alert_rules.list()) == []


def test_what_is_wrong_is_shown(house) -> None:
    run, source = "0199f3c2-8b62-7f10-8c74-5a2d3e6f7c81", "/srv/<b>handbook</b>"
    report(house.service, "FAILED", source=source, code="source_unreadable", flowRunId=run, documentCount=7)
    house.client.admin.alert_rules.create(list(AlertKind), webhook_url="https://hooks.example.test/carrel")
    page = house.open("health")
    shown = page.shown
    assert "1 alert is open." in shown
    assert "<td>It still fails: /srv/&lt;b&gt;handbook&lt;/b&gt;</td>" in shown, "messages of several alerts differ"
    about = "/srv/&lt;b&gt;handbook&lt;/b&gt; · Upload · 7 documents"
    link = f'<a href="ingestion?run={run}" target="_self">A run failed</a>'
    assert f"<td>{link}</td><td>{about}</td><td>The source can&#x27;t be read. It is missing" in shown
    [alert] = list(house.client.admin.alerts.list(only_open=True))
    page.selectbox(key="alert.end").set_value(str(alert.alert_id)).run()
    page = page.press("Acknowledge")
    assert "Acknowledged by " in page.shown
    assert "Snoozed until " in page.press("Snooze for 7 days").shown
    assert "No alert is open." in page.press("End").shown
