"""Applications and API keys on the real service."""

from datetime import UTC, datetime, timedelta

import pytest

from app.credentials.applications import addresses_in, problems_with
from carrel import Carrel
from carrel.wire.oauth_clients import OAuthClientStatus
from tests.app.conftest import House
from tests.app.pages import HOSTILE_CASES
from tests.oauth.flow import App, Pkce, a_person, an_mcp_client

CALLBACK = "https://app.example.test/callback"


def found(house: House, name: str):
    return next(client for client in house.client.admin.oauth_clients.list() if client.name == name)


def made(house: House, name: str, **options):
    wanted = {"redirect_uris": [CALLBACK], "scopes": ["api:catalog:read"]} | options
    return house.client.admin.oauth_clients.create(name, **wanted)


def test_what_waits_is_approved_with_its_meaning_said(house: House) -> None:
    with Carrel(house.service.new_user("asks@example.test"), house.service.base_url) as member:
        scopes = ["api:catalog:read", "api:admin"]
        asked = member.admin.oauth_clients.request("Travel", redirect_uris=[CALLBACK], scopes=scopes)
    assert "1 application waits for approval." in house.open("oauth_clients").shown
    listed = house.open("oauth_clients", status="pending").rows()
    assert [(row["Name"], row["Requested by"]) for row in listed] == [("Travel", "asks@example.test")]
    page = house.open("oauth_clients", client=str(asked.client_id))
    page.press("Approve …")
    house.client.admin.oauth_clients.update(asked.client_id, redirect_uris=["https://elsewhere.example/callback"])
    page.press_key("confirm.yes")
    assert found(house, "Travel").status is OAuthClientStatus.PENDING
    assert "asks@example.test requested it" in page.shown
    assert "The application can do everything that the admin can do" in page.shown
    page.press("Approve …")
    assert "Read and search, Administer" in page.shown
    assert found(house, "Travel").status is OAuthClientStatus.PENDING
    page.press_key("confirm.yes")
    assert found(house, "Travel").status is OAuthClientStatus.APPROVED
    assert "requested it" not in page.shown


def test_an_application_is_made_and_its_secret_shown_once(house: House) -> None:
    page = house.open("oauth_clients").press("New application")
    page.text_input(key="client.name").set_value("Intranet").run()
    page.text_area(key="client.addresses").set_value("http://intranet.example/callback\nhttps://a.example/*").run()
    page.press_key("new_client.submit")
    assert "http://intranet.example/callback must be https" in page.shown
    assert "https://a.example/* must be a URL in ASCII, such as https://app.example.com/callback" in page.shown
    page.text_area(key="client.addresses").set_value(f"{CALLBACK}\n{CALLBACK}\n").run()
    page.press_key("new_client.submit")
    assert "Choose at least one scope." in page.shown
    page.checkbox(key="client.api:catalog:read").check().run().press_key("new_client.submit")
    value = page.secret
    client = found(house, "Intranet")
    assert (client.redirect_uris, client.scopes) == ([CALLBACK], ["api:catalog:read"])
    shown = house.open("oauth_clients", client=str(client.client_id)).shown
    assert "/.well-known/oauth-authorization-server" in shown
    assert f"{house.service.base_url}/api/oauth/token" in shown
    assert exchanged(house, str(client.client_id), value) == "invalid_grant"
    page.press_key("secret.done")
    assert value not in page.kept + page.shown
    assert page.address["client"] == str(client.client_id)


def exchanged(house: House, client_id: str, client_secret: str) -> str:
    """Return the token endpoint's error for a made-up code: invalid_grant for a known client, else invalid_client."""
    return str(App(house.service, client_id, client_secret, CALLBACK).exchange("no such code", Pkce()).json()["error"])


