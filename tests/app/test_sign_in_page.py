"""The page Sign-in: providers added, tested, changed and deleted."""

from tests.service.directory import another_organization


def test_a_provider_is_added_changed_and_deleted(own_house) -> None:
    page = own_house.open("sign_in")
    assert "People sign in with a password here." in page.shown
    page = page.press("New provider").press_key("new_provider.submit")
    assert "Give the name on the button." in page.shown
    fields = {"issuer": "https://login.example.test", "name": "Work <b>", "client_id": "carrel", "secret": "a secret"}
    for name, value in fields.items():
        page.text_input(key=f"provider.{name}").set_value(value)
    page.text_area(key="provider.domains").set_value("example.test\nexample.org").run()
    page.press_key("new_provider.submit")
    (made,) = own_house.client.admin.sign_in_providers.list()
    assert made.domains == ["example.org", "example.test"]
    page = own_house.open("sign_in")
    assert "Work &lt;b&gt;" in page.shown
    assert "a secret" not in page.shown
    page.press_key(f"provider.{made.provider_id}.test")
    assert "can't sign in with it as it is" in page.shown.replace("&#x27;", "'")
    page.press_key(f"provider.{made.provider_id}.edit")
    page.checkbox(key="provider.trust_addresses").set_value(True)
    page.text_area(key="provider.audiences").set_value("projects-1").run()
    page.press_key("edit_provider.submit")
    changed = own_house.client.admin.sign_in_providers.get(made.provider_id)
    assert (changed.trust_addresses, changed.accepted_audiences) == (True, ["projects-1"])
    for enabled, button in ((False, "Switch passwords off"), (True, "Allow passwords")):
        own_house.open("sign_in").press(button).press_key("confirm.yes")
        assert own_house.client.admin.organization.get().passwords_enabled is enabled
    assert "Not confirmed yet" not in own_house.open("sign_in").shown
    another_organization(own_house.service)
    own_house.client.admin.sign_in_providers.update(made.provider_id, domains=["example.test", "new.test"])
    page = own_house.open("sign_in")
    assert "Not confirmed yet: new.test" in page.shown
    page.press_key(f"provider.{made.provider_id}.delete")
    page.button(key="confirm.yes").click()
    page.press_key(f"provider.{made.provider_id}.delete")
    assert list(own_house.client.admin.sign_in_providers.list()) == []
