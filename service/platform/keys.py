"""Keys for one purpose each, derived from the deployment's secret key by HMAC-SHA256 (NIST SP 800-108, one block): none
tells anything about another key or the secret key, which itself signs and encrypts nothing."""

import hashlib
import hmac
from uuid import UUID

from pydantic import SecretStr


class Keys:
    """The keys derived from one secret key; equal on every replica with the same secret key."""

    def __init__(self, secret_key: SecretStr) -> None:
        self._secret_key = secret_key.get_secret_value().encode()

    @property
    def fingerprint(self) -> bytes:
        """Tells whether two secret keys are the same; the database keeps it."""
        return self._derive(b"fingerprint")

    def page_key(self, organization_id: UUID) -> bytes:
        return self._derive(b"page tokens", organization_id.bytes)

    def form_token(self, *, browser: str, purpose: str) -> bytes:
        return self._derive(b"form token", f"{browser}\n{purpose}".encode())

    def upstream_secret(self, *, browser: str, purpose: str) -> bytes:
        """Return what only this browser's sign-in with another provider has: a verifier, a nonce, a signature."""
        return self._derive(b"upstream sign-in", f"{browser}\n{purpose}".encode())

    def docstore_key(self, organization_id: UUID) -> bytes:
        """Return the key that an organization's connection addresses are encrypted under (AES-256)."""
        return self._derive(b"docstore addresses", organization_id.bytes)

    def webhook_key(self, organization_id: UUID) -> bytes:
        """Return the key that the secrets of an organization's webhooks are encrypted under (AES-256)."""
        return self._derive(b"webhook secrets", organization_id.bytes)

    def second_factor_key(self, organization_id: UUID) -> bytes:
        """Return the key that the secrets of an organization's authenticator apps are encrypted under (AES-256)."""
        return self._derive(b"second factors", organization_id.bytes)

    def new_factor_secret(self, *, browser: str, nonce: str) -> bytes:
        """Return the 32-byte secret that a browser shows for an authenticator app; it is stored only once used. Each
        `nonce` gives another secret."""
        return self._derive(b"new second factor", f"{browser}\n{nonce}".encode())

    def challenge_code(self, *, browser: str, purpose: str) -> bytes:
        """Return the code by which the service knows its own challenge to a passkey, for this browser and purpose."""
        return self._derive(b"passkey challenge", f"{browser}\n{purpose}".encode())

    def user_handle(self, principal_id: UUID) -> bytes:
        """Return what the authenticators of a person's passkeys know them by: it tells nothing about the person."""
        return self._derive(b"user handle", principal_id.bytes)

    def provider_key(self, organization_id: UUID) -> bytes:
        """Return the key that an organization's secrets of sign-in providers are encrypted under (AES-256)."""
        return self._derive(b"provider secrets", organization_id.bytes)

    def _derive(self, purpose: bytes, context: bytes = b"") -> bytes:
        return hmac.digest(self._secret_key, purpose + b"\0" + context, hashlib.sha256)
