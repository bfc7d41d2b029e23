"""How a deprecated operation says so in every answer (RFC 9745)."""

from typing import Final

DEPRECATED_SINCE_2026: Final = {"Deprecation": "@1767225600"}
"""Deprecated since 2026-01-01T00:00:00Z; still works."""