def test_an_application_is_changed(house: House) -> None:
    one_agent = f"api:agent:message:{house.client.admin.agents.create('Steward').agent_id}"
    client = made(house, "Changing", scopes=["api:catalog:read", "api:admin", one_agent])
    page = house.open("oauth_clients", client=str(client.client_id)).press("Edit")
    assert "Message the agent Steward" in page.shown
    assert page.text_area(key="client.addresses").value == CALLBACK
    assert page.checkbox(key="client.api:admin").value
    page.checkbox(key="client.api:admin").uncheck().run()
    page.text_area(key="client.addresses").set_value("http://localhost:9000/back").run()
    page.press_key("edit_client.submit")
    changed = found(house, "Changing")
    assert changed.scopes == ["api:catalog:read", one_agent]
    assert changed.redirect_uris == ["http://localhost:9000/back"]
    assert "http://localhost:9000/back" in page.shown


def test_hosts_of_agents_are_allowed_after_asking(house: House) -> None:
    page = house.open("oauth_clients")
    page.text_area(key="hosts").set_value("VSCode.dev\nclaude.ai\nclaude.ai").run().press_key("hosts.save")
    page.press_key("confirm.yes")
    assert house.client.admin.organization.get().client_document_hosts == ["claude.ai", "vscode.dev"]
    house.client.admin.organization.update(client_document_hosts=[])


def test_what_people_allowed_is_listed_and_withdrawn_after_asking(house: House) -> None:
    email = "allows@example.test"
    person, app = a_person(house.service, email, name="Alma"), an_mcp_client(house.service)
    person.tokens(app)
    [row] = [row for row in house.open("oauth_clients").rows(1) if row["Person"].endswith(f"({email})")]
    assert (row["Person"], row["Application"], row["Scopes"]) == (f"Alma ({email})", "An App", "Read and search")
    assert row["Limited to"] == "Not limited"
    other = a_person(house.service, "allows.too@example.test", name="Bo")
    other.tokens(app)
    one = house.open("oauth_clients", client=app.client_id)
    listed = one.rows()
    codes = "\n".join(code.value for code in one.code)
    assert f"--client-id {app.client_id} carrel {house.service.base_url}/mcp" in codes
    one.choose(next(i for i, shown in enumerate(listed) if shown["Person"].endswith(f"({email})")))
    one.press("Withdraw …").press_key("confirm.yes")
    left = list(house.client.admin.oauth_clients.list_consents(client_id=app.client_id))
    assert [consent.email for consent in left] == [other.email]
    one.press("Withdraw all …")
    assert "can no longer act for anyone, effective immediately" in one.shown
    one.press_key("confirm.yes")
    assert "No consents yet." in one.shown
    assert list(house.client.admin.oauth_clients.list_consents(client_id=app.client_id)) == []
    assert "Withdraw all …" not in one.labels


def test_a_new_secret_takes_the_old_ones_place_until_the_application_is_deleted(house: House) -> None:
    client = made(house, "Rotating")
    page = house.open("oauth_clients", client=str(client.client_id)).press("New secret")
    assert exchanged(house, str(client.client_id), client.client_secret) == "invalid_grant"
    value = page.press_key("confirm.yes").secret
    assert exchanged(house, str(client.client_id), client.client_secret) == "invalid_client"
    assert exchanged(house, str(client.client_id), value) == "invalid_grant"
    page.press_key("secret.done")
    assert value not in page.kept + page.shown
    assert "It loses access immediately" in page.press("Delete …").shown
    page.press_key("confirm.yes")
    assert "client" not in page.query_params
    assert "Rotating" not in page.column("Name")


@pytest.mark.parametrize("name", HOSTILE_CASES)
def test_hostile_names_are_only_text(house: House, name: str) -> None:
    client = made(house, name, scopes=[f"api:agent:message:{house.client.admin.agents.create(name).agent_id}"])
    house.open("oauth_clients", client=str(client.client_id)).press("Delete …").assert_shown_as_text(name)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", "Enter at least one redirect URL"),
        ("https://a.example/cb", ""),
        ("http://127.0.0.1:8080/cb\nhttp://[::1]/cb", ""),
        ("javascript:alert(1)", "javascript:alert(1) must name a host"),
        ("https://user:secret@a.example/cb", "neither a user nor a password"),
        ("https://a.example/cb?state=x", "must have none of"),
        ("https://a.example/" + "x" * 2000, "is longer than 2,000 characters"),
        ("\n".join(f"https://a.example/{number}" for number in range(21)), "at most 20 redirect URLs"),
    ],
)
def test_addresses_are_judged_in_words(text: str, wrong: str) -> None:
    said = " ".join(problems_with(addresses_in(text)))
    assert wrong in said
    assert bool(said) == bool(wrong)


