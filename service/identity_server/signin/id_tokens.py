"""Verify ID tokens (OpenID Connect Core 1.0, section 3.1.3.7). Unreadable tokens and keys are refused as wrong."""

import hmac
import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Self, TypeGuard, cast
from uuid import UUID

from joserfc import errors, jws, jwt
from joserfc.jwk import Key, KeySet, import_key

# Only key pairs: with a shared secret or no signature, holders of the client's secret could sign tokens.
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519")
KEY_TYPES = frozenset({"RSA", "EC", "OKP"})
LEEWAY_SECONDS = 60
LONGEST_SUBJECT = 255
LONGEST_EMAIL = 320
LAST_TIME = 1 << 34
# Issuers of Microsoft Entra, whose tokens have a special form.
ENTRA_HOSTS = frozenset(
    {
        "login.microsoftonline.com",
        "login.microsoftonline.us",
        "login.partner.microsoftonline.cn",
        "login.windows.net",
        "sts.windows.net",
    }
)
GOOGLE_HOST = "accounts.google.com"
# Claims that a UserInfo endpoint lacks: time and session of a sign-in, and other owners of an account.
ONLY_OF_TOKENS = frozenset({"auth_time", "hd", "oid", "sid"})


# The problem with a token or a sign-in, for people: "The provider … doesn't confirm who you are: ".
REASONS: Mapping[str, str] = {
    "audience": "its token is meant for another application",
    "nonce": "its token belongs to another sign-in, or was already used",
    "issuer": "its token was issued by another provider",
    "expired": "its token has expired, or its clock is wrong",
    "algorithm": "its token is not signed, or signed in a way that is not accepted",
    "signature": "its token is not signed with a key that the provider publishes",
    "claims": "its token lacks required claims, or can't be read",
    "invalid_client": "it refused the client id and secret that Carrel has",
    "invalid_grant": "it refused the code of the sign-in, which was already used or is too old",
    "auth_time": (
        "it doesn't send the time of your sign-in (auth_time), which is needed to confirm that it is you. Ask an "
        "admin, or sign in with a Carrel password"
    ),
    "old_sign_in": "it didn't ask you to sign in again, which is needed to confirm that it is you",
    "code": "it sent no token for the sign-in",
}


