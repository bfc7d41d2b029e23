"""Browsers and sessions, checked on every page. A random cookie, new at each sign-in, also binds the form tokens."""

import hashlib
import hmac
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal
from uuid import UUID

from fastapi import Request, Response
from pydantic import SecretStr
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from service.audit.service import Change, record_for
from service.auth.lifetimes import LAST_USED_PRECISION
from service.identity_server.signin import queries
from service.platform import base64url, secrets
from service.platform.identifiers import uuid7
from service.platform.networks import current_sender
from service.platform.secrets import seal
from service.runtime import Runtime

COOKIE = "carrel_session"
# Only a host itself can set a cookie of this name, and only over https (RFC 6265bis, section 4.1.3.2).
SECURE_COOKIE = "__Host-carrel_session"


@dataclass(frozen=True)
class Browser:
    """A browser, identified by cookie value; `known` is False if there was no usable cookie."""

    value: SecretStr
    known: bool
    secure: bool

    @classmethod
    def of(cls, request: Request, runtime: Runtime) -> "Browser":
        """Return the browser of a request, with a new value if there is no usable cookie."""
        secure = runtime.settings.issuer.startswith("https:")
        value = request.cookies.get(SECURE_COOKIE if secure else COOKIE, "")
        known = value.startswith(secrets.SESSION) and secrets.checksum_matches(value)
        return cls(SecretStr(value) if known else secrets.mint(secrets.SESSION).value, known=known, secure=secure)

    @property
    def hash(self) -> bytes:
        return secrets.hash_secret(self.value.get_secret_value())

    def renew(self) -> "Browser":
        return Browser(secrets.mint(secrets.SESSION).value, known=False, secure=self.secure)

    def keep(self, response: Response) -> Response:
        """Set the cookie with the browser's value, valid until the browser is closed; return the response."""
        response.set_cookie(
            SECURE_COOKIE if self.secure else COOKIE,
            self.value.get_secret_value(),
            httponly=True,
            samesite="lax",
            secure=self.secure,
            path="/",
        )
        return response

    def keep_new(self, response: Response) -> Response:
        """Set the cookie unless the browser came with a usable cookie; return the response."""
        return response if self.known else self.keep(response)


@dataclass(frozen=True)
class Visitor:
    """A browser at a page of the service."""

    request: Request
    runtime: Runtime
    browser: Browser

    @property
    def sender(self) -> str:
        return self.request.client.host if self.request.client else "unknown"

    def derive(self, use: secrets.BrowserUse, purpose: str) -> bytes:
        return self.runtime.keys.bytes_for(use, browser=self.browser.value.get_secret_value(), purpose=purpose)

    def form_token(self, purpose: str) -> str:
        return base64url.encode(self.derive("form token", purpose))

    def is_own_form(self, form: Mapping[str, str], purpose: str) -> bool:
        token = form.get("csrf", "").encode()
        return self.browser.known and hmac.compare_digest(self.form_token(purpose).encode(), token)


LIFETIME = timedelta(hours=12)
Way = Literal["password", "passkey", "openIdConnect"]


@dataclass(frozen=True)
class SignedIn:
    """A signed-in person. `confirmed_at`: the last proof of identity; `by_password`: or passkey, not at a provider."""

    organization_id: UUID
    organization_name: str
    principal_id: UUID
    email: str
    name: str
    is_admin: bool
    by_password: bool
    confirmed_at: datetime | None


async def find_session(connection: Connection, browser: Browser, *, now: datetime) -> SignedIn | None:
    """Find a browser's person, and enter the organization; None after 12 hours, deactivation or a changed password."""
    if not browser.known:
        return None
    row = await queries.enter_by_session(connection, secret_hash=browser.hash)
    if row is None or row.expires_at <= now:
        return None
    person = await queries.get_person(connection, row.organization_id, principal_id=row.principal_id)
    if person is None or not person.active:
        return None
    if row.password_mark is not None and row.password_mark != password_mark(person.password_hash):
        return None
    if row.last_used_at is None or row.last_used_at < now - LAST_USED_PRECISION:
        await queries.touch_session(connection, row.organization_id, secret_hash=browser.hash, now=now)
    return SignedIn(
        organization_id=row.organization_id,
        organization_name=row.organization_name,
        principal_id=person.principal_id,
        email=person.email,
        name=person.name,
        is_admin=person.is_admin,
        by_password=row.password_mark is not None,
        confirmed_at=row.confirmed_at,
    )


