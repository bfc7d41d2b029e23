"""Alerts on the page Health: rules made, tested, paused and deleted; what is wrong."""

from tests.app.conftest import House, html_of
from tests.app.pressing import press
from tests.app.test_service_accounts import kept, secret
from tests.service.test_alerts import report


def test_a_webhook_is_set_and_its_secret_shown_once(house: House) -> None:
    """The dialog says what is missing; the rule is there, can be tested, paused and deleted."""
    page = house.open("health")
    assert "Nobody is told." in html_of(page)
    page = press(page, "New alert rule")
    page.segmented_control(key="alert_rule.target").set_value("Mail").run()
    assert "CARREL_SMTP_URL" in html_of(page)
    page.segmented_control(key="alert_rule.target").set_value("Webhook").run()
    page.button(key="alert_rule.submit").click().run()
    assert "Give the address that messages are posted to." in html_of(page)
    page.text_input(key="alert_rule.url").set_value("https://hooks.example.test/carrel").run()
    page.button(key="alert_rule.submit").click().run()
    value = secret(page)
    assert value.startswith("whsec_")
    page.button(key="secret.done").click().run()
    assert value not in kept(page) + html_of(page)
    assert "Every alert → https://hooks.example.test/carrel" in html_of(page)
    [rule] = list(house.client.admin.alert_rules.list())
    page = press(page, "Send a test")
    assert [one.type for one in house.client.admin.alert_rules.list_deliveries()] == ["alert.test"]
    page = press(page, "Pause")
    assert "· paused" in html_of(page)
    page.button(key=f"alert_rule.{rule.alert_rule_id}.delete").click().run()
    page.button(key="confirm.yes").click()
    page.button(key=f"alert_rule.{rule.alert_rule_id}.delete").click().run()
    assert list(house.client.admin.alert_rules.list()) == []


def test_what_is_wrong_is_shown(house: House) -> None:
    """An open alert with its reason, among the findings and in the list; names of others are text."""
    run, source = "0199f3c2-8b62-7f10-8c74-5a2d3e6f7c81", "/srv/<b>handbook</b>"
    report(house.service, "FAILED", source=source, code="source_unreadable", flowRunId=run, documentCount=7)
    page = house.open("health")
    shown = html_of(page)
    assert "1 alert is open." in shown
    about = "/srv/&lt;b&gt;handbook&lt;/b&gt; · bulk-upload · 7 documents"
    link = f'<a href="ingestion?run={run}" target="_self">A run failed</a>'
    assert f"<td>{link}</td><td>{about}</td><td>source_unreadable</td>" in shown
    [alert] = list(house.client.admin.alerts.list(only_open=True))
    page.selectbox(key="alert.end").set_value(str(alert.alert_id)).run()
    page = press(page, "End")
    assert "No alert is open." in html_of(page)
