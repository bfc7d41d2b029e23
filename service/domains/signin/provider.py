"""The upstream OpenID Connect provider: sending people to it, and verifying who comes back.

The provider's metadata, its keys, and the person are read again for each sign-in (OpenID Connect Core 1.0).
"""

import asyncio
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urlencode

import httpx

from service.domains.signin.id_tokens import Expected, NotVouched, Subject, subject_of
from service.platform import base64url
from service.platform.addresses import is_confidential, parts_of
from service.platform.errors import BadRequest, Unavailable
from service.platform.logs import logger
from service.platform.settings import Settings

DISCOVERY = "/.well-known/openid-configuration"
SCOPE = "openid email profile"
# How long one answer may take in all, and how large it may be.
SECONDS = 10.0
MOST_BYTES = 1024 * 1024
# What an error of a token endpoint is called (RFC 6749, section 5.2); nothing else of it is logged.
ERROR_NAME = re.compile(r"[a-z_]{1,40}", re.ASCII)


@dataclass(frozen=True)
class Proof:
    """The secrets that bind a sign-in to a browser: PKCE's verifier, sent hashed, and the nonce of the ID token."""

    verifier: str
    nonce: str


class Provider:
    """The provider named in the settings; the caller closes the HTTP client."""

    def __init__(self, settings: Settings, http: httpx.AsyncClient) -> None:
        if settings.oidc_issuer is None or settings.oidc_client_id is None or settings.oidc_client_secret is None:
            raise BadRequest("Nobody signs in with another provider here.", code="no_upstream_provider")
        self._issuer = settings.oidc_issuer
        self._client_id = settings.oidc_client_id
        self._client_secret = settings.oidc_client_secret
        self._callback = f"{settings.issuer}/api/oauth/upstream/callback"
        self._http = http

    async def sign_in_address(self, proof: Proof, *, state: str, prompt: str | None) -> str:
        """Return the provider's address to redirect a browser to, with this state and proof."""
        metadata = await self._discover()
        parameters = {
            "response_type": "code",
            "client_id": self._client_id,
            "redirect_uri": self._callback,
            "scope": SCOPE,
            "state": state,
            "nonce": proof.nonce,
            "code_challenge": base64url.encode(hashlib.sha256(proof.verifier.encode()).digest()),
            "code_challenge_method": "S256",
            **({"prompt": prompt} if prompt else {}),
        }
        endpoint = metadata["authorization_endpoint"]
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(parameters)}"

    async def subject(self, code: str, proof: Proof, *, issuer: str | None) -> Subject:
        """Exchange a code for an ID token and return its subject; `issuer` is the response's `iss` (RFC 9207).

        Raises BadRequest when the provider doesn't vouch for anybody, Unavailable when it doesn't answer.
        """
        metadata = await self._discover()
        if issuer is None and metadata.get("authorization_response_iss_parameter_supported") is True:
            raise _not_vouched("iss")
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._callback,
            "code_verifier": proof.verifier,
        }
        secret = self._client_secret.get_secret_value()
        tokens = await self._json("POST", metadata["token_endpoint"], data=form, auth=(self._client_id, secret))
        keys = await self._json("GET", metadata["jwks_uri"])
        try:
            return subject_of(tokens.get("id_token"), keys, Expected(self._issuer, self._client_id, proof.nonce))
        except NotVouched as exc:
            raise _not_vouched(str(exc)) from exc

    async def _discover(self) -> Mapping[str, Any]:
        metadata = await self._json("GET", self._issuer.rstrip("/") + DISCOVERY)
        endpoints = [metadata.get(name) for name in ("authorization_endpoint", "token_endpoint", "jwks_uri")]
        if metadata.get("issuer") != self._issuer or not all(self._is_safe(endpoint) for endpoint in endpoints):
            raise _unavailable("metadata")
        return metadata

    def _is_safe(self, endpoint: object) -> bool:
        """Return whether an endpoint may be called: over HTTPS, or on this machine if the issuer is on this machine."""
        parts = parts_of(endpoint) if isinstance(endpoint, str) else None
        if parts is None or not is_confidential(parts.geturl()):
            return False
        return parts.scheme == "https" or self._issuer.startswith("http:")

    async def _json(self, method: str, address: str, **options: Any) -> Mapping[str, Any]:
        try:
            async with asyncio.timeout(SECONDS):
                status, content = await self._answer(method, address, **options)
            answer: object = json.loads(content)
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, ValueError, RecursionError) as exc:
            raise _unavailable(type(exc).__name__) from exc
        if not isinstance(answer, dict):
            raise _unavailable("answer")
        found = cast("Mapping[str, Any]", answer)
        if method == "POST" and status in {400, 401}:
            raise _not_vouched(str(found.get("error")))
        if status != 200:
            raise _unavailable(str(status))
        return found

    async def _answer(self, method: str, address: str, **options: Any) -> tuple[int, bytes]:
        """Return the status and the bytes of a response, not unpacked, because unpacked its size is known too late."""
        content = bytearray()
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        async with self._http.stream(method, address, headers=headers, timeout=SECONDS, **options) as response:
            async for piece in response.aiter_raw():
                content += piece
                if len(content) > MOST_BYTES:
                    raise _unavailable("too large")
        return response.status_code, bytes(content)


def _unavailable(reason: str) -> Unavailable:
    logger.warning("upstream_unavailable", reason=reason)
    return Unavailable(
        "The provider you sign in with can't be reached just now. Try again, or use your password here.",
        code="upstream_unavailable",
    )


def _not_vouched(reason: str) -> BadRequest:
    logger.warning("upstream_refused", reason=reason if ERROR_NAME.fullmatch(reason.lower()) else "unknown")
    return BadRequest(
        "The provider you signed in with doesn't confirm who you are. Go back and try again.", code="upstream_refused"
    )
