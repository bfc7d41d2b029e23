"""A reply in progress: the part to show already, and the final text."""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import replace

from service.domains.agents.answering.citations import LONGEST_QUOTE, MARK, ODD_MARK, Checked, check
from service.domains.agents.answering.hidden import remove_hidden
from service.domains.agents.answering.models import Passage, Progress

LONGEST_HELD = LONGEST_QUOTE + 100
"""Characters; longer unfinished text is neither a citation nor a link."""

LONGEST_REPLY = 40_000
"""Characters of a reply. The model is then asked to stop, and the reply ends with the last whole sentence."""

REPEATED = "The reply was ended: the model said the same again and again."
SHORTENED = "The reply was cut short: it was longer than a reply may be."

SECONDS_BETWEEN = 0.2
"""Seconds between two progress reports of the text."""

_LAST_WORD = re.compile(r"[!-~]+\Z")
# What the next words may turn into nothing: a citation, link, tag, call, or turn of a made-up conversation.
_OPENING = re.compile(
    r"\[|<|【|(?:```\w*\s*)?\{(?=\s*(?:[\"{]|\Z))|```\w*\s*\Z|\A\s*Here(?:'s| is)(?: my)?(?: thought)?\s*\Z"
    r"|\n[ \t]*(?:#+ )?(?:User|Human|Instruction)\s?:|(?:\A|\n)\s*#+\s*\Z"
)
_LINK = re.compile(r"\[[^\[\]]*\](?:\([^()]*\)|\[[^\[\]]*\]|(?=[^(\[:]))")
# A bracket with another one within, unless a citation's number follows: "[[Page]]", "[the list [a]]".
_NESTED = re.compile(
    r"\[(?!\[?\s*[a-zA-Z]{0,8}\W{0,2}(?:\d{1,6}\s*:|\d{0,6}\s*\Z))(?=\[?+[^\[\]]*\[)|\[\[[^\[\]\d][^\[\]]*\]\]"
)
_ENDS = {
    "[": (ODD_MARK, MARK, _LINK, _NESTED),
    "<": (re.compile(r"<(?:[^a-zA-Z/|\uff5c]|[^<>]*>|\w+\s[^<>=]{40})"),),
    "【": (re.compile(r"【(?:[^】\n]{0,90}[】\n]|[^】\n]{90})"),),
    "{": (re.compile(r"(?:```\w*\s*)?\{\{?[^{}]*(?:\{[^{}]*\}\s*)?\}"),),
}
_SENTENCE_END = re.compile(r"[.!?…。！？](?:[\"'”’)\]]|\s?\[\[[^\[\]]*\]\])*(?=\s|\Z)|\n")  # noqa: RUF001 - many scripts

_PROBE, _LOOP, _LOOP_OF_SIGNS, _ROUNDS = 40, 300, 2000, 4
_LOOK_EVERY = 400
"""Characters between two checks for a repeating model."""


class Ended(Exception):  # noqa: N818 - no error: there is a reply
    """The model is stopped and the reply ends here; the message is a warning for the reader."""


class Draft:
    """A model's text so far. Words before the first look-up are held back. `passages` is the run's growing list."""

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
        """Add the next words, and report progress when due. Raises Ended if the text repeats itself or is too long."""
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
            await self._show_if_longer(check(complete_part(text), passages=self._passages, known=self._known).text)

    def begin(self) -> None:
        """Begin another turn of the model as a new paragraph."""
        if self._written.strip():
            self._before += f"{self._remove_hidden(self._removed).rstrip()}\n\n"
        self._written, self._looked = "", 0

    def discard_preface(self) -> None:
        """Discard the text before the first search, once, and show later text."""
        if self._held:
            self._held, self._before, self._written = False, "", ""

    def end_at_sentence(self) -> bool:
        """End the text so far with its last sentence; returns False if there is none to show."""
        self._written = re.sub(r"\d\.?\Z", "", self._written)  # "1." may be the beginning of 1.5
        has_sentence = not self._held and _SENTENCE_END.search(self._remove_hidden(set())) is not None
        self._written = _cut_at_sentence(self._written)
        return has_sentence

    async def finish(self) -> Checked:
        """Check and show the whole text, and return it with all warnings."""
        text = self._before + self._remove_hidden(self._removed)
        checked = check(text, passages=self._passages, known=self._known)
        self._shown = ""
        await self._show_if_longer(checked.text)
        return replace(checked, warnings=[*dict.fromkeys([*checked.warnings, *sorted(self._removed)])])

    def _remove_hidden(self, warnings: set[str]) -> str:
        return remove_hidden(self._written, warnings, known=[*self._known, *(each.text for each in self._passages)])

    def _end_loop(self) -> None:
        """If the end of the text repeats, keep its first round, and raise Ended."""
        text, tail = self._written, self._written[-_PROBE:]
        period = len(text) - _PROBE - text.rfind(tail, 0, len(text) - 1)
        unit = text[-period:]
        rounds = max(_ROUNDS, -(-(_LOOP if any(map(str.isalnum, unit)) else _LOOP_OF_SIGNS) // period))
        if not text.endswith(unit * rounds):
            return
        start = len(text) - period * rounds
        while text.endswith(unit, 0, start):
            start -= period
        self._written = _cut_at_sentence(text[: start + period])
        raise Ended(REPEATED)

    async def _show_if_longer(self, text: str) -> None:
        # A later passage can make an earlier citation valid. Then the shown text stays unchanged until the end.
        if text.startswith(self._shown) and text != self._shown:
            self._shown = text
            await self._progress(text, tuple(self._passages))


def complete_part(text: str) -> str:
    """Return the beginning of a text, without a half-finished citation, link or word at the end."""
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
    """Return the end of the opened part; None while the end is still to come."""
    found = (mark.match(text, opening.start()) for mark in _ENDS.get(opening[0][-1], ()))
    return next((mark.end() for mark in found if mark), None)


def _cut_at_sentence(text: str) -> str:
    return text[: max((match.end() for match in _SENTENCE_END.finditer(text)), default=len(text))]
