"""Encryption of what the workbench keeps on disk: AES-256-GCM under its own key."""

import os
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from pydantic import SecretStr

KEY_BYTES = 32
_NONCE_BYTES = 12


class SealError(Exception):
    """A sealed text has another key or purpose, or was changed."""


class Sealer:
    """Encrypts texts, each bound to its row, so that a secret can't be moved to another row."""

    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(key)

    def seal(self, text: str, *, of: str) -> bytes:
        """Encrypt a text: a random nonce, the ciphertext, and its tag."""
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, text.encode(), of.encode())

    def unseal(self, sealed: bytes, *, of: str) -> str:
        """Decrypt a sealed text; raises SealError when that fails."""
        try:
            return self._cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], of.encode()).decode()
        except (InvalidTag, ValueError) as exc:
            raise SealError from exc


def key_of(given: SecretStr | None, *, kept_in: Path) -> bytes:
    """Return the workbench's key: the given one, else the one in the file, which is created if it is missing.

    A given key is 32 bytes as unpadded or padded base64url, else ValueError. Replicas need the same key.
    """
    if given is not None:
        return _decode(given.get_secret_value())
    if kept_in.exists():
        return _decode(kept_in.read_text().strip())
    kept_in.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = urlsafe_b64encode(secrets.token_bytes(KEY_BYTES)).decode()
    draft = kept_in.with_name(f"{kept_in.name}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(fresh)
            file.flush()
            os.fsync(file.fileno())
        # Two that start at once must end with one key: a link fails where the name is taken, a rename would not.
        kept_in.hardlink_to(draft)
    except FileExistsError:
        pass
    finally:
        draft.unlink(missing_ok=True)
    return _decode(kept_in.read_text().strip())


def _decode(text: str) -> bytes:
    try:
        key = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        msg = "CARREL_APP_SECRET_KEY must be 32 random bytes in base64url, such as `openssl rand -base64 32` makes."
        raise ValueError(msg)
    return key
