"""The second factor after a password: an authenticator app, recovery codes, and the policy."""

import re
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import httpx
import pyotp
import pytest
from pydantic import SecretStr

from carrel.wire.api import OPERATIONS
from carrel.wire.operations import CONFIRMED
from service.operate.commands import run
from service.operate.deployment.queries import reseal_secrets
from service.platform.secrets import Keys
from tests.harness.jobs import until
from tests.harness.services import RunningService
from tests.oauth import flow
from tests.oauth.test_sessions import fail_to_sign_in
from tests.service.directory import a_user, code, done, organization_id, walk

HERE = "/account/second-factor"
OUT_OF_DATE = "This page has expired"


class Phone:
    """An authenticator app with the key of a page."""

    def __init__(self, service: RunningService, page: httpx.Response) -> None:
        key = re.search(r"Key: <code>([A-Z2-7 ]+)</code>", page.text)
        assert key, page.text
        assert page.text.count("<svg") == 1
        self.totp, self.service = pyotp.TOTP(key[1].replace(" ", "")), service

    def code(self, *, steps: int = 0) -> str:
        clock = self.service.runtime.clock
        now: datetime = getattr(clock, "stands_at", None) or datetime.now(UTC)
        return self.totp.at(now + clock.offset, counter_offset=steps)


def recovery_codes(page: httpx.Response) -> list[str]:
    assert page.headers["Cache-Control"] == "no-store"
    found = re.findall(r"<li><code>([0-9a-z-]+)</code></li>", page.text)
    assert len(set(found)) == 10
    return found


def signed_in(person: flow.Person) -> bool:
    return "Connected applications" in person.http.get("/account/consents").text


def enter(person: flow.Person) -> httpx.Response:
    return person.sign_in(person.http.get("/account/sign-in"))


def give(person: flow.Person, page: httpx.Response, text: str) -> httpx.Response:
    return person.press(page, "secondFactor", code=text)


def set_up(person: flow.Person) -> tuple[Phone, list[str]]:
    enter(person)
    page = person.press(person.http.get(HERE), "showApp", password=person.password)
    phone = Phone(person.service, page)
    return phone, recovery_codes(person.press(page, "addApp", code=phone.code(steps=-1)))


def remove(page: httpx.Response) -> str:
    return next(button for form in flow.Page(page).forms for button in form.buttons if button.startswith("remove "))


def demand(service: RunningService, of: str) -> None:
    done(service.call("admin/organization/update", {"secondFactor": of}))


def only_asked_for_code(page: httpx.Response) -> bool:
    return [form.buttons for form in flow.Page(page).forms] == [["secondFactor"], ["abandon"]]


@pytest.mark.usefixtures("still_clock")
def test_a_password_alone_lets_nobody_in(service: RunningService, app: flow.App, ada: flow.Person) -> None:
    phone, codes = set_up(ada)
    assert walk(service, "admin/users/list", {"query": ada.email}, page_size=9)[0]["hasSecondFactor"] is True
    other = flow.Person(service, ada.email)
    page = other.sign_in(other.open(app, prompt="login"))
    assert only_asked_for_code(page)
    assert not signed_in(other)
    # The code that it was set up with is used, too.
    assert give(other, page, phone.code(steps=-1)).status_code == 403
    used = phone.code()
    assert flow.asks_for_consent(other.follow(give(other, page, used)))
    for again in (used, phone.code(steps=-1), phone.code(steps=2), "", "000 000", "x" * 16, "é١٢٣٤٥٦\0"):
        third = flow.Person(service, ada.email)
        assert give(third, enter(third), again).status_code in {403, 429}, again
        flow.later(service, minutes=16)
        assert not signed_in(third)
    late = flow.Person(service, ada.email)
    typed = codes[0].upper().replace("-", " ")
    assert give(late, enter(late), typed).status_code == 303
    assert signed_in(late)
    assert give(third, enter(third), typed).status_code == 403
    assert "Recovery codes left: 9." in late.http.get(HERE).text
    begun = {str(one["details"].get("secondFactor")) for one in flow.entries(service, "session.begin")}
    assert begun == {"None", "totp", "recoveryCode"}


