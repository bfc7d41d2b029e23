"""Connection addresses in the database: AES-256-GCM with a key of the organization, bound to the sync."""

import os
from uuid import UUID

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from pydantic import SecretStr

from service.platform.keys import Keys

_NONCE_BYTES = 12


class SealError(Exception):
    """The sealed address is of another key or sync, or was changed."""


def seal(keys: Keys, organization_id: UUID, *, sync_id: UUID, uri: SecretStr) -> bytes:
    """Encrypt an address: a random nonce, the ciphertext, and its tag."""
    nonce = os.urandom(_NONCE_BYTES)
    cipher = AESGCM(keys.docstore_key(organization_id))
    return nonce + cipher.encrypt(nonce, uri.get_secret_value().encode(), sync_id.bytes)


def unseal(keys: Keys, organization_id: UUID, *, sync_id: UUID, sealed: bytes) -> SecretStr:
    """Decrypt an address that `seal` encrypted; SealError for another key or sync, or changed bytes."""
    cipher = AESGCM(keys.docstore_key(organization_id))
    try:
        return SecretStr(cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], sync_id.bytes).decode())
    except (InvalidTag, ValueError) as exc:
        raise SealError from exc
