"""Helpers for the OAuth flow: the client's side, and a person with a browser, without a library."""

import base64
import hashlib
import secrets
from dataclasses import dataclass, field
from datetime import timedelta
from html.parser import HTMLParser
from typing import Any, ClassVar
from urllib.parse import parse_qsl, urljoin, urlsplit

import httpx

from service.auth.callers import Caller, authenticate
from tests.harness.services import RunningService
from tests.service.directory import another_organization, done, walk

CALLBACK = "https://app.example.test/callback"
SCOPE = "api:catalog:read"
EVERY_SCOPE = ["api:agent:message:*", "api:catalog:read", "api:catalog:write", "api:admin"]
AGENT_SCOPES = ["api:catalog:read", "api:agent:message:*"]
PASSWORD = "a long enough password"


@dataclass(frozen=True)
class App:
    service: RunningService
    client_id: str
    client_secret: str | None
    redirect_uri: str = CALLBACK

    def parameters(self, pkce: "Pkce", **changes: str | None) -> dict[str, str]:
        values: dict[str, str | None] = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": self.redirect_uri,
            "scope": SCOPE,
            "state": "a state",
            "code_challenge": pkce.challenge,
            "code_challenge_method": "S256",
        }
        return {name: value for name, value in (values | changes).items() if value is not None}

    def exchange(self, code: str, pkce: "Pkce", /, **changes: str | None) -> httpx.Response:
        values: dict[str, str | None] = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.redirect_uri,
            "code_verifier": pkce.verifier,
        }
        return self.post("token", **(values | changes))

    def refresh(self, refresh_token: str, /, **changes: str | None) -> httpx.Response:
        return self.post("token", **({"grant_type": "refresh_token", "refresh_token": refresh_token} | changes))

    def revoke(self, token: str, /, **changes: str | None) -> httpx.Response:
        return self.post("revoke", **({"token": token} | changes))

    def post(self, endpoint: str, /, **values: str | None) -> httpx.Response:
        own = {"client_id": self.client_id, "client_secret": self.client_secret}
        form = {name: value for name, value in (own | values).items() if value is not None}
        return httpx.post(f"{self.service.base_url}/api/oauth/{endpoint}", data=form, timeout=60)


@dataclass(frozen=True)
class Pkce:
    """A verifier and its challenge (RFC 7636, section 4)."""

    verifier: str = field(default_factory=lambda: secrets.token_urlsafe(32))

    @property
    def challenge(self) -> str:
        return base64.urlsafe_b64encode(hashlib.sha256(self.verifier.encode()).digest()).decode().rstrip("=")


@dataclass
class Form:
    """A form of a page: target, fields, values of buttons, and passkey request."""

    action: str
    fields: dict[str, str]
    buttons: list[str]
    asked: str = ""


