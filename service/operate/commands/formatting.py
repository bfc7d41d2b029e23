"""Formatting counts and sizes in the commands' output."""

_KILOBYTE, _MEGABYTE = 1e3, 1e6


def format_count(count: int, what: str) -> str:
    """Format a count with its noun: `1 document`, `70 documents`."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def format_size(count: int) -> str:
    return f"{count / _KILOBYTE:,.0f} kB" if count < _MEGABYTE else f"{count / _MEGABYTE:,.1f} MB"
