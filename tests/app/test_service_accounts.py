"""Service accounts and their tokens, on the real service: made, minted once, shown once, revoked."""

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from streamlit.testing.v1 import AppTest

from app.credentials.expiry import NEVER
from app.labels import CALLS, TOKEN_SCOPES
from carrel.wire.scopes import Scope
from tests.app.conftest import House, html_of, markdown_of
from tests.app.test_search import HOSTILE
from tests.app.test_who_can_read import group, load, press, rows
from tests.oauth.flow import a_person

MEMBER = "jonas@example.test"


@pytest.fixture(autouse=True)
def _enabled(house: House) -> None:
    """The organization has service accounts switched on."""
    house.client.admin.organization.update(service_accounts_enabled=True)


def account(house: House, name: str = "Intranet") -> str:
    """A new service account's id."""
    return str(house.client.admin.service_accounts.create(name).service_account_id)


def mint(house: House, account_id: str, name: str = "prod", **options: Any) -> Any:
    """A token of an account."""
    return house.client.admin.service_account_tokens.mint(
        account_id, name, **({"scopes": [Scope.CATALOG_READ]} | options)
    )


def tokens(house: House, account_id: str) -> list[Any]:
    """An account's tokens."""
    return list(house.client.admin.service_account_tokens.list(account_id))


def filled(house: House, account_id: str, name: str = "intranet, production") -> AppTest:
    """The dialog for a token that may read, filled in."""
    page = press(house.open("service_accounts", account=account_id), "Create token")
    page.text_input(key="mint.name").set_value(name)
    return page.checkbox(key="mint.catalog:read").check().run()


def secret(page: AppTest) -> str:
    """The secret that the page shows."""
    return page.code[0].value


def kept(page: AppTest) -> str:
    """Everything that the page's session keeps, as text."""
    return repr({key: getattr(value, "__dict__", value) for key, value in page.session_state.items()})


def test_an_account_is_made_and_may_read_nothing(house: House) -> None:
    """A name makes one, which is then looked at; without a name it says what is missing, and makes none."""
    page = press(house.open("service_accounts"), "New service account")
    page.button(key="new_account.submit").click().run()
    assert "Give it a name" in html_of(page)
    page.text_input(key="new.name").set_value("Canteen menu").run()
    page.button(key="new_account.submit").click().run()
    made = next(iter(house.client.admin.service_accounts.list(query="Canteen menu")))
    assert page.query_params["account"] == str(made.service_account_id)
    assert made.email in html_of(page)
    assert "It has no token yet." in html_of(page)


def test_a_token_is_shown_once_and_kept_nowhere(house: House) -> None:
    """Its value is in the dialog with a line that tries it and works; closed, it is in no state and on no page."""
    account_id = account(house, "Shown once")
    page = filled(house, account_id)
    page.button(key="mint.submit").click().run()
    assert not page.exception
    value = secret(page)
    assert value.startswith("svc_")
    assert value in page.code[1].value
    answer = httpx.post(
        f"{house.service.base_url}/api/v0/search/searchDocumentCatalog",
        json={"searchQuery": "hello"},
        headers={"Authorization": f"Bearer {value}"},
        timeout=60,
    )
    assert answer.status_code == 200
    page.button(key="secret.done").click().run()
    assert not page.code
    assert value not in kept(page) + html_of(page)
    [token] = tokens(house, account_id)
    assert (token.name, token.scopes) == ("intranet, production", ["catalog:read"])
    ninety = datetime.now(UTC) + timedelta(days=90)
    assert abs(token.expires_at - ninety) < timedelta(hours=1)
    [row] = rows(page)
    assert (row["Name"], row["May"], row["Status"]) == ("intranet, production", "Read and search", "Works")


def test_the_dialog_shows_how_far_the_token_would_reach(house: House) -> None:
    """Each scope says what it lets do and risks; the reach is in figures and words, with the service's warnings."""
    account_id = account(house, "Reaching")
    crew = group(house, "Reaching crew")
    load(house, "Within reach", allowed_group_ids=[crew])
    page = press(house.open("service_accounts", account=account_id), "Create token")
    for scope, meaning in TOKEN_SCOPES.items():
        # What a screen reader says is the label as it is written.
        assert page.checkbox(key=f"mint.{scope.value}").label == meaning.name
        assert f"{meaning.lets} {meaning.risk}" in html_of(page)
    assert "it reaches" not in html_of(page)
    page.checkbox(key="mint.catalog:read").check().run()
    assert "It can read no document" in html_of(page)
    house.client.admin.groups.add_members(crew, [{"type": "serviceAccount", "id": account_id}])
    page.checkbox(key="mint.agent:message").check().run()
    shown = html_of(page)
    assert "<th scope='row'>Documents it can read</th><td>1</td>" in shown
    assert "search the catalog" in shown
    assert "No agent is deployed to the service account" in shown
    assert "searchDocumentCatalog" not in shown


