"""Invitations: a link for setting a password, once."""

import re
from collections.abc import Iterator
from functools import partial

import httpx
import pytest
from pydantic import SecretStr

from service.identity_server.signin import invitations
from service.identity_server.signin.attempts import Attempt
from tests.harness.jobs import until
from tests.harness.receivers import Mailbox, mail_server
from tests.harness.services import RunningService
from tests.oauth import flow
from tests.oauth.test_second_factor import demand
from tests.service.conversations import at_once
from tests.service.directory import a_user, another_organization, code, done, organization_id, walk
from tests.service.test_text_erasure import where

ADA = "ada@example.test"
NEW = "quite another password"
REFUSED = "This link no longer works: it was used or replaced, has expired, or is incomplete,"
WORKBENCH = "https://work.example.test"


def invite(service: RunningService, email: str = ADA, **options) -> str:
    return str(done(service.call("admin/users/invite", {"email": email}, **options))["url"])


def take(link: str, password: str = NEW, *, again: str | None = None, by: flow.Person | None = None) -> httpx.Response:
    with httpx.Client(timeout=60) as fresh:
        http = by.http if by else fresh
        [form] = flow.Page(http.get(link)).forms
        fields = form.fields | {"password": password, "again": password if again is None else again}
        return http.post(form.action, data=fields)


def workbench_of(service: RunningService, monkeypatch: pytest.MonkeyPatch) -> flow.App:
    monkeypatch.setitem(vars(service.runtime.settings), "workbench_url", WORKBENCH)
    return flow.an_app(service, f"{WORKBENCH}/oauth/callback", scopes=flow.EVERY_SCOPE)


def may_sign_in(service: RunningService, password: str = NEW) -> bool:
    return flow.Person(service, ADA, password).allow(flow.an_app(service)).status_code == 303


def ada_now(service: RunningService) -> dict:
    return walk(service, "admin/users/list", {"query": ADA}, page_size=9)[0]


def test_somebody_new_sets_a_password_and_signs_in(service: RunningService) -> None:
    ada = a_user(service, ADA, name="Ada Lovelace")
    assert ada_now(service)["hasPassword"] is False
    link = invite(service)
    assert "invitedUntil" in ada_now(service)
    shown = [httpx.get(link, timeout=60) for _ in range(2)][1]
    assert (shown.status_code, shown.headers["Cache-Control"]) == (200, "no-store")
    here = done(service.call("admin/organization/get"))["name"]
    assert f"You are Ada Lovelace (ada@example.test) at {here}." in shown.text
    done_page = take(link)
    assert done_page.status_code == 200
    assert "Open the address at which your organization uses Carrel" in done_page.text
    assert may_sign_in(service)
    now = ada_now(service)
    assert (now["hasPassword"], "invitedUntil" in now, "lastSignedInAt" in now) == (True, False, True)
    log = walk(service, "admin/auditLog/query", {"targetId": ada["id"]}, page_size=100)
    actors = {one["action"]: one["actor"]["id"] for one in log if "actor" in one}
    assert actors["invitation.accept"] == ada["id"]
    assert actors["user.invite"] != ada["id"]
    token = link.partition("token=")[2]
    assert token.startswith("svc_iv_")
    assert token not in str(log)


def test_the_link_ends_in_the_workbench_and_no_other_application_comes_in(service, monkeypatch) -> None:
    workbench, other = workbench_of(service, monkeypatch), flow.an_app(service)
    beside = flow.an_app(service, f"{WORKBENCH}/oauth/callback", "https://other.example.test/callback")
    agent = flow.an_mcp_client(service, f"{WORKBENCH}/oauth/callback")
    for _ in range(2):  # somebody new, and a person whose password is reset
        a_user(service, ADA)
        ada = flow.Person(service, ADA, NEW)
        planted = ada.http.get(link := invite(service)).cookies["carrel_session"]
        led = take(link, by=ada)
        assert (led.status_code, led.headers["Location"]) == (303, f"{WORKBENCH}/oauth/login?next=%2F%3Fwelcome%3D1")
        assert ada.http.cookies["carrel_session"] != planted
        assert "code" in flow.sent_back(ada.open(workbench), WORKBENCH)
        assert flow.asks_for_consent(ada.open(workbench, prompt="consent"))
        assert all(flow.asks_for_consent(ada.open(one)) for one in (other, beside, agent))
    log = walk(service, "admin/auditLog/query", {"action": "consent.grant"}, page_size=9)
    assert [one["target"]["id"] for one in log] == [workbench.client_id]