@pytest.mark.usefixtures("still_clock")
def test_codes_are_not_guessed(service: RunningService, app: flow.App, ada: flow.Person) -> None:
    phone, _ = set_up(ada)
    thief = flow.Person(service, ada.email)
    page = enter(thief)
    with ThreadPoolExecutor(10) as threads:
        statuses = list(threads.map(lambda _: give(thief, page, "000000").status_code, range(20)))
    assert (statuses.count(403), statuses.count(429)) == (6, 14)
    other = flow.Person(service, ada.email)
    page = enter(other)
    assert give(other, page, phone.code()).status_code == 429
    flow.later(service, minutes=16)
    assert give(other, enter(other), phone.code()).status_code == 303
    assert give(thief, enter(thief), "000000").status_code == 403
    late = flow.Person(service, ada.email)
    assert fail_to_sign_in(late, late.open(app)) == 403
    # Who sees a wrong code knows that the password is known: no entry of a wrong password hides it.
    kept = ["password", "secondFactor"]
    until(lambda: [one["details"]["by"] for one in flow.entries(service, "session.fail")][:2] == kept)


def test_half_a_sign_in_is_worth_nothing(service: RunningService, app: flow.App, ada: flow.Person) -> None:
    phone, _ = set_up(ada)
    consents = flow.Page(ada.http.get("/account/consents")).form("signOut").fields
    half = flow.Person(service, ada.email)
    page = enter(half)
    assert only_asked_for_code(page)
    assert flow.sent_back(half.open(app, prompt="none"))["error"] == "login_required"
    assert only_asked_for_code(half.open(app))
    assert only_asked_for_code(half.follow(half.http.get(HERE)))
    assert only_asked_for_code(
        half.follow(half.http.post(HERE, data={"action": "makeCodes", "password": flow.PASSWORD}))
    )
    half.http.post("/account/consents", data=consents | {"action": "signOut"})
    assert signed_in(ada)
    form = flow.Page(page).form("secondFactor")
    stranger = flow.Person(service, ada.email)
    enter(stranger)
    foreign = stranger.http.post(form.action, data=form.fields | {"action": "secondFactor", "code": phone.code()})
    assert OUT_OF_DATE in foreign.text
    flow.later(service, minutes=11)
    ended = give(half, page, phone.code())
    assert ("This sign-in has ended" in ended.text, flow.Page(ended).forms[0].buttons) == (True, ["signIn"])
    assert not signed_in(half)
    assert flow.asks_to_sign_in(half.http.get("/account/sign-in"))
    again = enter(half)
    a_user(service, ada.email, password="another password")
    assert not signed_in(half.follow(give(half, again, phone.code())) and half)


def test_a_stolen_session_changes_nothing(service: RunningService, ada: flow.Person) -> None:
    enter(ada)
    for button, fields in (("showApp", {}), ("showApp", {"password": "guessed"})):
        refused = ada.press(ada.http.get(HERE), button, **fields)
        assert (refused.status_code, "The password is wrong." in refused.text) == (403, True)
    shown = ada.press(ada.http.get(HERE), "showApp", password=flow.PASSWORD)
    form = flow.Page(shown).form("addApp")
    phone = Phone(service, shown)
    foreign = flow.Page(ada.http.get(HERE)).forms[0].fields["csrf"]
    for change in ({"nonce": "chosen"}, {"until": "9999999999"}, {"csrf": foreign}):
        sent = form.fields | change | {"action": "addApp", "code": phone.code()}
        assert OUT_OF_DATE in ada.http.post(form.action, data=sent).text
    assert "The code is wrong" in ada.press(shown, "addApp", code="000000").text
    codes = recovery_codes(ada.press(shown, "addApp", code=phone.code(steps=-1)))
    assert OUT_OF_DATE in ada.press(shown, "addApp", code=phone.code()).text
    removing = remove(ada.http.get(HERE))
    for button in (removing, "makeCodes"):
        assert ada.press(ada.http.get(HERE), button, password=flow.PASSWORD, code="000000").status_code == 403
        for fields in ({"password": "guessed", "code": codes[0]}, {"code": codes[0]}):
            refused = ada.press(ada.http.get(HERE), button, **fields)
            assert (refused.status_code, "The password is wrong." in refused.text) == (403, True)
    fresh = recovery_codes(ada.press(ada.http.get(HERE), "makeCodes", password=flow.PASSWORD, code=codes[0]))
    assert not set(codes) & set(fresh)
    assert ada.press(ada.http.get(HERE), removing, password=flow.PASSWORD, code=codes[1]).status_code == 403
    assert ada.press(ada.http.get(HERE), removing, password=flow.PASSWORD, code=fresh[0]).status_code == 303
    again = flow.Person(service, ada.email)
    assert not signed_in(again)
    enter(again)
    assert signed_in(again)


