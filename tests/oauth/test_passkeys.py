"""Passkeys: made on the account's page, and used to sign in, as the second step, and to confirm."""

import asyncio
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import cbor2
import httpx
import pytest

from service.identity_server.signin import sessions
from service.identity_server.signin.factors import service as factors
from service.identity_server.signin.sessions import SignedIn
from service.platform.base64url import encode
from tests.harness.jobs import until
from tests.harness.services import RunningService, ServiceHarness
from tests.oauth import flow
from tests.oauth.authenticator import EXTENDED, PRESENT, SYNCED, VERIFIED, Authenticator
from tests.oauth.test_second_factor import HERE, OUT_OF_DATE, demand, enter, give, recovery_codes, remove, signed_in
from tests.service.directory import a_user, another_organization, code, done, organization_id, walk

UNKNOWN, UNFIT = "This passkey is unknown here", "The passkey could not be verified"
# What CBOR can say and no authenticator does: long ones take minutes to read.
PATTERN = cbor2.CBORTag(35, "[a-z]")


@pytest.fixture(scope="module")
def house(service_harness: ServiceHarness) -> Iterator[RunningService]:
    with service_harness.running(host="localhost") as service:
        yield service


@pytest.fixture
def ada(service: RunningService) -> flow.Person:
    ada = flow.a_person(service, isAdmin=True)
    enter(ada)
    return ada


def send(person: flow.Person, page: httpx.Response, does: str, answer: str, **fields: str) -> httpx.Response:
    return person.press(page, does, credential=answer, **fields)


def asked(page: httpx.Response, does: str) -> str:
    assert "script-src 'self'" in page.headers["Content-Security-Policy"]
    return flow.Page(page).form(does).asked


def new_device(person: flow.Person, **own: Any) -> Authenticator:
    return Authenticator(person.service.settings.issuer, **own)


def new_page(person: flow.Person, **fields: str) -> httpx.Response:
    return person.press(person.http.get(HERE), "showPasskey", **({"password": flow.PASSWORD} | fields))


def make(person: flow.Person, page: httpx.Response, device: Authenticator, **wrong: Any) -> httpx.Response:
    return send(person, page, "addPasskey", device.make(asked(page, "addPasskey"), **wrong))


def prove(person: flow.Person, page: httpx.Response, device: Authenticator, **wrong: Any) -> httpx.Response:
    return send(person, page, "passkey", device.sign(asked(page, "passkey"), **wrong))


def proof_on(page: httpx.Response) -> dict[str, str]:
    fields = flow.Page(page).form("makeCodes").fields
    return {name: fields[name] for name in ("proof", "until")}


def register(
    person: flow.Person, *, sign_count: int = 0, name: str = "A key", **fields: str
) -> tuple[Authenticator, Any]:
    device, page = new_device(person, count=sign_count), new_page(person, **fields)
    shown = send(person, page, "addPasskey", device.make(asked(page, "addPasskey")), name=name)
    return device, recovery_codes(shown) if shown.status_code == 200 else shown


def sign_in_alone(person: flow.Person, device: Authenticator, page: httpx.Response | None = None, **wrong: Any) -> Any:
    page = page or person.http.get("/account/sign-in")
    return send(person, page, "passkeySignIn", device.sign(asked(page, "passkeySignIn"), **wrong))


