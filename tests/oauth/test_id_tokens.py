"""What makes an ID token, and a key, somebody's word: verified alone, without a provider that is asked."""

import json
import time

import pytest
from joserfc import jws
from joserfc.jwk import RSAKey

from service.identity_server.signin.id_tokens import Expected, NotVouched, Subject, subject_of
from tests.harness.cases import cases
from tests.oauth.provider import CLIENT_ID, OpenIdProvider

KEY, OTHER_KEY = (RSAKey.generate_key(2048, {"kid": "one"}) for _ in range(2))
PUBLIC = KEY.as_dict(private=False)
ISSUER = "https://people.test"


def claims(**changes) -> dict:
    """What a right token says, with these changes; a claim that is None is left out."""
    now = int(time.time())
    right = {"iss": ISSUER, "aud": CLIENT_ID, "iat": now, "exp": now + 60, "nonce": "n", "sub": "ada"}
    return {name: value for name, value in (right | changes).items() if value is not None}


def signed(content: object, **header: str) -> str:
    """Any content, signed with the right key, which need not be named."""
    protected = {"alg": "RS256", "kid": "one"} | header
    named = {name: value for name, value in protected.items() if value}
    return jws.serialize_compact(named, json.dumps(content).encode(), KEY, algorithms=["RS256"])


def read(token: str, *keys: object) -> Subject:
    return subject_of(token, {"keys": list(keys) or [PUBLIC]}, Expected(ISSUER, CLIENT_ID, "n"))


WRONG: list[tuple[str, str, list]] = [
    ("aud", "audience", ["another", ["another"], [CLIENT_ID, "another"], [CLIENT_ID, CLIENT_ID], {CLIENT_ID: 1}, None]),
    ("azp", "audience", ["another", [CLIENT_ID]]),
    ("nonce", "nonce", ["another", None, "\ud800", ["n"]]),
    ("iss", "issuer", ["https://evil.test", None]),
    ("exp", "expired", [946_684_800]),
    ("exp", "claims", [None, "tomorrow", float("inf")]),
    ("iat", "claims", [None]),
    ("sub", "claims", [None, "ada\0", "ada\ud800", "a" * 256, "", ["ada"], 7]),
]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        *(({name: value}, reason) for name, reason, values in WRONG for value in values),
        (["no", "claims"], "claims"),
        ("text", "claims"),
    ],
    ids=[*(f"{name} {number}" for name, _, values in WRONG for number in range(len(values))), "a list", "a text"],
)
def test_a_token_that_does_not_say_what_it_must_is_refused_with_its_reason(content: object, reason: str) -> None:
    """OpenID Connect Core 1.0, section 3.1.3.7; each reason has its own words. A right token is taken."""
    assert read(signed(claims())).subject == "ada"
    with pytest.raises(NotVouched) as refused:
        read(signed(claims(**content) if isinstance(content, dict) else content))
    assert refused.value.reason == reason


@pytest.mark.parametrize(
    ("how", "reason"), [("none", "algorithm"), ("HS256", "algorithm"), ("another key", "signature")]
)
def test_a_token_that_the_provider_did_not_sign_is_refused(how: str, reason: str) -> None:
    provider = OpenIdProvider(issuer=ISSUER, key=KEY)
    if how == "another key":
        provider.signing_key = OTHER_KEY
    else:
        provider.algorithm = how
    with pytest.raises(NotVouched) as refused:
        read(provider.signed(claims()))
    assert refused.value.reason == reason


@pytest.mark.parametrize(
    "keys",
    [
        *cases("keys_that_are_none_vouch_for_nobody"),
        {"keys": [PUBLIC | {"kid": "two"}]},
        {"keys": [PUBLIC | {"use": "enc"}]},
    ],
)
def test_keys_that_are_none_vouch_for_nobody(keys: dict) -> None:
    """Nor does one of another id, or one for encryption (RFC 7517, section 4.2)."""
    with pytest.raises(NotVouched, match="signature"):
        subject_of(signed(claims()), keys, Expected(ISSUER, CLIENT_ID, "n"))


def test_keys_that_are_not_understood_are_passed_over() -> None:
    """RFC 7517, section 5: beside them the right one is found."""
    odd = [{"kty": "XX"}, {"kty": "EC", "crv": "weird", "kid": "two"}, {"kty": "OKP", "crv": "Ed448", "x": "AQ"}, 1]
    assert read(signed(claims()), *odd, PUBLIC).subject == "ada"


def test_a_token_signed_by_a_key_of_no_name_needs_it_to_be_the_only_one() -> None:
    """OpenID Connect Core 1.0, section 10.1: among several keys a token names its own."""
    nameless = signed(claims(), kid="")
    assert read(nameless).subject == "ada"
    with pytest.raises(NotVouched, match="signature"):
        read(nameless, PUBLIC, OTHER_KEY.as_dict(private=False) | {"kid": "two"})
