"""Signing in without an application, to see and revoke the consents of applications."""

import httpx
import pytest
from pydantic import SecretStr

from service.identity_server.oauth import account
from tests.oauth.flow import PASSWORD, App, Page, Person, a_person, an_app, asks_to_sign_in, elsewhere, later, works
from tests.oauth.provider import CLIENT_ID, CLIENT_SECRET, serving
from tests.oauth.test_upstream import ADA
from tests.service.directory import another_organization

WRONG = "The email address or the password is wrong."


def opened(person: Person) -> httpx.Response:
    return person.follow(person.http.get("/account/consents"))


def test_who_is_signed_out_signs_in_and_is_back(own_service) -> None:
    ada = a_person(own_service)
    token = ada.tokens(an_app(own_service))["access_token"]
    other = Person(own_service, ada.email)
    page = opened(other)
    assert page.status_code == 200
    assert "Sign in to example.test" in page.text
    planted = other.http.cookies["carrel_session"]
    entered = other.enter(page)
    assert entered.status_code == 303
    assert other.http.cookies["carrel_session"] != planted
    allowed = other.follow(entered)
    assert "An App" in allowed.text
    other.follow(other.press(allowed, "withdraw"))
    assert not works(own_service, token)
    assert other.http.get("/account/sign-in").headers["Location"] == "consents"


def test_signing_out_leads_to_signing_in(ada: Person) -> None:
    left_open = ada.sign_in(opened(ada))
    for _ in range(2):
        assert asks_to_sign_in(ada.follow(ada.press(left_open, "signOut")))


@pytest.mark.usefixtures("still_clock")
def test_whoever_is_not_let_in_is_told_the_same_and_slowed_down(service, app: App, ada: Person) -> None:
    page = opened(ada)
    for email in ("nobody@example.test", "", "ada@example.test\0", ada.email):
        refused = ada.enter(page, email=email, password=PASSWORD if email != ada.email else "wrong")
        assert (refused.status_code, WRONG in refused.text, "Set-Cookie" in refused.headers) == (403, True, False)
    assert [ada.enter(page, password="wrong").status_code for _ in range(6)] == [403] * 5 + [429]
    assert ada.enter(ada.open(app)).status_code == 429
    later(service, seconds=5)
    assert ada.enter(page).status_code == 303


def test_the_form_works_in_the_browser_it_was_shown_in_alone(app: App, ada: Person) -> None:
    """Nor does a form of an application's sign-in work here (CSRF); a form without a cookie fails."""
    page = opened(ada)
    foreign = Page(ada.open(app)).form("signIn").fields["csrf"]
    theirs = Page(opened(Person(ada.service, ada.email))).form("signIn").fields["csrf"]
    for token in ("", foreign, theirs):
        refused = ada.enter(page, csrf=token)
        assert refused.status_code == 403
        assert "page has expired" in refused.text
    cookieless = Person(ada.service, ada.email).enter(page)
    assert cookieless.status_code == 403
    assert "Set-Cookie" not in cookieless.headers
    assert ada.enter(page).status_code == 303


@pytest.mark.usefixtures("still_clock")
def test_among_several_organizations_a_person_names_theirs(own_service) -> None:
    _, eve = elsewhere(own_service)
    ada, nobody = a_person(own_service), Person(own_service, "nobody@example.test")
    page = opened(eve)
    assert "Other" not in page.text
    answers = [eve.enter(page, organization=name) for name in ("", "Elsewhere", "example.test", "example.tes\0")]
    assert {answer.status_code for answer in answers} == {403}
    assert all(WRONG in answer.text for answer in answers)
    for one in (ada, eve):
        assert one.enter(opened(one), organization=" ").status_code == 403
    assert "Eve" in eve.sign_in(page, organization=" OTHER ").text
    assert "Ada Lovelace" in ada.sign_in(opened(ada), organization="example.test").text
    page = opened(nobody)
    for names in (("Elsewhere", " elsewhere"), ("Other", " other")):
        typed = [*zip(names, (nobody.email, f" {nobody.email.upper()} "), strict=True)] * 4
        answers = [nobody.enter(page, organization=name, email=email).status_code for name, email in typed]
        assert answers == [403] * 6 + [429] * 2
    # An address's failures with unknown names are spread over all organizations, and so show no name that is known.
    names = [f"Unknown {number}" for number in range(64)] * 2
    counted = [own_service.run(account._any_organization(own_service.runtime, name)) for name in names]
    assert len(set(counted)) == 2
    assert counted[:64] == counted[64:]


def test_an_upstream_provider_leads_back_here_too(make_service) -> None:
    with serving() as provider:
        service = make_service(
            oidc_issuer=provider.issuer, oidc_client_id=CLIENT_ID, oidc_client_secret=SecretStr(CLIENT_SECRET)
        )
        provider.person = dict(ADA)
        ada = a_person(service)
        back = httpx.get(ada.http.get(Page(opened(ada)).links[0]).headers["Location"])
        assert "Ada Lovelace" in ada.follow(ada.http.get(back.headers["Location"])).text
        another_organization(service)
        for name, said in (("example.test", "Ada Lovelace"), ("Other", "no account here"), ("None", "no account here")):
            ada.http.cookies.clear()
            form = Page(opened(ada)).forms[-1]
            assert form.fields == {"organization": ""}
            left = ada.http.get(form.action, params={"organization": name})
            back = httpx.get(left.headers["Location"])
            assert said in ada.follow(ada.http.get(back.headers["Location"])).text
