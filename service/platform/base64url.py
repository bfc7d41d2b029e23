"""Bytes as text for addresses, headers and forms: base64url without padding (RFC 7515, section 2)."""

import base64


def encode(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def decode(text: str) -> bytes:
    """Decode the output of `encode`. Raises ValueError for any other text, even variant spellings of equal bytes."""
    try:
        content = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except ValueError as exc:
        raise ValueError("not base64url") from exc
    if encode(content) != text:
        raise ValueError("not the one spelling of these bytes")
    return content
