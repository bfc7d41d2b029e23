"""Signing in to see, and take back, what applications were allowed, without an application on the way."""

import html
from collections.abc import Callable

import httpx
import pytest
from pydantic import SecretStr

from tests.harness.services import RunningService
from tests.oauth.flow import PASSWORD, Page, Person, a_person, an_app, later, works
from tests.oauth.provider import CLIENT_ID, CLIENT_SECRET, serving
from tests.oauth.test_upstream import ADA
from tests.service.directory import another_organization, done

CONSENTS = "/account/consents"
WRONG = "The email address or the password is wrong."


def opened(person: Person) -> httpx.Response:
    """What the page's address shows in the end."""
    return person.follow(person.http.get(CONSENTS))


def press(person: Person, page: httpx.Response, **fields: str) -> httpx.Response:
    """Sign in on the page."""
    return person.press(page, "signIn", **({"email": person.email, "password": person.password} | fields))


def test_who_is_signed_out_signs_in_and_is_back(service: RunningService) -> None:
    """And takes back there what an application was allowed, with a new session."""
    app, ada = an_app(service), a_person(service)
    token = ada.tokens(app)["access_token"]
    other = Person(service, ada.email)
    page = opened(other)
    assert page.status_code == 200
    assert "Sign in to example.test" in page.text
    planted = other.http.cookies["carrel_session"]
    entered = press(other, page)
    assert entered.status_code == 303
    assert other.http.cookies["carrel_session"] != planted
    allowed = other.follow(entered)
    assert "An App" in allowed.text
    other.follow(other.press(allowed, "withdraw"))
    assert not works(service, token)
    assert other.http.get("/account/sign-in").headers["Location"] == "consents"


def test_signing_out_leads_to_signing_in(service: RunningService) -> None:
    """Also for a form of a page that was left open."""
    ada = a_person(service)
    left_open = ada.follow(press(ada, opened(ada)))
    after = ada.follow(ada.press(left_open, "signOut"))
    assert Page(after).forms[0].buttons == ["signIn"]
    assert Page(ada.follow(ada.press(left_open, "signOut"))).forms[0].buttons == ["signIn"]


@pytest.mark.parametrize(
    ("email", "password"),
    [("ada@example.test", "wrong"), ("nobody@example.test", PASSWORD), ("", ""), ("ada@example.test\0", PASSWORD)],
)
def test_whoever_is_not_let_in_is_told_the_same(service: RunningService, email: str, password: str) -> None:
    """As on the way to an application."""
    ada = a_person(service)
    refused = press(ada, opened(ada), email=email, password=password)
    assert refused.status_code == 403
    assert WRONG in refused.text
    assert "Set-Cookie" not in refused.headers


@pytest.mark.usefixtures("still_clock")
def test_failing_is_slowed_down_here_and_there_together(service: RunningService) -> None:
    """It is the same account, whichever page it is tried on."""
    app, ada = an_app(service), a_person(service)
    page = opened(ada)
    assert [press(ada, page, password="wrong").status_code for _ in range(7)] == [403] * 6 + [429]
    there = ada.press(ada.open(app), "signIn", email=ada.email, password=PASSWORD)
    assert there.status_code == 429
    later(service, seconds=5)
    assert press(ada, page).status_code == 303


def test_the_form_works_in_the_browser_it_was_shown_in_alone(service: RunningService) -> None:
    """Nor does one made for an application's sign-in work here (CSRF); a form without a cookie gives none."""
    app, ada = an_app(service), a_person(service)
    page = opened(ada)
    entered = {"email": ada.email, "password": PASSWORD, "action": "signIn"}
    foreign = Page(ada.open(app)).form("signIn").fields["csrf"]
    stranger = Person(service, ada.email)
    theirs = Page(opened(stranger)).form("signIn").fields["csrf"]
    for token in ("", foreign, theirs):
        refused = ada.http.post("/account/sign-in", data=entered | {"csrf": token})
        assert refused.status_code == 403
        assert "out of date" in refused.text
    form = Page(page).form("signIn")
    cookieless = Person(service).http.post(form.action, data=form.fields | entered)
    assert cookieless.status_code == 403
    assert "Set-Cookie" not in cookieless.headers
    assert ada.http.post(form.action, data=form.fields | entered).status_code == 303


def test_among_several_organizations_a_person_names_theirs(service: RunningService) -> None:
    """Whatever it is called, an answer is the same for one that isn't there as for a wrong password."""
    key = another_organization(service)
    ada = a_person(service)
    users = {"users": [{"email": "eve@other.test", "name": "Eve", "password": PASSWORD}]}
    done(service.call("admin/users/upsert", users, api_key=key))
    eve = Person(service, "eve@other.test")
    page = opened(eve)
    assert "Other" not in page.text
    assert "organization" in Page(page).form("signIn").fields
    answers = [press(eve, page, organization=name) for name in ("", "Elsewhere", "example.test", "example.tes\0")]
    assert {answer.status_code for answer in answers} == {403}
    assert all(WRONG in answer.text for answer in answers)
    for one in (ada, eve):
        assert press(one, opened(one), organization=" ").status_code == 403
    assert "Eve" in eve.follow(press(eve, page, organization=" OTHER ")).text
    assert "Ada Lovelace" in ada.follow(press(ada, opened(ada), organization="example.test")).text


@pytest.mark.usefixtures("still_clock")
def test_trying_organizations_that_are_not_there_is_slowed_down(service: RunningService) -> None:
    """Like trying accounts that are not there."""
    another_organization(service)
    nobody = Person(service, "nobody@example.test")
    page = opened(nobody)
    tries = [press(nobody, page, organization="Elsewhere").status_code for _ in range(8)]
    assert tries == [403] * 6 + [429] * 2


def test_an_upstream_provider_leads_back_here_too(make_service: Callable[..., RunningService]) -> None:
    """To the organization that was named, if there are several."""
    with serving() as provider:
        service = make_service(
            oidc_issuer=provider.issuer, oidc_client_id=CLIENT_ID, oidc_client_secret=SecretStr(CLIENT_SECRET)
        )
        provider.person = dict(ADA)
        ada = a_person(service)
        page = opened(ada)
        link = html.unescape(page.text.split('class="aside"><a href="')[1].split('"')[0])
        back = httpx.get(ada.http.get(page.url.join(link)).headers["Location"])
        assert "Ada Lovelace" in ada.follow(ada.http.get(back.headers["Location"])).text
        another_organization(service)
        for name, said in (("example.test", "Ada Lovelace"), ("Other", "no account here"), ("None", "no account here")):
            ada.http.cookies.clear()
            form = Page(opened(ada)).forms[-1]
            assert form.fields == {"organization": ""}
            left = ada.http.get(form.action, params={"organization": name})
            back = httpx.get(left.headers["Location"])
            assert said in ada.follow(ada.http.get(back.headers["Location"])).text
