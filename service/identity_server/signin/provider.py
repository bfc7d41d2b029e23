"""An OpenID Connect provider (Core 1.0): redirecting people at each sign-in, and verifying the return. Metadata and
keys are cached for minutes. An admin's provider must be at a public address, or allowed by a setting."""

import asyncio
import hashlib
import json
import re
import socket
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar, cast
from urllib.parse import quote_plus, urlencode, urlsplit
from uuid import UUID

import httpcore
import httpx
from pydantic import SecretStr

from service.identity_server.signin import id_tokens
from service.platform import base64url
from service.platform.bodies import read_at_most
from service.platform.logs import logger
from service.platform.networks import AddressDenied, AllowedHosts, GuardedTransport, is_confidential, parts_of
from service.platform.settings import Settings
from service.runtime import Runtime

DISCOVERY = "/.well-known/openid-configuration"
CALLBACK = "/api/oauth/upstream/callback"
SCOPE = "openid email profile"
# The longest time for an answer, and its largest size.
SECONDS = 10.0
MOST_BYTES = 1024 * 1024
MOST_KEPT_BYTES = 256 * 1024
# How long metadata and keys are kept. Unknown keys, which anyone can send, are looked up once per pause at most.
KEPT_SECONDS = 300.0
PAUSE_SECONDS = 30.0
# The error codes of a token endpoint (RFC 6749, section 5.2); the log has nothing else of its answers.
ERROR_NAME = re.compile(r"[a-z_]{1,40}", re.ASCII)
KNOWN_METHODS = {"client_secret_basic", "client_secret_post"}
Verified = TypeVar("Verified")
ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri")


class ProviderAway(Exception):  # noqa: N818 - what the provider is
    """The provider can't be reached or used. The message is for its administrators."""


@dataclass(frozen=True)
class Proof:
    """The secrets binding a sign-in to a browser: the PKCE verifier, sent hashed, and the ID token's nonce."""

    verifier: str
    nonce: str


@dataclass(frozen=True)
class Registration:
    """A provider and the service's registration there; `provider_id` is None for the provider of the settings."""

    provider_id: UUID | None
    issuer: str
    client_id: str
    client_secret: SecretStr
    accepted_audiences: Collection[str] = ()


def registration_of(settings: Settings) -> Registration | None:
    if settings.oidc_issuer is None or settings.oidc_client_id is None or settings.oidc_client_secret is None:
        return None
    return Registration(None, settings.oidc_issuer, settings.oidc_client_id, settings.oidc_client_secret)


@dataclass(frozen=True)
class SignedInThere:
    """The person vouched for by the provider, and the ID token as evidence."""

    subject: id_tokens.Subject
    id_token: str


@asynccontextmanager
async def open_provider(registration: Registration, runtime: Runtime) -> "AsyncGenerator[Provider]":
    """Yield a provider; its connections are closed with the context."""
    async with AsyncExitStack() as stack:
        yield Provider(registration, runtime, stack)


