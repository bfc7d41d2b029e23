"""A reply on its way: what of it may be shown already, and what it is in the end."""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import replace

from service.domains.agents.answering.citations import LONGEST_QUOTE, MARK, ODD_MARK, Checked, check
from service.domains.agents.answering.hidden import remove_hidden
from service.domains.agents.answering.models import Passage, Progress

LONGEST_HELD = LONGEST_QUOTE + 100
"""Characters; what isn't finished after so many wasn't going to be a citation or a link."""

LONGEST_REPLY = 40_000
"""Characters of a reply; its model is told to stop, and it ends with its last whole sentence."""

REPEATED = "The reply was ended: the model said the same again and again."
SHORTENED = "The reply was cut short: it was longer than a reply may be."

SECONDS_BETWEEN = 0.2
"""Between two looks at how far the text is."""

_LAST_WORD = re.compile(r"[!-~]+\Z")
_OPENING = re.compile(r"\[\[(?=\s*\d)|\[|<|\{(?=\s*(?:\"|\Z))")
_BRACKETS = re.compile(r"\[[^\[\]]*\](?:\([^()]*\)|\[[^\[\]]*\]|(?=[^(\[:]))")
_ENDS = {"[": _BRACKETS, "<": re.compile(r"<(?:[^a-zA-Z/|]|[^<>]*>)"), "{": re.compile(r"\{[^{}]*(?:\{[^{}]*\}\s*)?\}")}
_SENTENCE_END = re.compile(r"[.!?…。！？](?:[\"'”’)\]]|\s?\[\[[^\[\]]*\]\])*(?=\s|\Z)|\n")  # noqa: RUF001 - many scripts

_PROBE, _LOOP, _ROUNDS = 40, 300, 4
_LOOK_EVERY = 400
"""Characters between two looks whether a model goes round in circles."""


class Ended(Exception):  # noqa: N818 - no error: there is a reply
    """The model is stopped, and its reply is as far as it is; the words are a warning for the reader."""


class Draft:
    """A model's text so far; words before the first look-up are held back. `passages` is the run's growing list."""

    def __init__(
        self, progress: Progress, *, passages: Sequence[Passage], known: Sequence[str], searches: bool
    ) -> None:
        self._progress = progress
        self._passages = passages
        self._known = known
        self._held = searches
        self._before = self._written = ""
        self._looked = 0
        self._removed: set[str] = set()
        self._shown = ""
        self._next_look = 0.0

    async def add(self, words: str) -> None:
        """Take the next words, and tell of them when it is time; raises Ended when there are enough."""
        self._written += words
        if len(self._written) >= self._looked + _LOOK_EVERY:
            self._looked = len(self._written)
            self._end_loop()
            if len(self._before) + len(self._written) > LONGEST_REPLY:
                self._written = _cut_at_sentence(self._written)
                raise Ended(SHORTENED)
        now = asyncio.get_running_loop().time()
        if not self._held and now >= self._next_look:
            self._next_look = now + SECONDS_BETWEEN
            text = self._before + self._remove_hidden(set())
            await self._show(check_partial(text, passages=self._passages, known=self._known))

    def begin(self) -> None:
        """Begin another of the model's turns; its words are a paragraph of their own."""
        if self._written.strip():
            self._before += f"{self._remove_hidden(self._removed).rstrip()}\n\n"
        self._written, self._looked = "", 0

    def discard_preface(self) -> None:
        """Discard the text before the first search; from now on everything is shown."""
        if self._held:
            self._held, self._before, self._written = False, "", ""

    async def finish(self) -> Checked:
        text = self._before + self._remove_hidden(self._removed)
        checked = check(text, passages=self._passages, known=self._known)
        self._shown = ""
        await self._show(checked.text)
        return replace(checked, warnings=[*dict.fromkeys([*checked.warnings, *sorted(self._removed)])])

    def _remove_hidden(self, warnings: set[str]) -> str:
        return remove_hidden(self._written, warnings, known=[*self._known, *(each.text for each in self._passages)])

    def _end_loop(self) -> None:
        """Keep the first round of a text that ends with the same words again and again, and raise Ended."""
        text, tail = self._written, self._written[-_PROBE:]
        period = len(text) - _PROBE - text.rfind(tail, 0, len(text) - 1)
        unit = text[-period:]
        rounds = max(_ROUNDS, -(-_LOOP // period))
        if not text.endswith(unit * rounds) or not any(map(str.isalnum, unit)):
            return
        start = len(text) - period * rounds
        while text.endswith(unit, 0, start):
            start -= period
        self._written = _cut_at_sentence(text[: start + period])
        raise Ended(REPEATED)

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
        mark = _ENDS[opening[0]].match(text, start)
    return mark.end() if mark else None


def _cut_at_sentence(text: str) -> str:
    return text[: max((match.end() for match in _SENTENCE_END.finditer(text)), default=len(text))]