def test_a_second_factor_that_is_demanded_comes_before_the_workbench(service, monkeypatch) -> None:
    workbench = workbench_of(service, monkeypatch)
    a_user(service, ADA)
    demand(service, "EVERYBODY")
    ada = flow.Person(service, ADA, NEW)
    assert take(invite(service), by=ada).status_code == 303
    assert "Set up an authenticator app" in ada.open(workbench).text


def test_another_site_or_browser_signs_nobody_in(service: RunningService) -> None:
    a_user(service, ADA)
    link, ada, eve = invite(service), flow.Person(service, ADA, NEW), flow.Person(service)
    [form] = flow.Page(eve.http.get(link)).forms
    fields = form.fields | {"password": NEW, "again": NEW}
    assert httpx.post(form.action, data=fields, timeout=60).status_code == 403
    ada.http.get(link)
    assert "page has expired" in ada.http.post(form.action, data=fields).text
    assert "page has expired" in eve.http.post(form.action, data=fields | {"csrf": "é"}).text
    assert take(link, by=ada).status_code == 200
    assert eve.http.post(form.action, data=fields).status_code == 404


def test_a_link_that_is_no_longer_good_is_refused_in_the_same_words(service: RunningService) -> None:
    address = f"{service.base_url}/account/invitation"

    def is_refused(link: str) -> bool:
        token = link.partition("token=")[2]
        pages = httpx.get(link, timeout=60), httpx.post(address, data={"token": token}, timeout=60)
        return all(page.status_code == 404 and REFUSED in page.text for page in pages)

    a_user(service, ADA)
    used = invite(service)
    assert take(used).status_code == 200
    replaced, deactivated = invite(service), invite(service)
    assert [is_refused(one) for one in (used, replaced, deactivated)] == [True, True, False]
    a_user(service, ADA, active=False)
    assert is_refused(deactivated)
    a_user(service, ADA, active=True)
    assert is_refused(deactivated)
    offboarded = invite(service)
    done(service.call("admin/users/offboard", {"email": ADA}))
    a_user(service, ADA, active=True)
    assert is_refused(offboarded)
    changed = invite(service)
    a_user(service, ADA, password="an admin chose this one")
    assert is_refused(changed)
    late = invite(service)
    assert not is_refused(late)
    assert is_refused(f"{late}x")
    flow.later(service, days=7, seconds=1)
    assert all(is_refused(one) for one in (late, address, f"{address}?token=%00"))
    assert not may_sign_in(service)


def test_a_link_is_good_until_it_ends(service: RunningService) -> None:
    a_user(service, ADA)
    link = invite(service)
    flow.later(service, days=6, hours=23)
    for password, again, said in (
        (NEW, "another", "The passwords are different."),
        ("short", "short", "Choose a password of 8 to 1024 characters."),
        ("x" * 1025, "x" * 1025, "Choose a password of 8 to 1024 characters."),
    ):
        refused = take(link, password, again=again)
        assert refused.status_code == 400
        assert said in refused.text
    assert take(link).status_code == 200
    page = httpx.get(f"{service.base_url}/account/sign-in", timeout=60)
    assert "An admin of" in page.text  # without a mail server nothing can be mailed
    assert flow.Page(page).form("signIn").buttons == ["signIn"]


def test_sessions_of_the_old_password_end_and_failed_attempts_are_forgotten(app: flow.App, ada: flow.Person) -> None:
    assert ada.allow(app).status_code == 303
    guess = flow.Person(app.service, ADA, "a wrong password")
    page = guess.open(app)
    for _ in range(7):
        guess.enter(page)
    assert take(invite(app.service)).status_code == 200
    assert flow.asks_to_sign_in(ada.open(app))
    assert may_sign_in(app.service)


@pytest.fixture(scope="module")
def mailing(service_harness) -> Iterator[tuple[RunningService, Mailbox]]:
    sender = {"mail_from": "carrel@example.test", "workbench_url": WORKBENCH}
    with mail_server() as (mailbox, url), service_harness.running(smtp_url=url, **sender) as service:
        yield service, mailbox


def mailed(mailbox: Mailbox) -> str:
    until(lambda: mailbox.mails)
    [(to, mail)] = mailbox.mails
    mailbox.mails.clear()
    assert (to, mail["To"], mail["From"]) == ([ADA], ADA, "carrel@example.test")
    return re.search(r"http\S+", mail.get_content())[0]


def mail_at_once(service: RunningService, email: str) -> None:
    attempt = Attempt(organization_id(service), email, SecretStr(""), "192.0.2.1", step="forgotten")
    service.run(invitations._mail_link(service.runtime, attempt))


