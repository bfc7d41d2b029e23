"""Service accounts and tokens on the real service."""

from datetime import UTC, datetime, timedelta

import pytest

from app.credentials.tokens import NEVER
from app.labels import CALLS, TOKEN_SCOPES
from carrel.wire.scopes import Scope
from tests.app.conftest import House
from tests.app.pages import HOSTILE_CASES, Page


@pytest.fixture(autouse=True)
def _enabled(house: House) -> None:
    house.client.admin.organization.update(service_accounts_enabled=True)


def account(house: House, name: str = "Intranet") -> str:
    return str(house.client.admin.service_accounts.create(name).service_account_id)


def mint(house: House, account_id: str, name: str = "prod", **options):
    options = {"scopes": [Scope.CATALOG_READ]} | options
    return house.client.admin.service_account_tokens.mint(account_id, name, **options)


def tokens(house: House, account_id: str) -> list:
    return list(house.client.admin.service_account_tokens.list(account_id))


def filled(house: House, account_id: str, name: str = "intranet, production") -> Page:
    page = house.open("service_accounts", account=account_id).press("Create token")
    page.text_input(key="mint.name").set_value(name)
    return page.checkbox(key="mint.catalog:read").check().run()


def test_an_account_is_made_and_may_read_nothing(house: House) -> None:
    page = house.open("service_accounts").press("New service account")
    assert "Enter a name" in page.press_key("new_account.submit").shown
    page.text_input(key="new.name").set_value("Canteen menu").run().press_key("new_account.submit")
    made = next(iter(house.client.admin.service_accounts.list(query="Canteen menu")))
    assert page.address["account"] == str(made.service_account_id)
    assert made.email in page.shown
    assert "No tokens yet." in page.shown


def test_a_token_is_shown_once_and_kept_nowhere(house: House) -> None:
    account_id = account(house, "Shown once")
    page = filled(house, account_id)
    page.press_key("mint.submit")
    value = page.secret
    assert value.startswith("svc_")
    assert value in page.code[1].value
    assert house.try_token(value) == 200
    page.press_key("secret.done")
    assert not page.code
    assert value not in page.kept + page.shown
    [token] = tokens(house, account_id)
    assert (token.name, token.scopes) == ("intranet, production", ["catalog:read"])
    ninety = datetime.now(UTC) + timedelta(days=90)
    assert abs(token.expires_at - ninety) < timedelta(hours=1)
    [row] = page.rows()
    assert (row["Name"], row["Scopes"], row["Status"]) == ("intranet, production", "Read and search", "Active")


def test_the_dialog_shows_how_far_the_token_would_reach(house: House) -> None:
    account_id = account(house, "Reaching")
    crew = house.add_group("Reaching crew")
    house.load_resource("Within reach", allowed_group_ids=[crew])
    page = house.open("service_accounts", account=account_id).press("Create token")
    for scope, meaning in TOKEN_SCOPES.items():
        # What a screen reader says is the label as it is written.
        assert page.checkbox(key=f"mint.{scope.value}").label == meaning.name
        assert f"{meaning.lets} {meaning.risk}" in page.shown
    assert "Current reach" not in page.shown
    page.checkbox(key="mint.catalog:read").check().run()
    assert "It can read no document" in page.shown
    house.client.admin.groups.add_members(crew, [{"type": "serviceAccount", "id": account_id}])
    page.checkbox(key="mint.agent:message").check().run()
    shown = page.shown
    assert "<th scope='row'>Documents it can read</th><td>1</td>" in shown
    assert "search the catalog" in shown
    assert "No agent is deployed to the service account" in shown
    assert "searchDocumentCatalog" not in shown
    # There is no endpoint that it could call and that the page would name in code.
    reach = house.client.admin.service_account_tokens.preview_reach(account_id, list(Scope))
    assert set(reach.endpoints) - set(CALLS) == set()


def test_a_token_needs_a_name_and_a_purpose_and_is_warned_of_without_an_end(house: House) -> None:
    account_id = account(house, "Endless")
    page = house.open("service_accounts", account=account_id).press("Create token")
    assert "Enter a name for the token" in page.press_key("mint.submit").shown
    page.text_input(key="mint.name").set_value("x").run()
    assert "Choose at least one scope" in page.press_key("mint.submit").shown
    assert not page.press("Cancel").checkbox
    assert not tokens(house, account_id)
    page = filled(house, account_id)
    page.segmented_control(key="mint.expiry").set_value("never").run()
    assert "Prefer an expiry date" in page.shown
    page.press_key("mint.submit").press_key("secret.done")
    assert tokens(house, account_id)[0].expires_at == NEVER
    assert page.rows()[0]["Expires"] == "Never"


def test_a_dialog_is_about_the_account_it_was_opened_for(house: House) -> None:
    one, other = account(house, "Left open"), account(house, "Looked at next")
    page = house.open("service_accounts", account=one).press("Create token")
    assert page.text_input(key="mint.name")
    page.query_params["account"] = other
    page.run()
    assert "Looked at next" in page.shown
    assert not page.checkbox


