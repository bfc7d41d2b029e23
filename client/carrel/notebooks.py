"""Helpers for notebooks.

>>> from carrel.notebooks import stop
>>> if not documents:
...     stop("There is no document yet: load some first.")"""

from typing import NoReturn

__all__ = ["StoppedError", "shorten", "stop"]


class StoppedError(Exception):
    """A notebook ended before its last cell; readers see the reason instead of a traceback."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


def stop(sentence: str) -> NoReturn:
    """End a notebook's run with a sentence; later cells don't run."""
    raise StoppedError(sentence)


def shorten(text: str, most: int) -> str:
    """Return a label of at most `most` characters; a shortened label ends in an ellipsis."""
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"
