"""The progress of a long command, on standard error when that is a terminal."""

import sys
import time

_EVERY_SECONDS = 0.2
_MEGABYTE = 1_000_000


class Progress:
    """A line of progress that is overwritten; nothing when standard error isn't a terminal."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._shown_at = 0.0
        self._is_watched = sys.stderr.isatty()
        self._bytes = 0

    def add(self, size: int, detail: str = "") -> None:
        self._bytes += size
        if self._is_watched and time.monotonic() - self._shown_at >= _EVERY_SECONDS:
            self._shown_at = time.monotonic()
            self._show(f"{self._what}: {self._bytes / _MEGABYTE:,.0f} MB{detail}")

    def end(self) -> None:
        if self._is_watched:
            self._show("")

    def _show(self, line: str) -> None:
        sys.stderr.write(f"\r\x1b[K{line}")
        sys.stderr.flush()
