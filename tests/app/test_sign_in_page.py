"""The page Sign-in: providers added, tested, changed and deleted."""

from tests.app.conftest import House, html_of
from tests.app.pressing import press
from tests.service.directory import another_organization


def test_a_provider_is_added_changed_and_deleted(house: House) -> None:
    """The dialog says what is missing, the secret is on no page, and what is wrong with the provider is in words."""
    page = house.open("sign_in")
    assert "People sign in with a password here." in html_of(page)
    page = press(page, "New provider")
    page.button(key="new_provider.submit").click().run()
    assert "Give the name on the button." in html_of(page)
    fields = {"issuer": "https://login.example.test", "name": "Work <b>", "client_id": "carrel", "secret": "a secret"}
    for name, value in fields.items():
        page.text_input(key=f"provider.{name}").set_value(value)
    page.text_area(key="provider.domains").set_value("example.test\nexample.org").run()
    page.button(key="new_provider.submit").click().run()
    (made,) = house.client.admin.sign_in_providers.list()
    assert made.domains == ["example.org", "example.test"]
    page = house.open("sign_in")
    assert "Work &lt;b&gt;" in html_of(page)
    assert "a secret" not in html_of(page)
    page.button(key=f"provider.{made.provider_id}.test").click().run()
    assert "can't sign in with it as it is" in html_of(page).replace("&#x27;", "'")
    page.button(key=f"provider.{made.provider_id}.edit").click().run()
    page.checkbox(key="provider.trust_addresses").set_value(True)
    page.button(key="edit_provider.submit").click().run()
    assert house.client.admin.sign_in_providers.get(made.provider_id).trust_addresses
    assert "Not confirmed yet" not in html_of(house.open("sign_in"))
    another_organization(house.service)
    house.client.admin.sign_in_providers.update(made.provider_id, domains=["example.test", "new.test"])
    page = house.open("sign_in")
    assert "Not confirmed yet: new.test" in html_of(page)
    page.button(key=f"provider.{made.provider_id}.delete").click().run()
    page.button(key="confirm.yes").click()
    page.button(key=f"provider.{made.provider_id}.delete").click().run()
    assert list(house.client.admin.sign_in_providers.list()) == []
