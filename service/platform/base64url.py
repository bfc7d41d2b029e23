"""Bytes as text that addresses, headers and forms carry unchanged: base64url without padding (RFC 7515, section 2)."""

import base64


def encode(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def decode(text: str) -> bytes:
    """Decode the text of `encode`; ValueError for all other text, other spellings of the same bytes too."""
    try:
        content = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except ValueError as exc:
        raise ValueError("not base64url") from exc
    if encode(content) != text:
        raise ValueError("not the one spelling of these bytes")
    return content