class Provider:
    """A provider; connections open on first use, and close with `stack`."""

    def __init__(self, registration: Registration, runtime: Runtime, stack: AsyncExitStack) -> None:
        self._own = registration
        self._is_guarded = registration.provider_id is not None
        self._runtime = runtime
        self._callback = f"{runtime.settings.issuer}{CALLBACK}"
        self._stack = stack
        self._http: httpx.AsyncClient | None = None

    async def _client(self) -> httpx.AsyncClient:
        """Return the HTTP client; for a provider named by an admin, limited to allowed addresses."""
        if self._http is None:
            transport = None
            if self._is_guarded:
                hosts = AllowedHosts.of(self._runtime.settings.webhook_allowed_hosts)
                transport = GuardedTransport(await asyncio.to_thread(hosts.resolve))
            self._http = await self._stack.enter_async_context(httpx.AsyncClient(transport=transport))
        return self._http

    async def sign_in_address(
        self, proof: Proof, *, state: str, prompt: str | None, hint: str | None = None, must_be_new: bool = False
    ) -> str:
        """Return the provider's address for a browser; `hint` is the given address (`login_hint`). With `must_be_new`
        the provider must ask again and return the time (OpenID Connect Core 1.0, section 3.1.2.1). Raises
        ProviderAway."""
        metadata = await self._discover()
        again: Mapping[str, str] = _asking_again(self._own.issuer) if must_be_new else {}
        parameters = {
            "response_type": "code",
            "client_id": self._own.client_id,
            "redirect_uri": self._callback,
            "scope": SCOPE,
            "state": state,
            "nonce": proof.nonce,
            "code_challenge": base64url.encode(hashlib.sha256(proof.verifier.encode()).digest()),
            "code_challenge_method": "S256",
            **({"prompt": prompt} if prompt else {}),
            **again,
            **({"login_hint": hint} if hint else {}),
        }
        return _with_query(metadata["authorization_endpoint"], parameters)

    async def subject(
        self, code: str, proof: Proof, *, issuer: str | None, needs: Collection[Collection[str]] = ()
    ) -> SignedInThere:
        """Exchange a code for an ID token, and return the subject; `issuer` is the response's `iss` (RFC 9207). `needs`
        are sets of claims: if the token has no claim of a set, the claims are read from the UserInfo endpoint, because
        an ID token may name only the subject (OpenID Connect Core 1.0, section 5.4). Raises NotVouched and, without a
        response, ProviderAway."""
        begun = time.monotonic()
        metadata = await self._discover()
        if issuer is None and metadata.get("authorization_response_iss_parameter_supported") is True:
            raise _log_not_vouched("issuer")
        tokens = await self._exchange(metadata, code, verifier=proof.verifier)
        id_token: object = tokens.get("id_token")
        expected = id_tokens.Expected(self._own.issuer, self._own.client_id, proof.nonce, self._own.accepted_audiences)
        try:
            subject = await self._verify(lambda keys: id_tokens.subject_of(id_token, keys, expected), again_since=begun)
        except id_tokens.NotVouched as exc:
            logger.warning("upstream_refused", reason=exc.reason)
            raise
        if not all(any(id_tokens.names_claim(subject.claims, claim) for claim in need) for need in needs):
            subject = subject.complete_by(await self._user_info(metadata, tokens))
        return SignedInThere(subject, str(id_token))

    async def _user_info(self, metadata: Mapping[str, Any], tokens: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a person's claims; empty without a safe endpoint or an access token. Raises ProviderAway."""
        endpoint, token = metadata.get("userinfo_endpoint"), tokens.get("access_token")
        if not isinstance(endpoint, str) or not self._is_safe(endpoint) or not isinstance(token, str):
            return {}

        def authorize(request: httpx.Request) -> httpx.Request:
            request.headers["Authorization"] = f"Bearer {token}"
            return request

        return await self._ask_json("GET", endpoint, auth=authorize)

    async def logout_claims(self, logout_token: str) -> Mapping[str, Any]:
        """Return the claims of a logout token signed by the provider. Raises NotVouched and ProviderAway."""
        expected = id_tokens.Expected(self._own.issuer, self._own.client_id)
        return await self._verify(
            lambda keys: id_tokens.signed_claims(logout_token, keys, expected, essential=("jti", "events")),
            again_since=time.monotonic() - PAUSE_SECONDS,
        )

    async def _verify(self, verify: Callable[[Mapping[str, Any]], Verified], *, again_since: float) -> Verified:
        """Call `verify` with cached keys or, if none fit, newer than `again_since`. Raises NotVouched, ProviderAway."""
        try:
            return verify(await self._keys())
        except id_tokens.NotVouched as exc:
            if exc.reason != "signature":
                raise
        return verify(await self._keys(since=again_since))

    async def sign_out_address(self, *, back_to: str, id_token: str | None) -> str | None:
        """Return the provider's sign-out address (RP-Initiated Logout 1.0), or None. Raises ProviderAway."""
        endpoint = (await self._discover()).get("end_session_endpoint")
        if not isinstance(endpoint, str) or not self._is_safe(endpoint):
            return None
        parameters = {"client_id": self._own.client_id, "post_logout_redirect_uri": back_to}
        return _with_query(endpoint, parameters | ({"id_token_hint": id_token} if id_token else {}))

    async def problems(self, *, needs_sign_out: bool) -> list[str]:
        """Read the metadata and keys anew, and send a test code; return what to repair, empty if nothing."""
        try:
            begun = time.monotonic()
            metadata, keys = await self._discover(since=begun), await self._keys(since=begun)
        except ProviderAway as exc:
            return [str(exc)]
        found = [] if any(id_tokens.usable_keys(keys)) else ["It publishes no key to verify tokens with."]
        algorithms: object = metadata.get("id_token_signing_alg_values_supported")
        if isinstance(algorithms, list) and not {*id_tokens.ALGORITHMS} & {
            str(algorithm) for algorithm in cast("list[object]", algorithms)
        }:
            found.append("It must sign tokens with RS256, ES256 or another accepted algorithm.")
        methods: object = metadata.get("token_endpoint_auth_methods_supported")
        if isinstance(methods, list) and not KNOWN_METHODS & {*map(str, cast("list[object]", methods))}:
            found.append("It must accept client secrets by client_secret_basic or client_secret_post.")
        if needs_sign_out and not metadata.get("end_session_endpoint"):
            found.append("It has no sign-out address (end_session_endpoint): people are signed out only here.")
        try:
            await self._exchange(metadata, "test", verifier="t" * 43)
        except id_tokens.NotVouched as exc:
            found += ["It refused the client id and secret."] if exc.reason == "invalid_client" else []
        except ProviderAway as exc:
            found.append(f"Its token endpoint can't be used. {exc}")
        return found

    async def _exchange(self, metadata: Mapping[str, Any], code: str, *, verifier: str) -> Mapping[str, Any]:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._callback,
            "code_verifier": verifier,
        }
        client_id, secret = self._own.client_id, self._own.client_secret.get_secret_value()
        methods: object = metadata.get("token_endpoint_auth_methods_supported")
        if isinstance(methods, list) and "client_secret_post" in methods and "client_secret_basic" not in methods:
            form |= {"client_id": client_id, "client_secret": secret}
            return await self._ask_json("POST", metadata["token_endpoint"], data=form)
        # RFC 6749, section 2.3.1
        auth = (quote_plus(client_id), quote_plus(secret))
        return await self._ask_json("POST", metadata["token_endpoint"], data=form, auth=auth)

    async def _discover(self, *, since: float | None = None) -> Mapping[str, Any]:
        """Return the provider's metadata, cached unless older than `since`. Raises ProviderAway."""
        return await self._cache("metadata", self._read_metadata, since)

    async def _keys(self, *, since: float | None = None) -> Mapping[str, Any]:
        """Return the provider's keys, cached unless older than `since`. Raises ProviderAway."""
        address = (await self._discover(since=since))["jwks_uri"]
        return await self._cache(address, lambda: self._ask_json("GET", address, most_bytes=MOST_KEPT_BYTES), since)

    async def _cache(
        self, name: str, ask: Callable[[], Awaitable[Mapping[str, Any]]], since: float | None
    ) -> Mapping[str, Any]:
        # Answers over guarded connections and others are kept apart.
        named = (self._is_guarded, self._own.issuer, name)
        since = time.monotonic() - KEPT_SECONDS if since is None else since
        return await self._runtime.kept.get(named, ask, since=since, errors=ProviderAway)

    async def _read_metadata(self) -> Mapping[str, Any]:
        metadata = await self._ask_json("GET", self._own.issuer.rstrip("/") + DISCOVERY, most_bytes=MOST_KEPT_BYTES)
        if metadata.get("issuer") != self._own.issuer:
            raise _log_away("issuer", "Its metadata has another issuer. Enter the issuer exactly as in the metadata.")
        for name in ENDPOINTS:
            if not self._is_safe(metadata.get(name)):
                raise _log_away("metadata", f"Its metadata has no https address for {name}.")
        return metadata

    def _is_safe(self, endpoint: object) -> bool:
        """Whether an endpoint may be called: over HTTPS, or on this machine if the issuer is on this machine too."""
        parts = parts_of(endpoint) if isinstance(endpoint, str) else None
        if parts is None or not is_confidential(parts.geturl()):
            return False
        return parts.scheme == "https" or self._own.issuer.startswith("http:")

    async def _ask_json(
        self, method: str, address: str, *, most_bytes: int = MOST_BYTES, **options: Any
    ) -> Mapping[str, Any]:
        """Return the JSON object of an answer. Raises ProviderAway, and NotVouched for a POST refused by 400 or 401."""
        try:
            async with asyncio.timeout(SECONDS):
                status, content = await self._answer(method, address, most_bytes=most_bytes, **options)
            answer: object = json.loads(content)
        except AddressDenied as exc:
            raise _log_away("denied", str(exc)) from exc
        except (TimeoutError, httpx.TimeoutException, httpcore.TimeoutException) as exc:
            raise _log_away("timeout", f"It did not answer within {SECONDS:.0f} seconds.") from exc
        except socket.gaierror as exc:
            raise _log_away("name", "Its host is unknown. Check the issuer's address.") from exc
        except (httpx.HTTPError, httpx.InvalidURL, httpcore.NetworkError, httpcore.ProtocolError, OSError) as exc:
            raise _log_away(type(exc).__name__, "It does not answer, or its certificate is not trusted.") from exc
        except (ValueError, RecursionError) as exc:
            raise _log_away(type(exc).__name__, "Its answer is not JSON. Check the issuer's address.") from exc
        if not isinstance(answer, dict):
            raise _log_away("answer", "Its answer is not a JSON object. Check the issuer's address.")
        found = cast("Mapping[str, Any]", answer)
        if method == "POST" and status in {400, 401}:
            raise _log_not_vouched(str(found.get("error")))
        if status != 200:
            raise _log_away(str(status), f"It answered with status {status}. Check the issuer's address.")
        return found

    async def _answer(self, method: str, address: str, *, most_bytes: int, **options: Any) -> tuple[int, bytes]:
        """Return a response's status and encoded bytes, to know the size early. Raises ProviderAway if too large."""
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        http = await self._client()
        async with http.stream(method, address, headers=headers, timeout=SECONDS, **options) as response:
            content = await read_at_most(response.aiter_raw(), most_bytes=most_bytes)
        if content is None:
            raise _log_away("too large", "Its answer is too large.")
        return response.status_code, content


def _asking_again(issuer: str) -> Mapping[str, str]:
    """Return the parameters that make a provider ask a person again and return the time. Entra ends a token `max_age`
    seconds after the password (issue 444 of AzureAD/microsoft-authentication-library-for-python), so it gets `prompt`.
    Google never asks again and has no `login`; `claims` requests the sign-in time (its "Security bundle")."""
    host = urlsplit(issuer).hostname
    if host in id_tokens.ENTRA_HOSTS:
        return {"prompt": "login", "max_age": "900"}
    if host == id_tokens.GOOGLE_HOST:
        return {"prompt": "select_account", "claims": '{"id_token": {"auth_time": {"essential": true}}}'}
    return {"prompt": "login", "max_age": "0"}


def _with_query(endpoint: str, parameters: Mapping[str, str]) -> str:
    return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(parameters)}"


def _log_away(reason: str, message: str) -> ProviderAway:
    logger.warning("upstream_unavailable", reason=reason)
    return ProviderAway(message)


def _log_not_vouched(reason: str) -> id_tokens.NotVouched:
    logger.warning("upstream_refused", reason=reason if ERROR_NAME.fullmatch(reason) else "unknown")
    return id_tokens.NotVouched(reason if reason in id_tokens.REASONS else "code")
