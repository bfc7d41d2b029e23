"""A person's view of the workbench: pages, the command palette, addresses and documentation."""

import json
from typing import Any

import httpx
import pytest
import streamlit as st
from starlette.applications import Starlette
from starlette.middleware import Middleware
from streamlit.util import calc_hash

from app.asgi import KnownPages, SecurityHeaders
from app.auth import current
from app.auth.sessions import digest_of
from app.documentation import Documentation
from app.navigation import FOR_ADMINS, UNDER_SETTINGS, addresses
from app.ui.errors import problem_of
from carrel.errors import APIError
from tests.app.conftest import APP_URL, VIEWS, House, MakeHouse
from tests.app.pages import MARKUP, NOTHING, SECONDS, Page, new_word
from tests.harness.cases import cases, script
from tests.service.conversations import a_desk

MEMBER = "jonas@example.test"
FOR_ADMINS_ALONE = "these pages use an API key of the workbench"
ASKS_FOR_RUNS = script("navigation_asks_for_runs.txt")
ACTS = script("navigation_acts.txt")


# What addresses name on the pages for admins.
PARAMETERS = ("account", "agent", "client", "entry", "group", "key", "new", "person", "question", "resource", "run")
PARAMETERS += ("search", "set", "show", "source", "sync", "token", "who", "with")


@pytest.fixture
def keyed_house(make_house: MakeHouse, service) -> House:
    house = make_house(service, CARREL_APP_API_KEY=service.api_key)
    house.add_people(MEMBER)
    return house


def page_of(script: str, cookie: str) -> Page:
    st.cache_data.clear()
    page = Page.from_string(script)
    page.session_state["signed_in.owner"] = digest_of(cookie)
    return page


def texts(page: Page) -> list[str]:
    page.run()
    return page.texts


def test_what_was_drawn_for_one_person_is_gone_for_the_next(keyed_house, monkeypatch):
    service, browser = keyed_house.service, {"cookie": ""}
    monkeypatch.setattr(current, "_cookie", lambda: browser["cookie"])
    page = Page(VIEWS.parent / "main.py", default_timeout=SECONDS).run()
    assert "/oauth/login?next=" in page.shown
    assert not page.text_input
    assert not page.title
    browser["cookie"] = keyed_house.sign_in()
    page.query_params["welcome"] = "1"
    assert "Bookmark this page" in page.run().shown
    assert "welcome" not in page.query_params
    assert service.admin_email in page.shown
    assert FOR_ADMINS_ALONE in page.shown
    assert f'href="{service.base_url}/account/consents"' in page.shown
    page.session_state["answer"] = "the admin's"
    browser["cookie"] = keyed_house.sign_in(MEMBER)
    page.run()
    assert "answer" not in page.session_state
    assert service.admin_email not in page.shown
    assert MEMBER in page.shown
    assert FOR_ADMINS_ALONE not in page.shown  # who was an admin is kept for a minute, for one person
    page._page_hash = calc_hash("collections")
    assert "for editors of a collection" in page.run().shown
    browser["cookie"] = ""
    page.run()
    assert MEMBER not in page.shown


@pytest.mark.parametrize("view", [name for entries in FOR_ADMINS.values() for name, *_ in entries])
def test_an_admins_page_refuses_a_member_by_itself(house: House, view: str) -> None:
    house.add_people(MEMBER)
    for address in ({}, dict.fromkeys(PARAMETERS, f"user:{MEMBER}")):
        page = house.open(view, signed_in_as=MEMBER, **address)
        assert "This page is for admins." in page.shown
        assert not [*page.dataframe, *page.button, *page.text_input, *page.code]


def test_settings_lists_every_page_that_the_menu_does_not_and_its_pages_lead_back(keyed_house, monkeypatch):
    monkeypatch.setattr(current, "_cookie", keyed_house.sign_in)
    page = Page(VIEWS.parent / "main.py", default_timeout=SECONDS)
    page._page_hash = calc_hash("settings")
    links = [str(one.proto.page) for one in page.run().get("page_link")]
    assert sorted(links) == sorted(UNDER_SETTINGS)
    assert 'class="carrel-trail"' not in page.shown
    for enabled, button in ((False, "Turn off sharing by owners"), (True, "Turn on sharing by owners")):
        page.press(button).press_key("confirm.yes")
        assert keyed_house.client.admin.organization.get().owner_sharing_enabled is enabled
    page._page_hash = calc_hash(links[0])
    assert '<a href="settings" target="_self">Settings</a> <span>People and sign-in</span>' in page.run().shown
    assert '<a href="people" target="_self" aria-current="page">People</a> <a href="groups"' in page.shown


