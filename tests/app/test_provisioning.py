"""Provisioning on the real service: the address to give, a token shown once, the last request, revoked."""

import httpx


def test_a_provider_is_given_an_address_and_a_token(house) -> None:
    page = house.open("provisioning").press("New token").press_key("new_scim_token.submit")
    assert "Give the token a name" in page.shown
    page.text_input(key="scim.name").set_value("Entra").run().press_key("new_scim_token.submit")
    [value] = [one.value for one in page.code if one.value.startswith("svc_sc_")]
    page.press_key("secret.done")
    assert value not in page.kept + page.shown
    assert "No request has come yet" in page.shown
    [address] = [one.value for one in page.code]
    assert address == f"{house.service.settings.issuer}/scim/v2"
    users = f"{house.service.base_url}/scim/v2/Users"
    headers = {"Authorization": f"Bearer {value}"}
    assert httpx.get(users, headers=headers, timeout=60).status_code == 200
    group = {"schemas": ["urn:ietf:params:scim:schemas:core:2.0:Group"], "displayName": "Crew"}
    unknown = "11111111-2222-3333-4444-555555555555"
    made = httpx.post(users.replace("Users", "Groups"), json=group | {"members": [{"value": unknown}]}, headers=headers)
    assert made.status_code == 201
    assert f"Unknown here, and to be provisioned first: {unknown}" in house.open("provisioning").shown
    [token] = house.client.admin.scim_tokens.list()
    house.open("provisioning", token=str(token.token_id)).confirm("Revoke")
    assert httpx.get(users, headers=headers, timeout=60).status_code == 401