def test_what_ends_soon_comes_first(house: House) -> None:
    account_id = account(house, "Ending")
    mint(house, account_id, "ends soon", expires_at=datetime.now(UTC) + timedelta(days=13))
    mint(house, account_id, "ends later", expires_at=datetime.now(UTC) + timedelta(days=15))
    page = house.open("service_accounts")
    assert "will expire within 14 days" in page.shown
    assert "ends soon" in page.shown
    assert "ends later" not in page.shown
    ending = next(one for one in tokens(house, account_id) if one.name == "ends soon")
    assert f"service_accounts?account={account_id}&amp;token={ending.token_id}" in page.shown
    marked = {row["Name"]: row["Expires"] for row in house.open("service_accounts", account=account_id).rows()}
    assert marked["ends soon"].startswith("⚠")
    assert not marked["ends later"].startswith("⚠")


def test_a_token_that_ends_soon_is_replaced(house: House) -> None:
    account_id = account(house, "Replaced")
    scopes = [Scope.CATALOG_READ, Scope.AGENT_MESSAGE]
    old = mint(house, account_id, "nightly", scopes=scopes, expires_at=datetime.now(UTC) + timedelta(days=1))
    address = {"account": account_id, "token": str(old.token_id)}
    link = "service_accounts?" + "&amp;".join(f"{name}={value}" for name, value in address.items())
    assert f'href="{link}"' in house.open("health").shown
    page = house.open("service_accounts", **address).press("New token with the same scopes")
    assert page.text_input(key="mint.name").value == "nightly"
    assert page.segmented_control(key="mint.expiry").value == "date"
    assert page.date_input(key="mint.day").value == datetime.now(UTC).date() + timedelta(days=1)
    page.press_key("mint.submit")
    value = page.secret
    [new] = [one for one in tokens(house, account_id) if one.token_id != old.token_id]
    assert (new.name, new.scopes) == ("nightly", old.scopes)
    assert "and is not used yet." in house.open("service_accounts", **address).shown
    assert f'href="{link}"' not in house.open("health").shown
    assert house.try_token(value) == 200
    assert "and is in use." in house.open("service_accounts", **address).shown


def test_a_token_is_revoked_after_asking(house: House) -> None:
    account_id = account(house, "Revoked")
    token = mint(house, account_id)
    page = house.open("service_accounts", account=account_id).choose()
    assert page.address["token"] == str(token.token_id)
    assert "Documents it can read" in page.shown
    assert f'href="who_can_read?who=serviceAccount%3A{account_id}" target="_self">Give access' in page.shown
    to_choose = house.open("who_can_read", who=f"serviceAccount:{account_id}").shown
    assert "<small>Give access to</small><br><strong>Revoked</strong>" in to_choose
    page.press("Revoke …")
    assert "stops working immediately" in page.shown
    assert tokens(house, account_id)[0].status == "active"
    page.press_key("confirm.yes")
    assert tokens(house, account_id)[0].status == "revoked"
    assert "This token was revoked" in page.shown
    page.press("All its tokens")
    assert page.rows()[0]["Status"] == "Revoked"
    assert " in " not in page.rows()[0]["Expires"]
    assert house.try_token(token.token) == 401


def test_a_token_is_shown_under_its_own_account_alone(house: House) -> None:
    own, other = account(house, "Its own"), account(house, "Not its own")
    token = str(mint(house, own, "addressed").token_id)
    shown = house.open("service_accounts", account=own, token=token).shown
    assert "addressed" in shown
    assert "Documents it can read" in shown
    for account_id, wrong in ((other, token), (own, "nothing"), (own, own)):
        page = house.open("service_accounts", account=account_id, token=wrong)
        assert "This token does not exist." in page.shown
        page.press("All its tokens")
        assert "token" not in page.query_params


def test_deleting_an_account_says_what_stops(house: House) -> None:
    account_id = account(house, "Deleted soon")
    mint(house, account_id)
    page = house.open("service_accounts", account=account_id).press("Delete account")
    assert "1 active token will stop immediately" in page.shown
    page.press_key("confirm.yes")
    assert "account" not in page.query_params
    assert "Deleted soon" not in page.column("Name")
    assert "This service account does not exist" in house.open("service_accounts", account=account_id).shown


def test_where_service_accounts_are_off_the_page_says_so_and_switches_them_on(house: House) -> None:
    account_id = account(house, "Asleep")
    house.client.admin.organization.update(service_accounts_enabled=False)
    page = house.open("service_accounts", account=account_id)
    assert "Service accounts are turned off for your organization." in page.shown
    assert page.button(key="mint.open").disabled
    page.press("Turn on service accounts")
    assert house.client.admin.organization.get().service_accounts_enabled
    assert not page.button(key="mint.open").disabled


@pytest.mark.parametrize("name", HOSTILE_CASES)
def test_hostile_names_are_only_text(house: House, name: str) -> None:
    account_id = account(house, name)
    mint(house, account_id, name, expires_at=datetime.now(UTC) + timedelta(days=2))
    house.open("service_accounts", account=account_id).choose().assert_shown_as_text(name)
    house.open("service_accounts").assert_shown_as_text(name)