def test_a_passkey_signs_in(service: RunningService, app: flow.App, ada: flow.Person) -> None:
    device, codes = register(ada, sign_count=7, name=" Ada's <key>\0 ")
    page = ada.http.get(HERE)
    assert "Ada&#39;s &lt;key&gt;" in page.text
    assert "Passkey, on this device only. " in page.text
    assert "not used yet" in page.text
    at_account = flow.Person(service, ada.email)
    assert sign_in_alone(at_account, device, flags=PRESENT | VERIFIED | SYNCED).status_code == 303
    assert signed_in(at_account)
    page = ada.http.get(HERE)
    assert "Passkey, synced. " in page.text
    assert ", last used on" in page.text
    on_the_way = flow.Person(service, ada.email)
    assert flow.asks_for_consent(on_the_way.follow(sign_in_alone(on_the_way, device, on_the_way.open(app))))
    # The password alone lets nobody in; there is no app whose code could be asked for.
    second = flow.Person(service, ada.email)
    page = enter(second)
    assert not signed_in(second)
    assert "Recovery code" in page.text
    assert prove(second, page, device, handle=b"").status_code == 303
    assert signed_in(second)
    third = flow.Person(service, ada.email)
    assert give(third, enter(third), codes[0]).status_code == 303
    assert [one["details"] for one in flow.entries(service, "session.begin")][:4] == [
        {"by": "password", "secondFactor": "recoveryCode"},
        {"by": "password", "secondFactor": "passkey"},
        {"by": "passkey"},
        {"by": "passkey"},
    ]
    [listed] = walk(service, "admin/users/list", {"query": ada.email}, page_size=9)
    assert listed["hasSecondFactor"] is True
    [factor] = listed["secondFactors"]
    assert (factor["kind"], factor["name"], factor["synced"]) == ("PASSKEY", "Ada's <key>", False)
    here = ada.http.get(HERE)
    assert ada.press(here, remove(here), password=flow.PASSWORD, code=codes[1]).status_code == 303
    assert UNKNOWN in sign_in_alone(flow.Person(service, ada.email), device).text
    assert "You have no second factor" in ada.http.get(HERE).text
    assert signed_in(enter(again := flow.Person(service, ada.email)) and again)


FORGED: list[tuple[dict[str, Any], str]] = [
    ({"origin": "http://localhost.evil.test"}, UNFIT),
    ({"rp": "evil.test"}, UNFIT),
    ({"flags": PRESENT}, UNFIT),
    ({"flags": VERIFIED}, UNFIT),
    ({"framed": True}, UNFIT),
    ({"signature": b"0" * 70}, UNFIT),
    ({"kind": "webauthn.create"}, UNFIT),
    ({"flags": PRESENT | VERIFIED | EXTENDED, "extensions": cbor2.dumps({"x": PATTERN})}, UNFIT),
    ({"handle": b"somebody else"}, UNFIT),
    ({"challenge": encode(b"0" * 56)}, OUT_OF_DATE),
    ({"challenge": ""}, OUT_OF_DATE),
]


def test_what_is_forged_is_refused(ada: flow.Person) -> None:
    device, _ = register(ada)
    alone, second = flow.Person(ada.service, ada.email), flow.Person(ada.service, ada.email)
    pages = {"passkeySignIn": (alone, alone.http.get("/account/sign-in")), "passkey": (second, enter(second))}
    for does, (thief, page) in pages.items():
        for wrong, notice in [*FORGED, *([({"handle": b""}, UNFIT)] if thief is alone else [])]:
            refused = send(thief, page, does, device.sign(asked(page, does), **wrong))
            assert (refused.status_code, notice in refused.text) == (403, True), (does, wrong)
        assert not signed_in(thief)
        assert send(thief, page, does, device.sign(asked(page, does))).status_code == 303
        assert signed_in(thief)


def test_a_challenge_is_answered_once_in_its_browser_and_for_its_purpose(app: flow.App, ada: flow.Person) -> None:
    device, _ = register(ada)
    victim, thief = flow.Person(app.service, ada.email), flow.Person(app.service, ada.email)
    page = victim.http.get("/account/sign-in")
    thief.http.cookies.update(victim.http.cookies)
    answer = device.sign(asked(page, "passkeySignIn"))
    assert send(victim, page, "passkeySignIn", answer).status_code == 303
    assert OUT_OF_DATE in send(thief, page, "passkeySignIn", answer).text
    assert not signed_in(thief)
    other = flow.Person(app.service, ada.email)
    at_account, on_the_way = other.http.get("/account/sign-in"), other.open(app)
    stranger = flow.Person(app.service, ada.email)
    theirs = stranger.http.get("/account/sign-in")
    for asking, to in ((at_account, on_the_way), (on_the_way, at_account), (theirs, at_account)):
        answer = device.sign(asked(asking, "passkeySignIn"))
        assert OUT_OF_DATE in send(other, to, "passkeySignIn", answer).text
    late = device.sign(asked(at_account, "passkeySignIn"))
    flow.later(app.service, minutes=6)
    assert OUT_OF_DATE in send(other, at_account, "passkeySignIn", late).text
    for text in ("", "null", "[]", "{}", "é\0", json.dumps({"id": 1}), "[" * 10_000):
        assert OUT_OF_DATE in send(other, other.http.get("/account/sign-in"), "passkeySignIn", text).text
    page = other.http.get("/account/sign-in")
    long = device.sign(asked(page, "passkeySignIn")) + " " * 16_384
    assert OUT_OF_DATE in send(other, page, "passkeySignIn", long).text
    assert not signed_in(other)