@pytest.mark.parametrize("way", ["application", "account"])
def test_who_must_have_one_sets_it_up_first(service: RunningService, app: flow.App, ben: flow.Person, way: str) -> None:
    ada, here = flow.a_person(service, isAdmin=True), done(service.call("admin/organization/get"))["name"]
    demand(service, "ADMINS")
    enter(ben)
    assert signed_in(ben)
    page = ada.sign_in(ada.open(app)) if way == "application" else enter(ada)
    phone = Phone(service, page)
    assert f"{here} requires a second factor" in page.text
    assert not signed_in(ada)
    assert ada.press(page, "addApp", code="000000").status_code == 403
    assert not signed_in(ada)
    shown = ada.press(page, "addApp", code=phone.code(steps=-1))
    recovery_codes(shown)
    assert flow.asks_for_consent(ada.follow(ada.http.get(flow.Page(shown).links[0]))) == (way == "application")
    assert signed_in(ada)
    demand(service, "EVERYBODY")
    assert "addApp" in flow.Page(enter(flow.Person(service, ben.email))).forms[0].buttons
    if way == "application":
        assert done(service.call("admin/users/resetSecondFactor", {"email": ada.email})) == {"removedCount": 1}
        assert flow.entries(service, "secondFactor.reset")
    else:
        # A thread, because an event loop of the tests' is in this one.
        command = ("user", "reset-second-factor", "--email", ada.email, "--organization", here)
        with ThreadPoolExecutor(1) as thread:
            assert thread.submit(run, command, service.settings).result() == 0
    assert "addApp" in flow.Page(enter(flow.Person(service, ada.email))).forms[0].buttons
    refused = service.call("admin/users/resetSecondFactor", {"email": "nobody@example.test"})
    assert code(refused) == (400, "unknown_user")


def test_another_secret_key_keeps_apps_and_a_lost_one_keeps_out(service: RunningService, ada: flow.Person) -> None:
    phone, codes = set_up(ada)
    here = organization_id(service)
    old, new = service.runtime.keys, Keys(SecretStr("n" * 40))

    def rotate(before: Keys | None, after: Keys) -> None:
        service.in_transaction(here, lambda connection: reseal_secrets(connection, here, old=before, new=after))

    def enter_with(text: str) -> int:
        person = flow.Person(service, ada.email)
        return give(person, enter(person), text).status_code

    rotate(old, new)
    assert enter_with(phone.code()) == 403
    rotate(new, old)
    assert enter_with(phone.code()) == 303
    rotate(None, old)
    assert enter_with(phone.code(steps=1)) == 403
    assert enter_with(codes[0]) == 303


def confirm(person: flow.Person, refusal: httpx.Response, **fields: str) -> httpx.Response:
    page = person.follow(person.http.get(refusal.json()["error"]["confirmationUrl"]))
    return person.press(page, "confirm", **fields) if page.status_code == 200 else page


