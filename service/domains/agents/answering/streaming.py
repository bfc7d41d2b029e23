"""A reply on its way: what of it may be shown already, and what it is in the end."""

import asyncio
import re
from collections.abc import Sequence

from service.domains.agents.answering.citations import LONGEST_QUOTE, MARK, ODD_MARK, Checked, check
from service.domains.agents.answering.models import Passage, Progress

LONGEST_HELD = LONGEST_QUOTE + 100
"""Characters; what isn't finished after so many wasn't going to be a citation or a link."""

SECONDS_BETWEEN = 0.2
"""Between two looks at how far the text is."""

_LAST_WORD = re.compile(r"[!-~]+\Z")
_OPENING = re.compile(r"\[\[(?=\s*\d)|\[|<")
_BRACKETS = re.compile(r"\[[^\[\]]*\](?:\([^()]*\)|\[[^\[\]]*\]|(?=[^(\[:]))")
_TAG = re.compile(r"<(?:[^a-zA-Z/]|[^<>]*>)")


class Draft:
    """A model's text so far; words before its first look-up are held back, as they may be no reply. `passages` is the
    run's growing list; links in `known` texts may be repeated."""

    def __init__(
        self, progress: Progress, *, passages: Sequence[Passage], known: Sequence[str], searches: bool
    ) -> None:
        self._progress = progress
        self._passages = passages
        self._known = known
        self._held = searches
        self._written = ""
        self._shown = ""
        self._next_look = 0.0

    @property
    def length(self) -> int:
        """The number of characters that the model has written."""
        return len(self._written)

    async def add(self, words: str) -> None:
        """Take the next words, and tell of them when it is time."""
        self._written += words
        now = asyncio.get_running_loop().time()
        if not self._held and now >= self._next_look:
            self._next_look = now + SECONDS_BETWEEN
            await self._show(check_partial(self._written, passages=self._passages, known=self._known))

    def begin(self) -> None:
        """Begin another of the model's turns; its words are a paragraph of their own."""
        if self._written and not self._written.endswith("\n\n"):
            self._written += "\n\n"

    def discard_preface(self) -> None:
        """Discard the text before the first search; from now on everything is shown."""
        if self._held:
            self._held, self._written = False, ""

    async def finish(self) -> Checked:
        checked = check(self._written, passages=self._passages, known=self._known)
        self._shown = ""
        await self._show(checked.text)
        return checked

    async def _show(self, text: str) -> None:
        # A later passage can make an earlier citation hold. What was shown stays as it is until the end then.
        if text.startswith(self._shown) and text != self._shown:
            self._shown = text
            await self._progress(text, tuple(self._passages))


def check_partial(text: str, *, passages: Sequence[Passage], known: Sequence[str]) -> str:
    """Return what may be shown of a text that goes on."""
    return check(complete_part(text), passages=passages, known=known).text


def complete_part(text: str) -> str:
    """Return the beginning of a text in which no citation, link or word is half there."""
    last = _LAST_WORD.search(text, max(0, len(text) - LONGEST_HELD))
    text = text[: last.start()] if last else text
    place = max(0, len(text) - LONGEST_HELD)
    while opening := _OPENING.search(text, place):
        end = _end(text, opening)
        if end is None:
            return text[: opening.start()].rstrip(" \t!")
        place = end
    return text.rstrip()


def _end(text: str, opening: re.Match[str]) -> int | None:
    """Return where what is opened is over; None when that is still to come."""
    start = opening.start()
    if opening[0] == "[[":
        mark = ODD_MARK.match(text, start) or MARK.match(text, start)
    else:
        mark = (_BRACKETS if opening[0] == "[" else _TAG).match(text, start)
    return mark.end() if mark else None
