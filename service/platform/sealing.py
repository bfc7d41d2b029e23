"""Secrets in the database that the service must read again: AES-256-GCM, each bound to the row that it belongs to."""

import os
from uuid import UUID

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from pydantic import SecretStr

_NONCE_BYTES = 12


class SealError(Exception):
    """The sealed secret is of another key or row, or was changed."""


def seal(key: bytes, *, row_id: UUID, secret: SecretStr) -> bytes:
    """Encrypt a secret of a row: a random nonce, the ciphertext, and its tag. The key has 32 bytes."""
    nonce = os.urandom(_NONCE_BYTES)
    return nonce + AESGCM(key).encrypt(nonce, secret.get_secret_value().encode(), row_id.bytes)


def unseal(key: bytes, *, row_id: UUID, sealed: bytes) -> SecretStr:
    """Decrypt a secret that `seal` encrypted; SealError for another key or row, or changed bytes."""
    try:
        return SecretStr(AESGCM(key).decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], row_id.bytes).decode())
    except (InvalidTag, ValueError) as exc:
        raise SealError from exc


def reseal(old: bytes | None, new: bytes, *, row_id: UUID, sealed: bytes) -> bytes | None:
    """Encrypt a secret under a new key; None when it can't be decrypted, since the old key is lost (None)."""
    if old is None:
        return None
    try:
        return seal(new, row_id=row_id, secret=unseal(old, row_id=row_id, sealed=sealed))
    except SealError:
        return None