def test_a_passkey_is_its_persons(service: RunningService, ada: flow.Person, ben: flow.Person) -> None:
    device, _ = register(ada)
    enter(ben)
    register(ben)
    half = flow.Person(service, ben.email)
    assert UNKNOWN in prove(half, enter(half), device).text
    assert not signed_in(half)
    assert UNKNOWN in prove(ben, ben.http.get(HERE), device).text
    theirs, visitor = flow.an_app(service, api_key=another_organization(service)), flow.Person(service, ada.email)
    assert UNKNOWN in sign_in_alone(visitor, device, visitor.open(theirs)).text
    a_user(service, ada.email, active=False)
    assert UNKNOWN in sign_in_alone(visitor, device).text
    a_user(service, ada.email, active=True)
    assert sign_in_alone(visitor, device).status_code == 303
    done(service.call("admin/users/resetSecondFactor", {"email": ada.email}))
    assert UNKNOWN in sign_in_alone(flow.Person(service, ada.email), device).text


def test_a_count_that_goes_back_is_refused(service: RunningService, ada: flow.Person) -> None:
    """A copy may exist, so it is logged. The device with the higher count works; failures count too."""
    device, _ = register(ada, sign_count=5)
    assert sign_in_alone(flow.Person(service, ada.email), device).status_code == 303
    device.count -= 1
    refused = sign_in_alone(flow.Person(service, ada.email), device)
    assert (refused.status_code, "may have been copied" in refused.text) == (403, True)
    [entry] = flow.entries(service, "passkey.copied")
    assert entry["target"]["name"] == "Ada Lovelace"
    until(lambda: [one["details"] for one in flow.entries(service, "session.fail")] == [{"by": "passkey"}])
    assert sign_in_alone(flow.Person(service, ada.email), device).status_code == 303


def test_making_one_takes_a_proof(service: RunningService, ada: flow.Person, ben: flow.Person) -> None:
    device = new_device(ada)
    assert new_page(ada, password="guessed").status_code == 403
    page = new_page(ada)
    thief = flow.Person(service, ada.email)
    thief.http.cookies.update(ada.http.cookies)
    form = flow.Page(ada.http.get(HERE)).form("showApp")
    begin = thief.http.get("/account/sign-in?confirm=none")
    for challenge in (encode(b"0" * 56), json.loads(asked(page, "addPasskey"))["challenge"][:-4] + "AAAA"):
        forged = device.make(asked(page, "addPasskey"), challenge=challenge)
        sent = form.fields | {"action": "addPasskey", "credential": forged}
        assert OUT_OF_DATE in thief.http.post(form.action, data=sent).text
    assert begin.has_redirect_location
    for wrong in (
        {"flags": PRESENT},
        {"rp": "evil.test"},
        {"origin": "https://evil.test"},
        {"attested": b"\x81" * 999},
        {"beside": {"x": PATTERN}},
    ):
        assert "could not be created" in make(ada, new_page(ada), device, **wrong).text
    assert "could not be created" in make(ada, new_page(ada), new_device(ada, credential_id=b"0" * 1024)).text
    device, codes = register(ada)
    assert new_page(ada).status_code == 403
    same = new_device(ada, credential_id=device.credential_id)
    assert "already registered" in make(ada, new_page(ada, code=codes[0]), same).text
    assert sign_in_alone(flow.Person(service, ada.email), device).status_code == 303
    # By the passkey, too: the page that follows asks for nothing more, for ten minutes, in its own browser.
    proven = prove(ada, ada.http.get(HERE), device)
    assert 'type="password"' not in proven.text
    enter(ben)
    assert OUT_OF_DATE in ben.press(ben.http.get(HERE), "showApp", **proof_on(proven)).text
    assert OUT_OF_DATE in ada.press(proven, "makeCodes", until="9999999999").text
    again = flow.Page(proven).form("makeCodes").fields | {"action": "passkey"}
    assert OUT_OF_DATE in ada.http.post(HERE, data=again).text, "a proof is no new one"
    fresh = recovery_codes(ada.press(proven, "makeCodes"))
    assert not set(codes) & set(fresh)
    # The second one makes no codes again.
    assert make(ada, ada.press(proven, "showPasskey"), new_device(ada)).status_code == 303
    flow.later(service, minutes=11)
    assert OUT_OF_DATE in ada.press(proven, "makeCodes").text


