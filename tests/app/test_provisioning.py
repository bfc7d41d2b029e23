"""Provisioning on the real service: the address to give, a token shown once, the last request, revoked."""

import httpx

from tests.app.conftest import House, html_of
from tests.app.test_service_accounts import kept
from tests.app.test_who_can_read import press
from tests.oauth.flow import a_person


def test_a_provider_is_given_an_address_and_a_token(house: House) -> None:
    """The value works and is gone with the dialog; its request is told, and it stops when it is revoked."""
    page = press(house.open("provisioning"), "New token")
    page.button(key="new_scim_token.submit").click().run()
    assert "Give the token a name" in html_of(page)
    page.text_input(key="scim.name").set_value("Entra").run()
    page.button(key="new_scim_token.submit").click().run()
    [value] = [one.value for one in page.code if one.value.startswith("svc_sc_")]
    page.button(key="secret.done").click().run()
    assert value not in kept(page) + html_of(page)
    assert "No request has come yet" in html_of(page)
    [address] = [one.value for one in page.code]
    assert address == f"{house.service.settings.issuer}/scim/v2"
    users = f"{house.service.base_url}/scim/v2/Users"
    headers = {"Authorization": f"Bearer {value}"}
    assert httpx.get(users, headers=headers, timeout=60).status_code == 200
    [token] = house.client.admin.scim_tokens.list()
    page = house.open("provisioning", token=str(token.token_id))
    press(page, "Revoke")
    page.button(key="confirm.yes").click().run()
    assert httpx.get(users, headers=headers, timeout=60).status_code == 401


def test_the_page_is_for_admins(house: House) -> None:
    """Others are told so."""
    a_person(house.service, "jonas@example.test").http.close()
    page = house.open("provisioning", signed_in_as="jonas@example.test")
    assert "admin" in html_of(page)
    assert not page.code