@pytest.mark.usefixtures("still_clock")
def test_changes_of_access_are_confirmed(service: RunningService, app: flow.App, ben: flow.Person) -> None:
    other, ada = flow.an_app(service), flow.a_person(service, isAdmin=True)
    phone, codes = set_up(ada)
    token, elsewhere = (ada.tokens(one, scope="api:admin")["access_token"] for one in (app, other))
    change = {"name": "Ada's key"}
    flow.later(service, minutes=16)
    assert flow.v1(service, "admin/apiKeys/create", token, change).status_code == 200
    demand(service, "ADMINS")
    refused = flow.v1(service, "admin/apiKeys/create", token, change)
    assert code(refused) == (403, "confirmation_required")
    assert 'error="insufficient_user_authentication"' in refused.headers["WWW-Authenticate"]
    assert 'max_age="900"' in refused.headers["WWW-Authenticate"]
    assert flow.v1(service, "admin/apiKeys/list", token, {}).status_code == 200
    assert service.call("admin/apiKeys/create", change).status_code == 200
    # A stolen session knows neither the password nor a code; another person can't confirm it.
    for fields in ({}, {"password": flow.PASSWORD}, {"password": "guessed", "code": phone.code()}):
        assert confirm(ada, refused, **fields).status_code == 403
    kept = [{"by": by, "inSession": True} for by in ("secondFactor", "password")]
    until(lambda: [one["details"] for one in flow.entries(service, "session.fail")] == kept)
    enter(ben)
    missing = confirm(ben, refused).text
    assert ("You have no such session" in missing, "../account/sign-in" in missing) == (True, True)
    assert code(flow.v1(service, "admin/apiKeys/create", token, change)) == (403, "confirmation_required")
    assert "An App may change access" in confirm(ada, refused, password=flow.PASSWORD, code=codes[0]).text
    assert flow.v1(service, "admin/apiKeys/create", token, change).status_code == 200
    again = flow.v1(service, "admin/apiKeys/create", elsewhere, change)
    assert code(again) == (403, "confirmation_required")
    # It counts from when she proved it, however often it is used.
    flow.later(service, minutes=10)
    assert "Confirmed" in confirm(ada, again).text
    flow.later(service, minutes=6)
    assert code(flow.v1(service, "admin/apiKeys/create", elsewhere, change)) == (403, "confirmation_required")
    assert confirm(ada, again).status_code == 403
    assert code(flow.v1(service, "admin/apiKeys/create", token, change)) == (403, "confirmation_required")
    # Somebody signed out signs in on the way; a client asks for a new sign-in by max_age.
    fresh = flow.Person(service, ada.email)
    begin = fresh.follow(fresh.http.get(refused.json()["error"]["confirmationUrl"]))
    assert ("confirm that it is you" in begin.text, "connected applications" in begin.text) == (True, False)
    assert "confirm" in flow.Page(fresh.follow(give(fresh, fresh.sign_in(begin), phone.code()))).forms[0].buttons
    assert flow.asks_to_sign_in(ada.open(app, max_age="900"))
    assert "code" in flow.sent_back(ada.open(app, scope="api:admin", max_age="9000"))
    assert "code" in flow.sent_back(ada.open(app, scope="api:admin", max_age="soon"))


def test_what_must_be_confirmed_is_declared() -> None:
    confirmed = {path for path, one in OPERATIONS.items() if one.has(CONFIRMED)}
    named = {path for path in OPERATIONS if re.search(r"(create|mint|revoke|rotateSecret|approve)$", path)}
    credentials = {one for one in named if re.search(r"apiKeys|Tokens|oauthClients|serviceAccounts|roviders", one)}
    assert credentials <= confirmed
    assert {"admin/users/upsert", "admin/organization/update", "admin/grants/set"} <= confirmed
    # What somebody is given by groups, and by becoming an owner, is access as well.
    groups = {f"admin/groups/{name}" for name in ("upsert", "delete", "addMembers", "removeMembers")}
    assert groups | {"admin/owners/transfer", "admin/users/offboard"} <= confirmed
    assert not any(re.search(r"/(list|get|query|count)[A-Z]?", path) for path in confirmed)