def test_a_forgotten_password_is_set_by_a_mailed_link_once(mailing) -> None:
    """All sessions and applications' tokens end, and the second factor stays required. Other addresses get the same
    answer and no mail; an admin's open invitation is never replaced."""
    service, mailbox = mailing
    ada, app = a_user(service, ADA, password=flow.PASSWORD), flow.an_app(service, scopes=flow.EVERY_SCOPE)
    person = flow.Person(service, ADA)
    token = person.tokens(app)["access_token"]
    a_user(service, "inactive@example.test", password=flow.PASSWORD, active=False)
    a_user(service, "provided@example.test")
    others = ("inactive@example.test", "provided@example.test", "nobody@example.test", "ada@example.test\0")
    for email in others:
        mail_at_once(service, email)
    here = flow.Person(service)
    pages = [here.press(here.open(app), "forgotten", email=email) for email in (*others, " Ada@example.test")]
    assert {(page.status_code, page.text) for page in pages} == {(200, pages[0].text)}
    assert "If an account with this address has a password" in pages[0].text
    link = mailed(mailbox)
    mail_at_once(service, ADA)  # one was mailed just now
    flow.later(service, minutes=5, seconds=1)
    mail_at_once(service, ADA)
    replaced, link = link, mailed(mailbox)
    assert httpx.get(replaced, timeout=60).status_code == 404
    assert where(service, link.partition("token=")[2]) == set()
    assert flow.works(service, token)
    demand(service, "EVERYBODY")
    assert take(link, by=here).status_code == 303
    assert "Set up an authenticator app" in here.open(app).text
    assert not flow.works(service, token)
    assert flow.asks_to_sign_in(person.open(app))
    assert httpx.get(link, timeout=60).status_code == 404
    log = walk(service, "admin/auditLog/query", {"targetId": ada["id"]}, page_size=100)
    assert [one["action"] for one in log][:2] == ["password.reset", "password.mail_link"]
    mail_at_once(service, ADA)
    late = mailed(mailbox)
    flow.later(service, hours=1, seconds=1)
    assert httpx.get(late, timeout=60).status_code == 404
    given = invite(service)
    mail_at_once(service, ADA)
    assert (httpx.get(given, timeout=60).status_code, mailbox.mails) == (200, [])


@pytest.mark.usefixtures("still_clock")
def test_links_are_asked_for_seldom_and_signing_in_is_not_slowed(mailing) -> None:
    service, _ = mailing
    for email in ("eve@example.test", "nobody@example.test"):
        a_user(service, "eve@example.test", password=flow.PASSWORD)
        eve = flow.Person(service, email)
        page = eve.http.get("/account/sign-in")
        asked = [eve.press(page, "forgotten", email=email) for _ in range(7)]
        assert [one.status_code for one in asked] == [200] * 6 + [429]
        assert "Links were asked for too often. Try again in 1 second." in flow.Page(asked[-1]).text
    assert eve.press(page, "forgotten", email="").status_code == 400
    assert eve.press(page, "signIn", email="eve@example.test", password=flow.PASSWORD).status_code == 303
    another_organization(service)
    here = flow.Person(service)
    page = here.http.get("/account/sign-in")
    for name in ("Other", "Unknown"):  # whether there is such an organization isn't told
        assert "Type your email address first." in here.press(page, "forgotten", email=" ", organization=name).text


def test_of_two_at_once_one_sets_the_password(service: RunningService) -> None:
    a_user(service, ADA)
    link = invite(service)
    window = flow.Person(service)
    [form] = flow.Page(window.http.get(link)).forms
    passwords = [f"password number {number}" for number in range(6)]

    def send(password: str) -> int:
        return window.http.post(form.action, data=form.fields | {"password": password, "again": password}).status_code

    statuses = at_once(*(partial(send, one) for one in passwords))
    assert sorted(statuses) == [200, 404, 404, 404, 404, 404]
    assert may_sign_in(service, passwords[statuses.index(200)])


@pytest.mark.parametrize("email", ["nobody@example.test", "admin@other.test", "gone@example.test"])
def test_only_an_active_user_of_ones_own_is_invited(service: RunningService, email: str) -> None:
    another_organization(service)
    a_user(service, "gone@example.test", active=False)
    assert code(service.call("admin/users/invite", {"email": email})) == (400, "unknown_user")


def test_an_invitation_opens_its_own_organization_alone(service, app, ada) -> None:
    other = another_organization(service)
    done(service.call("admin/users/upsert", {"users": [{"email": ADA}]}, api_key=other))
    token = ada.tokens(app)["access_token"]
    assert take(invite(service, api_key=other)).status_code == 200
    assert flow.works(service, token)
    assert flow.sent_back(flow.Person(service, ADA, ada.password).allow(flow.an_app(service)))["code"]