class Page(HTMLParser):
    """The usable parts of a page; `links` are addresses."""

    def __init__(self, response: httpx.Response) -> None:
        super().__init__()
        self.response = response
        self.forms: list[Form] = []
        self.links: list[str] = []
        self.text = ""
        self.feed(response.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = {name: value or "" for name, value in attrs}
        address = str(self.response.url)
        if tag == "form":
            self.forms.append(Form(urljoin(address, named["action"]), {}, [], named.get("data-options", "")))
        elif tag == "a":
            self.links.append(urljoin(address, named["href"]))
        elif tag == "input" and (named.get("type") not in {"radio", "checkbox"} or "checked" in named):
            self.forms[-1].fields[named["name"]] = named.get("value", "")
        elif tag == "button":
            self.forms[-1].buttons.append(named.get("value", ""))

    def handle_data(self, data: str) -> None:
        self.text += data

    def form(self, button: str) -> Form:
        return next(form for form in self.forms if button in {*form.buttons, form.fields.get("action")})


class Person:
    """A person with a browser; it keeps cookies and follows no redirect by itself."""

    opened: ClassVar[list[httpx.Client]] = []

    def __init__(self, service: RunningService, email: str = "", password: str = PASSWORD) -> None:
        self.service = service
        self.email = email or service.admin_email
        self.password = password if email else service.admin_password
        self.http = httpx.Client(base_url=service.base_url, timeout=60)
        self.opened.append(self.http)

    def open(self, app: App, pkce: Pkce | None = None, **changes: str | None) -> httpx.Response:
        return self.http.get("/api/oauth/authorize", params=app.parameters(pkce or Pkce(), **changes))

    def press(self, response: httpx.Response, button: str, **fields: str | list[str]) -> httpx.Response:
        form = Page(response).form(button)
        return self.http.post(form.action, data=form.fields | fields | {"action": button})

    def enter(self, response: httpx.Response, **fields: str) -> httpx.Response:
        given = {"email": self.email, "password": self.password}
        if "organization" in Page(response).form("signIn").fields:
            given["organization"] = done(self.service.call("admin/organization/get"))["name"]
        return self.press(response, "signIn", **(given | fields))

    def sign_in(self, response: httpx.Response, **fields: str) -> httpx.Response:
        return self.follow(self.enter(response, **fields))

    def follow(self, response: httpx.Response) -> httpx.Response:
        while response.has_redirect_location:
            target = urljoin(str(response.url), response.headers["Location"])
            if not target.startswith(f"{self.service.base_url}/"):
                break
            response = self.http.get(target)
        return response

    def allow(self, app: App, pkce: Pkce | None = None, **changes: str | None) -> httpx.Response:
        response = self.follow(self.open(app, pkce, **changes))
        if asks_to_sign_in(response):
            response = self.sign_in(response)
        return self.press(response, "allow") if asks_for_consent(response) else response

    def code(self, app: App, pkce: Pkce, **changes: str | None) -> str:
        return sent_back(self.allow(app, pkce, **changes))["code"]

    def tokens(self, app: App, **changes: str | None) -> dict[str, Any]:
        pkce = Pkce()
        return done(app.exchange(self.code(app, pkce, **changes), pkce))


def asks_to_sign_in(response: httpx.Response) -> bool:
    return response.status_code == 200 and Page(response).forms[0].buttons[:1] == ["signIn"]


def asks_for_consent(response: httpx.Response) -> bool:
    return response.status_code == 200 and "allow" in Page(response).forms[0].buttons


def an_app(service: RunningService, *redirect_uris: str, scopes: list[str] | None = None, **options: Any) -> App:
    body: dict[str, Any] = {"redirectUris": list(redirect_uris) or [CALLBACK], "scopes": scopes or EVERY_SCOPE}
    own = {name: options.pop(name) for name in ("name", "audience", "isPublic") if name in options}
    body |= {"name": "An App", **own}
    client = done(service.call("admin/oauthClients/create", body, **options))
    return App(service, client["clientId"], client["clientSecret"] or None, body["redirectUris"][0])


def an_mcp_client(service: RunningService, *redirect_uris: str, scopes: list[str] | None = None, **options: Any) -> App:
    scopes = scopes or AGENT_SCOPES
    return an_app(service, *redirect_uris, scopes=scopes, audience="mcp", isPublic=True, **options)


def call_mcp(service: RunningService, token: str) -> Caller:
    bearer, keys, offset = f"Bearer {token}", service.runtime.keys, service.runtime.clock.offset
    return service.in_transaction(
        None, lambda connection: authenticate(connection, bearer, keys=keys, version="mcp", clock_offset=offset)
    )


def a_person(service: RunningService, email: str = "ada@example.test", **body: Any) -> Person:
    user = {"email": email, "name": "Ada Lovelace", "password": PASSWORD, **body}
    done(service.call("admin/users/upsert", {"users": [user]}))
    return Person(service, email, user["password"])


def elsewhere(service: RunningService) -> tuple[str, Person]:
    key = another_organization(service)
    users = {"users": [{"email": "eve@other.test", "name": "Eve", "password": PASSWORD}]}
    done(service.call("admin/users/upsert", users, api_key=key))
    return key, Person(service, "eve@other.test")


def entries(service: RunningService, action: str, **options: Any) -> list[dict[str, Any]]:
    return walk(service, "admin/auditLog/query", {"action": action}, page_size=100, **options)


def sent_back(response: httpx.Response, to: str = CALLBACK) -> dict[str, str]:
    assert response.status_code in {302, 303}, response.text
    location = response.headers["Location"]
    assert location.startswith(to), location
    return dict(parse_qsl(urlsplit(location).query, strict_parsing=True))


def v1(service: RunningService, path: str, token: str, body: object = None, **options: Any) -> httpx.Response:
    headers = {"Authorization": f"Bearer {token}"} | options.pop("headers", {})
    url = f"{service.base_url}/api/v1/{path}"
    if body is None:
        return httpx.get(url, headers=headers, timeout=60, **options)
    return httpx.post(url, headers=headers, json=body, timeout=60, **options)


def works(service: RunningService, token: str) -> bool:
    return v1(service, "me", token).status_code == 200


def later(service: RunningService, **time: float) -> None:
    service.runtime.clock.offset += timedelta(**time)


def error(response: httpx.Response) -> tuple[int, str]:
    assert response.headers["Cache-Control"] == "no-store"
    assert response.headers["Content-Type"].startswith("application/json")
    return response.status_code, response.json()["error"]