async def find_signed_in(visitor: Visitor) -> SignedIn | None:
    async with visitor.runtime.database.transaction(None) as connection:
        return await find_session(connection, visitor.browser, now=await visitor.runtime.clock.now(connection))


@dataclass(frozen=True)
class OwnPage(Visitor):
    person: SignedIn

    @classmethod
    async def open(cls, visitor: Visitor) -> "OwnPage | None":
        person = await find_signed_in(visitor)
        return None if person is None else cls(visitor.request, visitor.runtime, visitor.browser, person)

    @property
    def whose(self) -> dict[str, UUID]:
        """The person's organization and id, as keyword arguments for rules and queries."""
        return {"organization_id": self.person.organization_id, "principal_id": self.person.principal_id}

    def transaction(self) -> AbstractAsyncContextManager[Connection]:
        return self.runtime.database.transaction(self.person.organization_id)


@dataclass(frozen=True)
class ProviderSession:
    """The session at the provider: the session id there, and the ID token, encrypted under `key`."""

    provider_id: UUID
    session_id: str | None
    id_token: SecretStr | None
    key: bytes = field(repr=False)

    def columns(self, session_id: UUID) -> dict[str, object]:
        sealed = None if self.id_token is None else seal(self.key, row_id=session_id, secret=self.id_token)
        return {"provider_id": self.provider_id, "provider_session": self.session_id, "sealed_id_token": sealed}


async def begin_session(
    connection: Connection,
    browser: Browser,
    *,
    person: queries.Person,
    now: datetime,
    by: Way,
    second_factor: str | None = None,
    proven_at: datetime | None = None,
    provider: ProviderSession | None = None,
    details: Mapping[str, str] | None = None,
) -> Browser:
    """Sign a person in, and the browser's earlier person out; return the browser's new value. A new password ends
    passkey sessions too, because passkeys belong to accounts with a password. `second_factor` is the kind of factor
    given, `proven_at` the time of proof at a provider (None confirms nothing), and `details` go to the audit entry."""
    organization_id, by_password = person.organization_id, by != "openIdConnect"
    await end_session(connection, browser, organization_id=organization_id)
    fresh = browser.renew()
    session_id = uuid7()
    row = {
        "session_id": session_id,
        "principal_id": person.principal_id,
        "secret_hash": fresh.hash,
        "password_mark": password_mark(person.password_hash) if by_password else None,
        "created_at": now,
        "expires_at": now + LIFETIME,
        "last_used_at": now,
        "confirmed_at": now if by_password else proven_at,
        **current_sender().columns,
        **({} if provider is None else provider.columns(session_id)),
    }
    await queries.insert_session(connection, organization_id, row=row)
    how: dict[str, str] = {"by": by}
    if second_factor is not None:
        how["secondFactor"] = second_factor
    if provider is not None:
        how["providerId"] = str(provider.provider_id)
    change = Change("session.begin", "user", person.principal_id, {**how, **(details or {})})
    await record_for(connection, organization_id, actor_id=person.principal_id, change=change)
    return fresh


async def end_session(connection: Connection, browser: Browser, *, organization_id: UUID) -> None:
    await queries.delete_session(connection, organization_id, secret_hash=browser.hash)


def password_mark(password_hash: str | None) -> bytes:
    """Return a digest that changes with the password but doesn't reveal the password."""
    return hashlib.sha256(f"carrel.session\n{password_hash}".encode()).digest()