def test_all_that_a_token_can_call_has_words(house: House) -> None:
    """There is no endpoint that a token of a service account can call and that a page would name in code."""
    account_id = account(house, "All words")
    reach = house.client.admin.service_account_tokens.preview_reach(account_id, list(Scope))
    assert set(reach.endpoints) - set(CALLS) == set()


def test_a_token_needs_a_name_and_a_purpose(house: House) -> None:
    """Without either the dialog stays open and says what is missing; nothing is minted."""
    account_id = account(house, "Nameless")
    page = press(house.open("service_accounts", account=account_id), "Create token")
    page.button(key="mint.submit").click().run()
    assert "Give the token a name" in html_of(page)
    page.text_input(key="mint.name").set_value("x").run()
    page.button(key="mint.submit").click().run()
    assert "Choose what the token may do" in html_of(page)
    assert not tokens(house, account_id)
    press(page, "Cancel")
    assert not page.checkbox


def test_a_dialog_is_about_the_account_it_was_opened_for(house: House) -> None:
    """Whoever goes back from it to the list, and to another account, isn't asked for a token of that one."""
    one, other = account(house, "Left open"), account(house, "Looked at next")
    page = press(house.open("service_accounts", account=one), "Create token")
    assert page.text_input(key="mint.name")
    page.query_params["account"] = other
    page.run()
    assert "Looked at next" in html_of(page)
    assert not page.checkbox


def test_a_token_without_an_end_is_warned_of(house: House) -> None:
    """Never is a choice with a warning, and reads as never afterwards."""
    account_id = account(house, "Endless")
    page = filled(house, account_id)
    page.segmented_control(key="mint.expiry").set_value("never").run()
    assert "Prefer an end" in html_of(page)
    page.button(key="mint.submit").click().run()
    page.button(key="secret.done").click().run()
    assert tokens(house, account_id)[0].expires_at == NEVER
    assert rows(page)[0]["Expires"] == "Never"


def test_what_ends_soon_comes_first(house: House) -> None:
    """A token that ends within 14 days is on top with a way to its account; one that ends later isn't."""
    account_id = account(house, "Ending")
    mint(house, account_id, "ends soon", expires_at=datetime.now(UTC) + timedelta(days=13))
    mint(house, account_id, "ends later", expires_at=datetime.now(UTC) + timedelta(days=15))
    page = house.open("service_accounts")
    assert "will expire within 14 days" in html_of(page)
    assert "ends soon" in html_of(page)
    assert "ends later" not in html_of(page)
    ending = next(one for one in tokens(house, account_id) if one.name == "ends soon")
    assert f"service_accounts?account={account_id}&amp;token={ending.token_id}" in html_of(page)
    marked = {row["Name"]: row["Expires"] for row in rows(house.open("service_accounts", account=account_id))}
    assert marked["ends soon"].startswith("⚠")
    assert not marked["ends later"].startswith("⚠")


def test_a_token_that_ends_soon_is_replaced(house: House) -> None:
    """Health leads to it; the new one is as it was, and the page says when the old one can go."""
    account_id = account(house, "Replaced")
    scopes = [Scope.CATALOG_READ, Scope.AGENT_MESSAGE]
    old = mint(house, account_id, "nightly", scopes=scopes, expires_at=datetime.now(UTC) + timedelta(days=1))
    address = {"account": account_id, "token": str(old.token_id)}
    link = "service_accounts?" + "&amp;".join(f"{name}={value}" for name, value in address.items())
    assert f'href="{link}"' in html_of(house.open("health"))
    page = press(house.open("service_accounts", **address), "New token with the same scopes")
    assert (page.text_input(key="mint.name").value, page.segmented_control(key="mint.expiry").value) == (
        "nightly",
        "date",
    )
    assert page.date_input(key="mint.day").value == datetime.now(UTC).date() + timedelta(days=1)
    page.button(key="mint.submit").click().run()
    value = secret(page)
    [new] = [one for one in tokens(house, account_id) if one.token_id != old.token_id]
    assert (new.name, new.scopes) == ("nightly", old.scopes)
    assert "and is not used yet." in html_of(house.open("service_accounts", **address))
    assert f'href="{link}"' not in html_of(house.open("health"))
    httpx.post(
        f"{house.service.base_url}/api/v0/search/searchDocumentCatalog",
        json={"searchQuery": "hello"},
        headers={"Authorization": f"Bearer {value}"},
        timeout=60,
    ).raise_for_status()
    assert "and is in use." in html_of(house.open("service_accounts", **address))