def test_factors_change_one_at_a_time(service, ada, monkeypatch) -> None:
    device, _ = register(ada)
    make(ada, ada.press(prove(ada, ada.http.get(HERE), device), "showPasskey"), new_device(ada))
    page, read, find = prove(ada, ada.http.get(HERE), device), factors.read_factors, sessions.find_signed_in
    removals = [one for one in flow.Page(page).form("makeCodes").buttons if one.startswith("remove ")]

    async def read_slowly(*args: Any, **whose: Any) -> factors.Factors:
        found = await read(*args, **whose)
        await asyncio.sleep(0.2)
        return found

    with monkeypatch.context() as patch, ThreadPoolExecutor(2) as pool:
        patch.setattr(factors, "read_factors", read_slowly)
        assert [one.status_code for one in pool.map(partial(ada.press, page), removals)] == [303, 303]
    assert _held(ada) == (0, 0)
    page = new_page(ada)

    async def find_who_leaves(*args: Any) -> SignedIn | None:
        found = await find(*args)
        await asyncio.to_thread(service.call, "admin/users/offboard", {"email": ada.email})
        return found

    monkeypatch.setattr(sessions, "find_signed_in", find_who_leaves)
    make(ada, page, new_device(ada))
    assert _held(ada) == (0, 0)


def _held(person: flow.Person) -> tuple[int, int]:
    whose = "JOIN principals USING (principal_id) WHERE email = %s AND principals.organization_id = %s"
    values = [person.email, organization_id(person.service)]
    with person.service.owner_connection() as connection:
        had = connection.execute(f"SELECT FROM second_factors {whose}", values).rowcount
        return had, connection.execute(f"SELECT FROM recovery_codes {whose}", values).rowcount


def test_who_must_have_a_second_factor_makes_a_passkey(service: RunningService, app: flow.App) -> None:
    ada = flow.a_person(service, isAdmin=True)
    demand(service, "ADMINS")
    page = ada.press(enter(ada), "showPasskey")
    assert not signed_in(ada)
    device = new_device(ada)
    assert "could not be created" in make(ada, page, device, rp="x.test").text
    recovery_codes(make(ada, ada.press(ada.http.get("/account/sign-in"), "showPasskey"), device))
    assert signed_in(ada)
    token = ada.tokens(app, scope="api:admin")["access_token"]
    flow.later(service, minutes=16)
    refused = flow.v1(service, "admin/apiKeys/create", token, {"name": "Ada's key"})
    assert code(refused) == (403, "confirmation_required")
    page = ada.http.get(refused.json()["error"]["confirmationUrl"].replace(service.settings.issuer, service.base_url))
    here = ada.http.get(HERE)
    answer = device.sign(asked(here, "passkey"))
    assert OUT_OF_DATE in send(ada, page, "passkey", answer).text
    assert ada.press(page, "confirm", **proof_on(send(ada, here, "passkey", answer))).status_code == 403
    assert "Confirmed" in prove(ada, page, device).text
    assert flow.v1(service, "admin/apiKeys/create", token, {"name": "Ada's key"}).status_code == 200
    # It is new enough for an application that wants a new sign-in, too.
    late = flow.Person(service, ada.email)
    there = late.follow(sign_in_alone(late, device, late.open(app, scope="api:admin", max_age="900")))
    assert "code" in flow.sent_back(there)


def test_an_address_without_a_name_offers_none(make_service: Callable[..., RunningService]) -> None:
    """Browsers make passkeys only for host names, not for IP addresses."""
    ada = flow.a_person(make_service(public_url="http://127.0.0.1:1/carrel"))
    page = ada.http.get("/account/sign-in")
    assert "script" not in page.text + page.headers["Content-Security-Policy"]
    enter(ada)
    assert "Passkeys need an address with a host name" in ada.http.get(HERE).text
