"""Secrets: credentials, derived keys and sealed values. A credential is a prefix, 32 random base-62 characters (190
bits) and 6 characters of CRC-32; only its SHA-256 is stored. Each derived key has a single purpose. Values that the
service must read again are sealed with AES-256-GCM."""

import hashlib
import hmac
import os
import secrets
import string
import zlib
from dataclasses import dataclass
from typing import Literal, get_args
from uuid import UUID

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from pydantic import SecretStr

Prefix = Literal[
    "svc_key_", "svc_sa_", "svc_at_", "svc_mt_", "svc_rt_", "svc_ac_", "svc_cs_", "svc_ss_", "svc_iv_", "svc_sc_"
]

API_KEY: Prefix = "svc_key_"
SERVICE_ACCOUNT_TOKEN: Prefix = "svc_sa_"  # noqa: S105 (the prefix of a token, not a token)
ACCESS_TOKEN: Prefix = "svc_at_"  # noqa: S105 (likewise)
# A separate prefix, because earlier releases ignore audiences and would accept v1's prefix on v1.
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
    """A new credential: `value` is shown only once; `hash` and `hint` are stored."""

    value: SecretStr
    hash: bytes
    hint: str


def mint(prefix: Prefix) -> Secret:
    body = prefix + "".join(secrets.choice(_ALPHABET) for _ in range(_RANDOM_LENGTH))
    return _secret(body + _checksum(body))


def accept_api_key(value: SecretStr) -> Secret:
    """Make a credential from an operator's API key. Raises ValueError without the prefix and 32 further characters."""
    given = value.get_secret_value()
    body = given.removeprefix(API_KEY)
    if body == given or len(body) < _GIVEN_LENGTH or not body.isascii() or not body.isprintable() or " " in body:
        raise ValueError(
            f"An API key given in the settings is {API_KEY!r} followed by at least {_GIVEN_LENGTH} "
            "ASCII characters without spaces."
        )
    return _secret(given)


def checksum_matches(value: str) -> bool:
    """Check whether `value` could come from `mint`; mistyped or shortened values (almost) never pass."""
    body, checksum = value[:-_CHECKSUM_LENGTH], value[-_CHECKSUM_LENGTH:]
    return secrets.compare_digest(_checksum(body).encode(), checksum.encode())


def hash_secret(value: str) -> bytes:
    """Hash a credential for storage. A single SHA-256 is enough: random values can't be guessed."""
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


_NONCE_BYTES = 12


class SealError(Exception):
    """The sealed secret belongs to another key or row, or was changed."""


def seal(key: bytes, *, row_id: UUID, secret: SecretStr) -> bytes:
    """Encrypt a row's secret: a random nonce, the ciphertext, and the tag. The key has 32 bytes."""
    nonce = os.urandom(_NONCE_BYTES)
    return nonce + AESGCM(key).encrypt(nonce, secret.get_secret_value().encode(), row_id.bytes)


def unseal(key: bytes, *, row_id: UUID, sealed: bytes) -> SecretStr:
    """Decrypt a secret from `seal`; SealError for a wrong key or row, or changed bytes."""
    try:
        return SecretStr(AESGCM(key).decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], row_id.bytes).decode())
    except (InvalidTag, ValueError) as exc:
        raise SealError from exc


def try_unseal(key: bytes, *, row_id: UUID, sealed: bytes | None) -> SecretStr | None:
    """Decrypt a secret from `seal`; None without a sealed secret, and where `unseal` raises SealError."""
    try:
        return None if sealed is None else unseal(key, row_id=row_id, sealed=sealed)
    except SealError:
        return None


def reseal(old: bytes | None, new: bytes, *, row_id: UUID, sealed: bytes) -> bytes | None:
    """Encrypt a secret under a new key; None if the old key is lost (None) or doesn't fit."""
    secret = None if old is None else try_unseal(old, row_id=row_id, sealed=sealed)
    return None if secret is None else seal(new, row_id=row_id, secret=secret)


BrowserUse = Literal["form token", "upstream sign-in", "new second factor", "passkey challenge"]


class Keys:
    """Keys derived from the secret key, equal on every replica with an equal secret key."""

    def __init__(self, secret_key: SecretStr) -> None:
        self._secret_key = secret_key.get_secret_value().encode()

    @property
    def fingerprint(self) -> bytes:
        """Identifies the secret key; stored in the database."""
        return self._derive(b"fingerprint")

    def page_key(self, organization_id: UUID) -> bytes:
        return self._derive(b"page tokens", organization_id.bytes)

    def bytes_for(self, use: BrowserUse, *, browser: str, purpose: str) -> bytes:
        """Derive 32 bytes for a browser and a purpose from the service's secret key."""
        return self._derive(use.encode(), f"{browser}\n{purpose}".encode())

    def unknown_name(self, name: str) -> bytes:
        """Return bytes derived from the name, stable and unpredictable to outsiders."""
        return self._derive(b"unknown name", name.encode())

    def docstore_key(self, organization_id: UUID) -> bytes:
        """Return the key for encrypting an organization's connection addresses (AES-256)."""
        return self._derive(b"docstore addresses", organization_id.bytes)

    def webhook_key(self, organization_id: UUID) -> bytes:
        return self._derive(b"webhook secrets", organization_id.bytes)

    def second_factor_key(self, organization_id: UUID) -> bytes:
        """Return the key for encrypting the secrets of an organization's authenticator apps (AES-256)."""
        return self._derive(b"second factors", organization_id.bytes)

    def user_handle(self, principal_id: UUID) -> bytes:
        """Return a person's id for passkey authenticators; it reveals no data about the person."""
        return self._derive(b"user handle", principal_id.bytes)

    def provider_key(self, organization_id: UUID) -> bytes:
        return self._derive(b"provider secrets", organization_id.bytes)

    def _derive(self, purpose: bytes, context: bytes = b"") -> bytes:
        return hmac.digest(self._secret_key, purpose + b"\0" + context, hashlib.sha256)