def choose(page: AppTest, number: int = 0) -> AppTest:
    """Choose a row of the page's table."""
    key = next(key for key in page.session_state if ".rows." in key)
    page.session_state[key] = {"selection": {"rows": [number], "columns": [], "cells": []}}
    return page.run()


def test_a_token_is_revoked_after_asking(house: House) -> None:
    """What stops is said first; then it stops at once, and the list says so."""
    account_id = account(house, "Revoked")
    token = mint(house, account_id)
    page = choose(house.open("service_accounts", account=account_id))
    assert page.query_params["token"] == str(token.token_id)
    assert "Documents it can read" in html_of(page)
    assert f'href="who_can_read?who=serviceAccount%3A{account_id}" target="_self">Give access' in html_of(page)
    to_choose = html_of(house.open("who_can_read", who=f"serviceAccount:{account_id}"))
    assert "<small>To give access to</small><br><strong>Revoked</strong>" in to_choose
    press(page, "Revoke")
    assert "stops at once" in html_of(page)
    assert tokens(house, account_id)[0].status == "active"
    page.button(key="confirm.yes").click().run()
    assert tokens(house, account_id)[0].status == "revoked"
    assert "This token was revoked" in html_of(page)
    press(page, "All its tokens")
    assert rows(page)[0]["Status"] == "Revoked"
    assert " in " not in rows(page)[0]["Expires"]
    refused = httpx.post(
        f"{house.service.base_url}/api/v0/search/searchDocumentCatalog",
        json={"searchQuery": "hello"},
        headers={"Authorization": f"Bearer {token.token}"},
        timeout=60,
    )
    assert refused.status_code == 401


def test_a_token_is_shown_under_its_own_account_alone(house: House) -> None:
    """At its address; at another account's, or of none, there is a word and the way back."""
    own, other = account(house, "Its own"), account(house, "Not its own")
    token = str(mint(house, own, "addressed").token_id)
    shown = html_of(house.open("service_accounts", account=own, token=token))
    assert "addressed" in shown
    assert "Documents it can read" in shown
    for account_id, wrong in ((other, token), (own, "nothing"), (own, own)):
        page = house.open("service_accounts", account=account_id, token=wrong)
        assert not page.exception
        assert "There is no such token of this account." in html_of(page)
        press(page, "All its tokens")
        assert "token" not in page.query_params


def test_deleting_an_account_says_what_stops(house: House) -> None:
    """How many tokens stop is said before; afterwards the list is there, without it."""
    account_id = account(house, "Deleted soon")
    mint(house, account_id)
    page = press(house.open("service_accounts", account=account_id), "Delete the account")
    assert "1 working token will stop at once" in html_of(page)
    page.button(key="confirm.yes").click().run()
    assert not page.exception
    assert "account" not in page.query_params
    assert "Deleted soon" not in {row["Name"] for row in rows(page)}
    gone = house.open("service_accounts", account=account_id)
    assert "There is no such service account" in html_of(gone)


def test_where_service_accounts_are_off_the_page_says_so_and_switches_them_on(house: House) -> None:
    """Nothing can be made meanwhile, what there is can be looked at; a button switches them on."""
    account_id = account(house, "Asleep")
    house.client.admin.organization.update(service_accounts_enabled=False)
    page = house.open("service_accounts", account=account_id)
    assert "Service accounts are switched off for your organization." in html_of(page)
    assert page.button(key="mint.open").disabled
    press(page, "Switch service accounts on")
    assert house.client.admin.organization.get().service_accounts_enabled
    assert not page.button(key="mint.open").disabled


def test_hostile_names_are_only_text(house: House) -> None:
    """Names of accounts and tokens are shown as they are."""
    for name in HOSTILE[:4]:
        account_id = account(house, name)
        mint(house, account_id, name, expires_at=datetime.now(UTC) + timedelta(days=2))
        page = choose(house.open("service_accounts", account=account_id))
        assert not page.exception
        assert "<script" not in html_of(page)
        assert "<img" not in html_of(page)
        assert name not in markdown_of(page)
    top = html_of(house.open("service_accounts"))
    assert "<script" not in top
    assert "<img" not in top


def test_a_member_sees_nothing_and_can_do_nothing(house: House) -> None:
    """The page refuses a member, and the service refuses their token whatever a page does."""
    a_person(house.service, MEMBER, name="Jonas")
    page = house.open("service_accounts", signed_in_as=MEMBER, account=account(house, "Not theirs"))
    assert "This page is for admins." in html_of(page)
    assert "Not theirs" not in html_of(page)
    assert not page.button
