"""Tell the text that a mail quotes from earlier mails, which is shown and not indexed again. What may be the mail's own
text, or stored nowhere else, counts as its own: forwarded messages, and quotations without signs of a mail program."""

import re
import tomllib
from collections.abc import Sequence
from itertools import groupby, takewhile
from pathlib import Path
from typing import Any

_RULES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
_CLASSES = frozenset(_RULES["classes"])
_WORDS = {name: f"(?:{'|'.join(words)})" for name, words in _RULES["words"].items()}
_RULE = {name: re.compile(pattern % _WORDS, re.IGNORECASE) for name, pattern in _RULES["patterns"].items()}
_INTRO_LINES, _INTRO_CHARACTERS, _HEADER_LINES, _HEADER_CHARACTERS, _QUESTION_LINES = 3, 400, 8, 2_000, 4


def is_quote(element: Any) -> bool:
    """Return whether a mail program has marked an element of HTML as quoted text, with no answers in it."""
    is_marked = not _CLASSES.isdisjoint((element.get("class") or "").split())
    if element.tag == "blockquote":
        return is_marked or element.get("type") == "cite"
    return is_marked and element.tag == "div" and element.find(".//blockquote") is None


def find_quoted(lines: Sequence[str], in_html: Sequence[bool] = (), *, subject: str, is_reply: bool) -> list[bool]:
    """Return for each line whether it is quoted beside text of the mail's own. Of HTML, `lines` are the paragraphs, and
    `in_html` says which of them `is_quote` has found."""
    # Some mailboxes mark a line "From …" like a quoted one.
    cited = in_html or [line.startswith(">") and not line.startswith(">From ") for line in lines]
    quoted, at, follows, answers = [False] * len(lines), 0, False, _RULE["reply"].match(subject) is not None
    heads, is_sure = [line[:_HEADER_CHARACTERS] for line in lines], is_reply or answers or bool(in_html)
    while at < len(lines) and ((cited[at] and follows) or not _RULE["forwarded"].match(heads[at])):
        count = 0 if cited[at] else _count_intro(heads[at : at + _INTRO_LINES])
        after = next((to for to in range(at + count, len(lines)) if lines[to].strip()), at) if count else at
        if cited[after]:
            is_sure, follows, end = is_sure or after > at, True, max(after, at + 1)
            quoted[at:end] = [is_sure] * (end - at)
            at = end
            continue
        is_mail = (is_reply or answers) and _RULE["addressed"].search(" ".join(lines[at : at + count]))
        text = "\n".join(heads[at : at + _HEADER_LINES])
        is_headed = _RULE["headers"].match(text) or _RULE["original"].match(text)
        if is_mail or (is_headed and (answers or (subject and subject.casefold() in text.casefold()))):
            # Where answers are said to stand in the quoted text, nothing tells them from it.
            quoted[at:] = [_RULE["inside"].search("\n".join(lines[:at])) is None] * (len(lines) - at)
            break
        follows &= not lines[at].strip()
        at += 1
    spoken = [at for at, line in enumerate(lines) if any(map(str.isalnum, line))]
    said, own = frozenset(spoken), (at for at in range(len(lines)) if not quoted[at])
    written = takewhile(lambda at: not _RULE["signature"].fullmatch(heads[at]), own)
    if _RULE["forward"].match(subject) or said.isdisjoint(written):
        return [False] * len(lines)
    # Answers between quoted lines need the last lines before them, which they answer.
    runs = [list(run) for _, run in groupby(spoken, key=quoted.__getitem__)]
    for run in runs[:-1] if len(runs) > 3 or (quoted[spoken[0]] and len(runs) > 2) else ():
        lines_before = range(run[-1], run[-1] - (1 if in_html else _QUESTION_LINES), -1)
        for at in takewhile(lambda at: at in said and cited[at], lines_before):
            quoted[at] = False
    return quoted


def _count_intro(lines: Sequence[str]) -> int:
    """Return how many of the first lines introduce a quote, as "On …, Ann wrote:" does."""
    for count in range(1, len(lines) + 1):
        text = " ".join(lines[:count])
        if len(text) > _INTRO_CHARACTERS or not lines[count - 1].strip():
            break
        is_apart = count == 1 or (lines[0].rstrip()[-1] not in ".!?" and _RULE["timed"].search(lines[0]))
        if _RULE["opened"].fullmatch(text) or (is_apart and _RULE["intro"].fullmatch(text)):
            return count
    return 0