def test_a_dialog_stays_closed_after_its_view_was_left(keyed_house: House, monkeypatch) -> None:
    monkeypatch.setattr(current, "_cookie", keyed_house.sign_in)
    page = Page(VIEWS.parent / "main.py", default_timeout=SECONDS)
    page._page_hash = calc_hash("groups")
    assert "Cancel" in page.run().press("Add group").run().labels
    page.query_params["group"] = keyed_house.add_group("Crew")
    page.run().query_params.clear()  # as the browser's Back
    assert ("Add group" in page.run().labels, "Cancel" in page.labels) == (True, False)


@pytest.mark.parametrize("email", ["", MEMBER])
def test_the_workbenchs_own_key_acts_for_admins_alone(keyed_house: House, email: str) -> None:
    keyed_house.load("Board", "The offer for HERON was refused.")
    assert ("<mark>HERON</mark>" in keyed_house.open("search", signed_in_as=email, q="HERON").shown) == (not email)


def test_what_goes_on_after_signing_out_shows_nothing_more(keyed_house: House) -> None:
    """An open tab's fragment or button is refused, although it uses the workbench's key."""
    document = keyed_house.load("Kept")
    page = keyed_house.open("documents", of="all")
    assert "Your sign-in has ended" not in page.shown
    listed = keyed_house.open("documents", rows="choose").choose().press("Delete …")
    current.sessions().delete(digest_of(keyed_house.sign_in()))
    listed.answer("Delete …", "Delete")
    assert keyed_house.client.catalog.get_document(document)
    page.query_params["name"] = "another"
    page.run()
    assert "Your sign-in has ended" in page.shown


def test_runs_are_there_for_who_is_an_admin_and_signed_in_now(new_house: House) -> None:
    """Prefect checks no users, so each button checks again whether the person is a signed-in admin."""
    new_house.add_people(MEMBER)
    cookie = new_house.sign_in()
    assert texts(page_of(ASKS_FOR_RUNS, cookie)) == ["Here they are."]
    assert "admins" in texts(page_of(ASKS_FOR_RUNS, new_house.sign_in(MEMBER)))[0]
    current.sessions().delete(digest_of(cookie))
    assert "Your sign-in has ended" in texts(page_of(ASKS_FOR_RUNS, cookie))[0]


@pytest.mark.parametrize(("where", "before", "after"), cases("who_is_no_admin_any_more_does_nothing_more"))
def test_who_is_no_admin_any_more_does_nothing_more(keyed_house: House, where: str, before: str, after: str) -> None:
    """Displayed pages may be a minute old, so actions check again."""
    keyed_house.add_people(MEMBER, is_admin=True)
    page = page_of(ACTS.format(where=where), keyed_house.sign_in(MEMBER))
    assert texts(page) == ["True", before]
    keyed_house.add_people(MEMBER, is_admin=False)
    assert texts(page) == ["True", after]


def _failing() -> None:
    from app.asgi import tell_of_failure  # noqa: PLC0415 - a script of Streamlit's

    assert tell_of_failure(ValueError("the secret of /srv/carrel"))


def test_a_page_that_fails_tells_nothing_of_why_but_where_to_ask(caplog: pytest.LogCaptureFixture) -> None:
    page = Page.from_function(_failing).run()
    assert "This page failed" in page.shown
    assert "secret" not in page.shown
    reference = page.shown.partition("Reference: ")[2][:8]
    assert any(reference in record.getMessage() and record.exc_info for record in caplog.records)


def palette(house: House, email: str = "", *, is_admin: bool | None = None, **kept: object) -> dict[str, Any]:
    admin = not email if is_admin is None else is_admin
    page = Page.from_string(f"from app import palette; palette.show_palette(is_admin={admin}, is_editor=False)")
    page.session_state["signed_in.owner"] = digest_of(house.sign_in(email))
    for name, value in kept.items():
        page.session_state[f"palette.{name}"] = value
    [part] = page.run().get("bidi_component")
    return json.loads(part.proto.json)


