"""Passwords and tokens are never sent readable over a network (RFC 6749, sections 3.1 and 3.2)."""

from urllib.parse import urlsplit

import httpx
import pytest
from pydantic import SecretStr, ValidationError
from structlog.testing import capture_logs
from structlog.typing import EventDict

from service.web.pages import confidential
from tests.harness.services import RunningService, settings_for_test
from tests.oauth.flow import App, Page, Pkce, a_person, an_app, asks_to_sign_in, error


def test_nobody_signs_in_where_the_service_is_reached_by_plain_http(make_service) -> None:
    service = make_service(public_url="http://carrel.example.test")
    app, ada = an_app(service), a_person(service)
    for path in ("/api/oauth/authorize", "/api/oauth/upstream", "/api/oauth/upstream/callback", "/account/consents"):
        refused = ada.http.get(path, params=app.parameters(Pkce()))
        assert refused.status_code == 403
        assert "https" in refused.text
        assert Page(refused).forms == []
        assert "Set-Cookie" not in refused.headers
    for path in ("/api/oauth/authorize", "/account/consents"):
        assert ada.http.post(path, params=app.parameters(Pkce()), data={"action": "signIn"}).status_code == 403
    assert error(app.refresh("svc_rt_x")) == (403, "invalid_request")
    assert error(app.revoke("svc_rt_x")) == (403, "invalid_request")
    assert service.call("catalog/listDocuments").status_code == 200


@pytest.mark.parametrize(
    "host", ["192.168.1.20:8000", "carrel.example.test", "localhost.evil.test", "127.0.0.1.evil.test", ""]
)
def test_a_browser_that_came_over_the_network_is_told_so(standing, host: str) -> None:
    """Without a public address people sign in on the service's own machine, whatever address it listens on."""
    page = opened(standing.service, standing.app, host)
    assert page.status_code == 403
    assert "CARREL_PUBLIC_URL" in page.text


@pytest.mark.parametrize("host", ["localhost:1234", "127.0.0.1", "[::1]:8000"])
def test_on_the_services_own_machine_plain_http_will_do(standing, host: str) -> None:
    assert asks_to_sign_in(opened(standing.service, standing.app, host))


def opened(service: RunningService, app: App, host: str) -> httpx.Response:
    return service.http.get("/api/oauth/authorize", params=app.parameters(Pkce()), headers={"Host": host})


def test_browsers_on_the_services_own_machine_are_led_to_its_name(standing, make_service) -> None:
    """Passkeys work at `localhost`, but at no IP; programs, and browsers already there, stay."""
    base, way = standing.service.base_url, "/api/oauth/authorize"
    opens = {"Sec-Fetch-Mode": "navigate"}
    led = httpx.get(base + way, params={"state": "a b"}, headers=opens)
    assert (led.status_code, led.headers["Location"]) == (307, f"{named(base)}{way}?state=a+b")
    parameters = standing.app.parameters(Pkce())
    for headers in ({"Sec-Fetch-Mode": "cors"}, {}, opens | {"Host": urlsplit(named(base)).netloc}):
        assert httpx.get(base + way, params=parameters, headers=headers).status_code == 200
    behind = make_service(public_url="http://127.0.0.1:9/carrel")
    assert behind.http.get("/account/sign-in", headers=opens | {"Host": "127.0.0.1:9"}).status_code == 200


def named(address: str) -> str:
    return address.replace("127.0.0.1", "localhost")


def test_behind_a_proxy_with_https_the_host_is_the_proxys_affair(make_service) -> None:
    service = make_service(public_url="https://carrel.example.test")
    app = an_app(service)
    assert [opened(service, app, host).status_code for host in ("carrel:8000", "10.0.0.7")] == [200, 200]


def _warnings(logged: list[EventDict]) -> list[EventDict]:
    return [entry for entry in logged if entry["log_level"] == "warning"]


@pytest.mark.parametrize("public_url", ["http://carrel.example.test", "http://10.0.0.7:8000"])
def test_a_public_address_of_plain_http_is_warned_of(tmp_path, public_url: str) -> None:
    with capture_logs() as logged:
        for fine in ("https://carrel.example.test", "http://localhost:8000", None):
            confidential.warn(settings_for_test(tmp_path, None, public_url=fine))
        assert _warnings(logged) == []
        confidential.warn(settings_for_test(tmp_path, None, public_url=public_url))
    (entry,) = _warnings(logged)
    assert "CARREL_PUBLIC_URL" in entry["advice"]


ODD_ADDRESSES = [
    *("carrel.example.test", "ftp://carrel.example.test", "https://", "https://c\u00e4rrel.test"),
    "https://user:password@carrel.example.test",
    *(f"https://carrel.example.test{odd}" for odd in ("?", "#", "/?a=b", ":x", "/a b")),
]
ODD_ISSUERS = ["http://people.test", "people.test", "https://people.test?a", "https://people.test#"]


@pytest.mark.parametrize(
    ("setting", "address"),
    [*(("public_url", one) for one in ODD_ADDRESSES), *(("oidc_issuer", one) for one in ODD_ISSUERS)],
)
def test_an_address_that_is_none_is_refused(tmp_path, setting: str, address: str) -> None:
    """The public address is every token's issuer (RFC 8414, section 2); a provider over plain http could be forged."""
    provider = {"oidc_client_id": "carrel", "oidc_client_secret": SecretStr("1")} if setting == "oidc_issuer" else {}
    with pytest.raises(ValidationError, match=setting):
        settings_for_test(tmp_path, None, **{setting: address}, **provider)
