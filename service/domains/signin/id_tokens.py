"""Verifying ID tokens (OpenID Connect Core 1.0, section 3.1.3.7).

Nothing that a provider sends is trusted: a token or key that can't be read is refused like a wrong one.
"""

import hmac
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard, cast

from joserfc import jwt
from joserfc.jwk import Key, KeySet, import_key

# Signatures by a key pair alone: with a shared secret, or none, whoever has the client's secret could sign.
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519")
KEY_TYPES = frozenset({"RSA", "EC", "OKP"})
LEEWAY_SECONDS = 60
LONGEST_SUBJECT = 255
LONGEST_EMAIL = 320


class NotVouched(Exception):  # noqa: N818 - what the person is
    """The token doesn't prove who is signing in."""


@dataclass(frozen=True)
class Subject:
    """A person's identity at the provider; `email` only when the provider has verified it."""

    issuer: str
    subject: str
    email: str | None


@dataclass(frozen=True)
class Expected:
    """The issuer, audience and nonce that a token must have."""

    issuer: str
    client_id: str
    nonce: str


def subject_of(id_token: object, keys: Mapping[str, Any], expected: Expected) -> Subject:
    """Verify an ID token with the provider's keys, and return its subject. Raises NotVouched with the reason."""
    claims = _signed_claims(id_token, keys, expected)
    nonce: object = claims.get("nonce")
    if not _is_text(nonce, longest=len(expected.nonce)) or not hmac.compare_digest(nonce, expected.nonce):
        raise NotVouched("nonce")
    # A token that others get as well says nothing about who brings it (section 3.1.3.7, no. 3).
    if claims["aud"] not in (expected.client_id, [expected.client_id]):
        raise NotVouched("aud")
    if claims.get("azp", expected.client_id) != expected.client_id:
        raise NotVouched("azp")
    subject: object = claims["sub"]
    if not _is_text(subject, longest=LONGEST_SUBJECT):
        raise NotVouched("sub")
    return Subject(expected.issuer, subject, _verified_email(claims))


def _verified_email(claims: Mapping[str, Any]) -> str | None:
    email: object = claims.get("email")
    if claims.get("email_verified") is not True or not isinstance(email, str):
        return None
    return email if email.isprintable() and len(email) <= LONGEST_EMAIL else None


def _signed_claims(id_token: object, keys: Mapping[str, Any], expected: Expected) -> Mapping[str, Any]:
    registry = jwt.JWTClaimsRegistry(
        leeway=LEEWAY_SECONDS,
        iss={"essential": True, "value": expected.issuer},
        aud={"essential": True},
        sub={"essential": True},
        exp={"essential": True},
        iat={"essential": True},
    )
    try:
        token = jwt.decode(str(id_token), KeySet(list(_usable(keys))), algorithms=ALGORITHMS)
        registry.validate(token.claims)
    except Exception as exc:  # on hostile input the library's parts raise whatever they do
        raise NotVouched(type(exc).__name__) from exc
    return token.claims


def _usable(keys: Mapping[str, Any]) -> Iterator[Key]:
    """Yield the keys that can be read; others beside them do no harm (RFC 7517, section 5)."""
    given = keys.get("keys")
    for key in cast("list[Any]", given) if isinstance(given, list) else []:
        try:
            if key["kty"] in KEY_TYPES:
                yield import_key(key)
        except Exception:  # noqa: BLE001, S112 - likewise
            continue


def _is_text(value: object, *, longest: int) -> TypeGuard[str]:
    return isinstance(value, str) and 0 < len(value) <= longest and value.isascii() and value.isprintable()
