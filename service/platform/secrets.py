"""Credentials: a prefix, 32 random base-62 characters (190 bits) and CRC-32 of both (6), stored as SHA-256."""

import hashlib
import secrets
import string
import zlib
from dataclasses import dataclass
from typing import Literal, get_args

from pydantic import SecretStr

Prefix = Literal[
    "svc_key_", "svc_sa_", "svc_at_", "svc_mt_", "svc_rt_", "svc_ac_", "svc_cs_", "svc_ss_", "svc_iv_", "svc_sc_"
]

API_KEY: Prefix = "svc_key_"
SERVICE_ACCOUNT_TOKEN: Prefix = "svc_sa_"  # noqa: S105 (the prefix of a token, not a token)
ACCESS_TOKEN: Prefix = "svc_at_"  # noqa: S105 (likewise)
# Of its own: releases that know no audiences would take one of v1's prefix on v1.
MCP_ACCESS_TOKEN: Prefix = "svc_mt_"  # noqa: S105 (likewise)
REFRESH_TOKEN: Prefix = "svc_rt_"  # noqa: S105 (likewise)
AUTHORIZATION_CODE: Prefix = "svc_ac_"
CLIENT_SECRET: Prefix = "svc_cs_"  # noqa: S105 (likewise)
SESSION: Prefix = "svc_ss_"
INVITATION: Prefix = "svc_iv_"
SCIM_TOKEN: Prefix = "svc_sc_"  # noqa: S105 (likewise)
PREFIXES: tuple[Prefix, ...] = get_args(Prefix)

_ALPHABET = string.digits + string.ascii_letters
_RANDOM_LENGTH = 32
_CHECKSUM_LENGTH = 6
_GIVEN_LENGTH = 32
_HINT_LENGTH = 4


@dataclass(frozen=True)
class Secret:
    """A new credential: `value` is shown once, `hash` and `hint` are stored."""

    value: SecretStr
    hash: bytes
    hint: str


def mint(prefix: Prefix) -> Secret:
    body = prefix + "".join(secrets.choice(_ALPHABET) for _ in range(_RANDOM_LENGTH))
    return _secret(body + _checksum(body))


def accept_api_key(value: SecretStr) -> Secret:
    """Make a credential of an operator's own API key; ValueError unless the prefix and 32 further characters."""
    given = value.get_secret_value()
    body = given.removeprefix(API_KEY)
    if body == given or len(body) < _GIVEN_LENGTH or not body.isascii() or not body.isprintable() or " " in body:
        raise ValueError(
            f"An API key given in the settings is {API_KEY!r} followed by at least {_GIVEN_LENGTH} "
            "ASCII characters without spaces."
        )
    return _secret(given)


def checksum_matches(value: str) -> bool:
    """Check whether `value` may come from `mint`; a mistyped or shortened one (almost) never does."""
    body, checksum = value[:-_CHECKSUM_LENGTH], value[-_CHECKSUM_LENGTH:]
    return secrets.compare_digest(_checksum(body).encode(), checksum.encode())


def hash_secret(value: str) -> bytes:
    """Hash a credential for storage. One SHA-256 is enough: the value is random, so it can't be guessed."""
    return hashlib.sha256(value.encode()).digest()


def _secret(value: str) -> Secret:
    return Secret(value=SecretStr(value), hash=hash_secret(value), hint=value[-_HINT_LENGTH:])


def _checksum(body: str) -> str:
    number = zlib.crc32(body.encode())
    digits = ""
    for _ in range(_CHECKSUM_LENGTH):
        number, digit = divmod(number, len(_ALPHABET))
        digits = _ALPHABET[digit] + digits
    return digits