def test_names_are_found_that_the_person_may_read_and_no_others(house: House) -> None:
    word = new_word()
    house.add_people(MEMBER, f"{word}@example.test")
    house.load(f"Open {word}", internal_public=True)
    house.load(f"Secret {word}")
    house.add_group(f"Crew {word}")
    house.add_collection(f"Shelf {word}")
    desk, hidden, _ = (a_desk(house.service, name) for name in (f"Desk {word}", f"Hidden {word}", "Another"))
    hidden.deploy()
    found = palette(house, asked=f" {word.upper()} ")["found"]["items"]
    kinds = ["Agent", "Agent", "Collection", "Collection", "Collection", "Document", "Document", "Group", "Person"]
    assert sorted(one["kind"] for one in found) == kinds
    [person] = [one["address"].removeprefix("people?person=") for one in found if one["kind"] == "Person"]
    assert word in house.open("people", person=person).shown
    found = palette(house, MEMBER, asked=word)["found"]["items"]
    assert [one["name"] for one in found] == [f"Open {word}", f"Desk {word}"]
    assert found[1]["address"] == f"chat?agent={desk.agent_id}"


def test_a_person_gets_their_pages_and_actions_and_leads_to_no_other(house: House) -> None:
    """The service decides, not the browser: pages for members contain no admin names."""
    house.add_people(MEMBER)
    everything = {one["name"] for one in palette(house)["items"]}
    assert {"Home", "Settings", "API keys", "Add person", "Open runs"} <= everything
    data = palette(house, MEMBER, chosen={"address": "people", "dialog": "new_person"})
    assert [one["name"] for one in data["items"]] == ["Search", "Chat", "Documents", "Open trash"]
    house.load(MARKUP, internal_public=True)
    found = palette(house, MEMBER, is_admin=True, asked="onerror")["found"]
    assert ([one["kind"] for one in found["items"]], "admin" in found["problem"].lower()) == (["Document"], True)


@pytest.mark.parametrize(("view", "parameter", "said", "back"), cases("workbench_addresses"))
def test_an_address_of_nothing_is_said_with_the_way_back(house, view, parameter, said, back):
    view, _, part = view.partition("?part=")
    for nothing in NOTHING:
        page = house.open(view, q="sheep", part=part, **{parameter: nothing})
        page.assert_shown_as_text(said)
        assert "sheep" not in page.shown
        assert parameter not in page.press(back).query_params


@pytest.fixture(scope="module")
def browser(house: House) -> httpx.AsyncClient:
    cookie = current.sign_in().cookie
    routes = Documentation(current.sessions(), cookie=cookie).routes()
    known = Middleware(KnownPages, pages=addresses())
    app = Starlette(routes=routes, middleware=[Middleware(SecurityHeaders), known])
    headers = {"Accept": "text/html", "Cookie": f"{cookie}={house.sign_in()}"}
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=APP_URL, headers=headers)


async def test_help_is_for_people_who_are_signed_in(browser: httpx.AsyncClient) -> None:
    for address in ("/help/loading", "/help/", "/help/pages/search.png", "/help/../.env"):
        answer = await browser.get(address, headers={"Cookie": ""})
        assert answer.status_code in {303, 404}, address
        if answer.status_code == 303:
            assert answer.headers["location"].startswith("/oauth/login?next=%2Fhelp%2F")


async def test_pages_and_pictures_of_help_are_shown_and_nothing_else_is(browser: httpx.AsyncClient) -> None:
    answer = await browser.get("/help/troubleshooting")
    assert answer.status_code == 200
    assert '<a href="#loading-documents">Loading documents</a>' in answer.text
    assert '<code id="file_corrupt">' in answer.text
    assert "default-src 'self'" in answer.headers["content-security-policy"]
    for address in ("/help", "/help/"):
        answer = await browser.get(address)
        assert answer.status_code == 200
        assert '<a href="/help/first-hour">The first hour</a>' in answer.text
    answer = await browser.get("/help/pages/search.png")
    assert answer.headers["content-type"] == "image/png"
    for name in ("pages/none.png", "..%2F..%2F.env", "pages/..%2F..%2Fpyproject.toml", "nowhere", "%2Fetc%2Fx.png"):
        answer = await browser.get(f"/help/{name}")
        assert answer.status_code == 404, name


def test_the_title_of_a_page_leads_to_help_about_it(house: House) -> None:
    shown = house.open("health").shown
    assert '<a href="/help/workbench#health" target="_blank" rel="noopener" aria-label="Help: Health">Help</a>' in shown


def test_an_error_leads_to_what_to_do_about_it() -> None:
    known = APIError("Full.", status=507, code="storage_full", request_id=None, details=[])
    assert problem_of(known).help_at == "/help/troubleshooting#storage_full"
    assert problem_of(APIError("Odd.", status=400, code="no_such_code", request_id=None, details=[])).help_at is None