ADA = "ada@example.test"


def keys(house: House, name: str) -> list:
    return [key for key in house.client.admin.api_keys.list() if key.name == name]


def test_a_key_is_made_for_somebody_and_shown_once(house: House) -> None:
    house.add_people(ADA)
    house.client.admin.organization.update(service_accounts_enabled=False)
    page = house.open("api_keys").press("New API key")
    assert '<a href="service_accounts" target="_self">Service accounts (turned off)</a>' in page.shown
    page.text_input(key="key.name").set_value("Ada's notebook").run()
    page.text_input(key="key.owner.typed").set_value("ada").run().press_key("new_key.submit")
    value = page.secret
    assert value in page.code[1].value
    assert house.try_token(value) == 200
    page.press_key("secret.done")
    assert not page.code
    assert value not in page.kept + page.shown
    [key] = keys(house, "Ada's notebook")
    assert (key.owner_email, key.may_act_for_users) == (ADA, False)
    assert key.expires_at - datetime.now(UTC) > timedelta(days=364)


def test_a_key_needs_a_name_and_acting_for_others_is_explained(house: House) -> None:
    page, before = house.open("api_keys").press("New API key"), list(house.client.admin.api_keys.list())
    assert "Enter a name for the key" in page.press_key("new_key.submit").shown
    assert list(house.client.admin.api_keys.list()) == before
    page.text_input(key="key.name").set_value("Server").run()
    assert "can act for anyone in the organization" not in page.shown
    page.checkbox(key="key.for_others").check().run()
    assert "can act for anyone in the organization" in page.shown
    page.segmented_control(key="key.expiry").set_value("never").run().press_key("new_key.submit")
    [key] = keys(house, "Server")
    assert (key.owner_email, key.may_act_for_users, key.expires_at) == (house.service.admin_email, True, None)


def test_a_key_is_revoked_after_asking(house: House) -> None:
    value = house.client.admin.api_keys.create("Short-lived").api_key
    page = house.open("api_keys")
    number = page.column("Name").index("Short-lived")
    page.choose(number)
    assert "Short-lived" in house.open("api_keys", key=page.address["key"]).shown
    page.press("Revoke …")
    assert "“Short-lived”" in page.shown
    assert house.try_token(value) == 200
    page.press_key("confirm.yes")
    assert house.try_token(value) == 401
    assert "Revoked" in page.shown
    assert "Revoke …" not in page.labels
    page.press("All API keys")
    assert page.rows()[number]["Status"] == "Revoked"


@pytest.mark.parametrize("name", HOSTILE_CASES)
def test_hostile_names_of_keys_are_only_text(house: House, name: str) -> None:
    house.client.admin.api_keys.create(name)
    page = house.open("api_keys")
    page.choose(len(page.rows()) - 1).assert_shown_as_text(name)


def test_a_key_is_replaced_by_one_like_it(house: House) -> None:
    house.add_people(ADA)
    in_ninety_days = datetime.now(UTC) + timedelta(days=90)
    made = house.client.admin.api_keys.create("Nightly", owner_email=ADA, expires_at=in_ninety_days)
    page = house.open("api_keys", key=str(made.api_key_id)).press("New key with the same settings")
    assert page.segmented_control(key="key.expiry").value == "90"
    page.press_key("new_key.submit")
    assert page.secret
    assert [key.owner_email for key in keys(house, "Nightly")] == [ADA, ADA]
    assert "A new key with this name" in house.open("api_keys", key=str(made.api_key_id)).shown
