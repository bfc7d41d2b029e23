"""The upstream OpenID Connect provider: where to send people, and what it says of those who come back.

Everything is asked anew for each sign-in: what the provider is, its keys, and who somebody is (OpenID Connect Core 1.0,
sections 3.1.2 and 3.1.3; Discovery 1.0, section 4).
"""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urlencode, urlsplit

import httpx
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from service import base64url
from service.errors import BadRequest, Unavailable
from service.settings import Settings

DISCOVERY = "/.well-known/openid-configuration"
SCOPE = "openid email profile"
SECONDS = 10.0
# Signatures by a key pair alone: with a shared secret, or none, whoever has the client's secret could sign.
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519")
LEEWAY_SECONDS = 60
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True)
class Proof:
    """What ties one sign-in to one browser: PKCE's verifier and the nonce, sent hidden and compared on return."""

    verifier: str
    nonce: str


@dataclass(frozen=True)
class Subject:
    """Who somebody is to the provider; `email` only when the provider has verified it."""

    issuer: str
    subject: str
    email: str | None


class Provider:
    """The provider of the settings, asked over a client that is the caller's to close."""

    def __init__(self, settings: Settings, http: httpx.AsyncClient) -> None:
        if settings.oidc_issuer is None or settings.oidc_client_id is None or settings.oidc_client_secret is None:
            raise BadRequest("Nobody signs in with another provider here.", code="no_upstream_provider")
        self._issuer = settings.oidc_issuer
        self._client_id = settings.oidc_client_id
        self._client_secret = settings.oidc_client_secret
        self._callback = f"{settings.issuer}/api/oauth/upstream/callback"
        self._http = http

    async def sign_in_address(self, proof: Proof, *, state: str, prompt: str | None) -> str:
        """Where to send a browser to."""
        metadata = await self._discover()
        parameters = {
            "response_type": "code",
            "client_id": self._client_id,
            "redirect_uri": self._callback,
            "scope": SCOPE,
            "state": state,
            "nonce": proof.nonce,
            "code_challenge": _challenge(proof.verifier),
            "code_challenge_method": "S256",
            **({"prompt": prompt} if prompt else {}),
        }
        endpoint = metadata["authorization_endpoint"]
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(parameters)}"

    async def subject(self, code: str, proof: Proof) -> Subject:
        """Who came back with this code. Raises BadRequest when the provider doesn't vouch for anybody."""
        metadata = await self._discover()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._callback,
            "code_verifier": proof.verifier,
        }
        secret = self._client_secret.get_secret_value()
        tokens = await self._json("POST", metadata["token_endpoint"], data=form, auth=(self._client_id, secret))
        keys = await self._json("GET", metadata["jwks_uri"])
        return self._verified(tokens.get("id_token"), keys, nonce=proof.nonce)

    async def _discover(self) -> Mapping[str, Any]:
        metadata = await self._json("GET", self._issuer.rstrip("/") + DISCOVERY)
        endpoints = [metadata.get(name) for name in ("authorization_endpoint", "token_endpoint", "jwks_uri")]
        if metadata.get("issuer") != self._issuer or not all(_is_safe(endpoint) for endpoint in endpoints):
            raise _away()
        return metadata

    async def _json(self, method: str, address: str, **options: Any) -> Mapping[str, Any]:
        try:
            response = await self._http.request(method, address, timeout=SECONDS, **options)
            content: object = response.json()
        except (httpx.HTTPError, ValueError) as exc:
            raise _away() from exc
        if response.status_code in {400, 401}:
            raise _not_vouched()
        if response.status_code != 200 or not isinstance(content, dict):
            raise _away()
        return cast("Mapping[str, Any]", content)

    def _verified(self, id_token: object, keys: Mapping[str, Any], *, nonce: str) -> Subject:
        """Judge an ID token (OpenID Connect Core 1.0, section 3.1.3.7)."""
        registry = jwt.JWTClaimsRegistry(
            leeway=LEEWAY_SECONDS,
            iss={"essential": True, "value": self._issuer},
            aud={"essential": True, "value": self._client_id},
            sub={"essential": True},
            exp={"essential": True},
            iat={"essential": True},
        )
        try:
            token = jwt.decode(str(id_token), KeySet.import_key_set(cast("Any", keys)), algorithms=ALGORITHMS)
            registry.validate(token.claims)
        except (JoseError, ValueError, KeyError, TypeError) as exc:
            raise _not_vouched() from exc
        claims = token.claims
        if not hmac.compare_digest(str(claims.get("nonce", "")).encode(), nonce.encode()):
            raise _not_vouched()
        if claims.get("azp", self._client_id) != self._client_id:
            raise _not_vouched()
        email = claims.get("email") if claims.get("email_verified") is True else None
        return Subject(self._issuer, str(claims["sub"]), email if isinstance(email, str) else None)


def _challenge(verifier: str) -> str:
    return base64url.written(hashlib.sha256(verifier.encode()).digest())


def _is_safe(endpoint: object) -> bool:
    parts = urlsplit(endpoint) if isinstance(endpoint, str) else urlsplit("")
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK)


def _away() -> Unavailable:
    return Unavailable(
        "The provider you sign in with can't be reached just now. Try again, or use your password here.",
        code="upstream_unavailable",
    )


def _not_vouched() -> BadRequest:
    return BadRequest(
        "The provider you signed in with doesn't confirm who you are. Go back and try again.", code="upstream_refused"
    )