class NotVouched(Exception):  # noqa: N818 - what the person is
    """The provider doesn't vouch for the person, or may not: `reason` is a stable code, `audience` a wrong audience."""

    def __init__(self, reason: str, *, principal_id: UUID | None = None, audience: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.audience = audience
        self.principal_id = principal_id
        self.organization_id: UUID | None = None


@dataclass(frozen=True)
class Subject:
    """A person's identity in a provider's verified token; `is_verified`: the token calls the address verified."""

    issuer: str
    subject: str
    email: str | None
    is_verified: bool
    claims: Mapping[str, Any] = field(repr=False)

    @classmethod
    def of(cls, issuer: str, claims: Mapping[str, Any]) -> Self:
        """Return the identity named by the claims. Raises NotVouched when they name none."""
        subject = text_of(claims, "sub")
        if subject is None:
            raise NotVouched("claims")
        email: object = claims.get("email")
        if not isinstance(email, str) or not email.isprintable() or len(email) > LONGEST_EMAIL:
            email = None
        verified: object = claims.get("email_verified")
        return cls(issuer, subject, email, verified is True or verified == "true", claims)

    def complete_by(self, user_info: Mapping[str, Any]) -> Self:
        """Return the identity with additions from a UserInfo endpoint; the token takes precedence (section 5.3.2).
        Another subject's data and another address's verification are ignored; the sign-in time stays the token's."""
        if user_info.get("sub") != self.subject:
            return self
        own = {*ONLY_OF_TOKENS, *(("email_verified",) if "email" in self.claims else ())}
        added = {name: value for name, value in user_info.items() if name not in own}
        return type(self).of(self.issuer, {**added, **self.claims})

    def proven_at(self, now: datetime, *, not_before: datetime | None) -> datetime | None:
        """Return the time of the person's proof of identity (`auth_time`), if any. With `not_before` the time is
        required and must not be earlier (section 3.1.3.7, no. 13). Raises NotVouched `auth_time` or `old_sign_in`."""
        said: object = self.claims.get("auth_time")
        stamp = said if isinstance(said, int | float) and not isinstance(said, bool) else None
        # Ignore a time that is not valid; a future time counts as now.
        proven = None if stamp is None or not 0 <= stamp < LAST_TIME else datetime.fromtimestamp(stamp, UTC)
        if not_before is not None and proven is None:
            raise NotVouched("auth_time")
        if not_before is not None and proven is not None and proven < not_before - timedelta(seconds=LEEWAY_SECONDS):
            raise NotVouched("old_sign_in")
        return None if proven is None else min(proven, now)


@dataclass(frozen=True)
class Expected:
    """The issuer, audience and nonce required in a token, and the additional audiences allowed."""

    issuer: str
    client_id: str
    nonce: str = ""
    accepted_audiences: Collection[str] = ()


def subject_of(id_token: object, keys: Mapping[str, Any], expected: Expected) -> Subject:
    """Verify an ID token with the provider's keys, and return its subject. Raises NotVouched."""
    claims = signed_claims(id_token, keys, expected)
    nonce: object = claims.get("nonce")
    if not _is_printable_ascii(nonce, longest=len(expected.nonce)) or not hmac.compare_digest(nonce, expected.nonce):
        raise NotVouched("nonce")
    # A token for several audiences doesn't prove who sent it, unless an admin allows the audiences and the token was
    # issued to this client (section 3.1.3.7, no. 3 to 5).
    said: object = claims["aud"]
    audiences = cast("list[object]", said) if isinstance(said, list) else [said]
    others = [item for item in audiences if item != expected.client_id and item not in expected.accepted_audiences]
    if others or expected.client_id not in audiences:
        raise NotVouched("audience", audience=", ".join(map(str, others or audiences)))
    if claims.get("azp", expected.client_id if len(audiences) == 1 else None) != expected.client_id:
        raise NotVouched("audience", audience=f"azp {claims.get('azp')}")
    return Subject.of(expected.issuer, claims)


def names_claim(claims: Mapping[str, Any], name: str) -> bool:
    """Return whether a token has a claim, or reports the claim as left out (Entra's groups)."""
    return name in claims or is_named_elsewhere(claims, name)


def is_named_elsewhere(claims: Mapping[str, Any], name: str) -> bool:
    """Return whether a token has a link instead of a claim (section 5.6.2)."""
    elsewhere: object = claims.get("_claim_names")
    return isinstance(elsewhere, dict) and name in elsewhere


def text_of(claims: Mapping[str, Any], name: str) -> str | None:
    """Return an identifying claim; None when absent or unusable as text."""
    value: object = claims.get(name)
    return value if _is_printable_ascii(value, longest=LONGEST_SUBJECT) else None


def signed_claims(
    token: object, keys: Mapping[str, Any], expected: Expected, *, essential: Collection[str] = ("sub", "exp")
) -> Mapping[str, Any]:
    """Return a token's claims after checks of signature, audience, time and `essential` claims. Raises NotVouched."""
    options: dict[str, Any] = {name: {"essential": True} for name in ("aud", "iat", *essential)}
    options["iss"] = {"essential": True, "value": expected.issuer}
    registry = jwt.JWTClaimsRegistry(leeway=LEEWAY_SECONDS, **options)
    try:
        decoded = jwt.decode(str(token), KeySet(list(usable_keys(keys))), algorithms=ALGORITHMS)
        registry.validate(decoded.claims)
    except Exception as exc:  # on hostile input the library may raise anything
        raise NotVouched(_reason_of(exc)) from exc
    return decoded.claims


def claims_before_verifying(token: str) -> Mapping[str, Any]:
    """Return unverified claims, to refuse bad tokens before fetching keys. Raises NotVouched `algorithm`, `claims`."""
    try:
        signed = jws.extract_compact(token.encode())
        claims: object = json.loads(signed.payload)
        algorithm = signed.headers().get("alg")
    except Exception as exc:  # likewise
        raise NotVouched("claims") from exc
    if algorithm not in ALGORITHMS:
        raise NotVouched("algorithm")
    if not isinstance(claims, dict):
        raise NotVouched("claims")
    return cast("Mapping[str, Any]", claims)


def _reason_of(error: Exception) -> str:
    if isinstance(error, errors.ExpiredTokenError):
        return "expired"
    if isinstance(error, errors.ClaimError):
        return {"iss": "issuer", "aud": "audience"}.get(str(error.claim), "claims")
    if isinstance(error, errors.UnsupportedAlgorithmError | errors.MissingAlgorithmError):
        return "algorithm"
    return "claims" if isinstance(error, errors.DecodeError | errors.InvalidPayloadError) else "signature"


def usable_keys(keys: Mapping[str, Any]) -> Iterator[Key]:
    """Yield the readable keys; unreadable keys among them are skipped (RFC 7517, section 5)."""
    given = keys.get("keys")
    for key in cast("list[Any]", given) if isinstance(given, list) else []:
        try:
            if key["kty"] in KEY_TYPES:
                yield import_key(key)
        except Exception:  # noqa: BLE001, S112 - likewise
            continue


def _is_printable_ascii(value: object, *, longest: int) -> TypeGuard[str]:
    return isinstance(value, str) and 0 < len(value) <= longest and value.isascii() and value.isprintable()
