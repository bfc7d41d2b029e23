"""Extract a long message's questions by rules for English. Doubtful text stays one question."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from service.domains.search.understanding.folding import PATTERNS, WORDS, words_of
from service.domains.search.understanding.following import FEW_WORDS, leans_on_another
from service.index.stemming import ENGLISH
from service.index.stop_words import QUERY_STOP_WORDS
from service.index.terms import read_query
from service.text.sentences import cut_sentences

MOST_QUESTIONS = 4
LONGEST_QUESTION = 500  # characters of a question taken from a longer message

_WHAT = r"(?:who|whom|whose|what|which|when|where|why|how)"
_HELP = r"(?:is|are|was|were|do|does|did|can|could|may|might|must|should|will|would|has|have|had)"
_WORDS = {"what": _WHAT, "help": _HELP}
_ASKS = re.compile(PATTERNS["asks"] % _WORDS, re.IGNORECASE)
_TELLS = re.compile(PATTERNS["tells"], re.IGNORECASE)
# A second question begins after "and" if that part has a question word and a verb of its own.
_AND = re.compile(PATTERNS["asks_again"] % _WORDS, re.IGNORECASE)

_RELATIVE = re.compile(r"(?<=\w) that (?=(?:is|are|was|were|has|have|had|can|will|we|i|they|you)\b)", re.IGNORECASE)

_QUOTED_FROM = re.compile(PATTERNS["quoted_from"], re.IGNORECASE | re.MULTILINE)
_SIGNATURE = re.compile(PATTERNS["signature"], re.IGNORECASE | re.MULTILINE)
_GREETING = re.compile(PATTERNS["greeting"], re.IGNORECASE)
_THANKS = re.compile(r"\s*(?:many )?(?:thanks?(?: you)?|thx|cheers)\b[^?]{0,60}[.!]?\s*$", re.IGNORECASE)
_WORD = re.compile(r"\w+(?:[.,'\u2019-]\w+)*")
_NO_NAMES = frozenset(WORDS["others"]["no_names"].split())
_SPEAKER = re.compile(r"^[ \t]*(?P<name>[^\W\d][\w .'-]{0,30}):[ \t]+(?=\S)", re.MULTILINE)


def extract_questions(message: str) -> list[str]:
    """Return at most MOST_QUESTIONS questions of a message, or the whole message if single or without a question."""
    own, context = _drop_history(message)
    sentences = [text for text in _sentences(own) if not _THANKS.fullmatch(text)]
    asked = [number for number, text in enumerate(sentences) if _asks(text)]
    if not asked:
        return [" ".join(sentences)[:LONGEST_QUESTION] if _is_cut(own, message) and sentences else message]
    questions: list[str] = []
    for last, number in pairwise([-1, *asked]):
        parts = _split(sentences[number])
        previous = sentences[number - 1] if number else context
        questions.append(_put_before(_select_needed(sentences[last + 1 : number], previous, parts[0]), parts[0]))
        pairs = pairwise(parts)
        questions.extend(_put_before([before] if _leans(part) else [], part) for before, part in pairs)
    if len(asked) == len(sentences) == len(questions) == 1 and not _is_cut(own, message):
        return [message]
    return list(dict.fromkeys(questions))[:MOST_QUESTIONS]


def _is_cut(own: str, message: str) -> bool:
    return own.strip() != message.strip()


def _select_needed(told: Sequence[str], previous: str, question: str) -> list[str]:
    """Return a question's context: earlier sentences with missing details, and the text it refers to."""
    details = _find_details(question)
    needed = [text for text in told if _find_details(text) - details]
    # "I lost my badge. What should I do?"
    is_told = told and not needed and len({*read_query(question, (ENGLISH,)).words} - QUERY_STOP_WORDS) <= FEW_WORDS
    if (is_told or _leans(question)) and needed[-1:] != [previous]:
        needed.append(previous)
    return needed


def _find_details(sentence: str) -> set[str]:
    words = _WORD.findall(sentence)
    return {
        word.casefold()
        for at, word in enumerate(words)
        if word.casefold() not in _NO_NAMES
        and (any(map(str.isdigit, word)) or (at and word[0].isupper()) or (len(word) > 1 and word.isupper()))
    }


def _put_before(before: Sequence[str], question: str) -> str:
    whole = question[:LONGEST_QUESTION]
    for text in reversed(before):
        if text and len(text) + 1 + len(whole) <= LONGEST_QUESTION:
            whole = f"{text} {whole}"
    return whole.strip()


def _leans(question: str) -> bool:
    """Return whether a question needs the previous question; "a bag that was lost" doesn't."""
    return leans_on_another(_RELATIVE.sub(" ", question))


def _drop_history(message: str) -> tuple[str, str]:
    """Return a message without quotes, greeting or signature, and its speaker's last two turns before."""
    lines = [line.strip() for line in message.splitlines() if not line.lstrip().startswith(">")]
    # The patterns look for white space at every place, so reduce runs of empty lines to a single empty line.
    text = "\n".join(line for at, line in enumerate(lines) if line or (at and lines[at - 1]))
    for end in (_QUOTED_FROM, _SIGNATURE):
        if (match := end.search(text)) and text[: match.start()].strip():
            text = text[: match.start()]
    speakers = list(_SPEAKER.finditer(text))
    before = ""
    # Labels ("Note:", "Question:") occur once; in a conversation each person speaks twice.
    turns = Counter(speaker["name"].casefold() for speaker in speakers)
    if any(count > 1 for count in turns.values()) and not text[: speakers[0].start()].strip():
        text, before = _find_asking_turn(text, speakers)
    rest = _GREETING.sub("", text, count=1)
    return (rest if rest.strip() else text).strip(), before


def _find_asking_turn(text: str, speakers: Sequence["re.Match[str]"]) -> tuple[str, str]:
    ends = [*(speaker.start() for speaker in speakers[1:]), len(text)]
    turns = [text[speaker.end() : end].strip() for speaker, end in zip(speakers, ends, strict=True)]
    names = [speaker["name"].casefold() for speaker in speakers]
    last = next((at for at in reversed(range(len(turns))) if any(map(_asks, _sentences(turns[at])))), None)
    if last is None:
        return text, ""
    return turns[last], next((turns[at] for at in reversed(range(last)) if names[at] == names[last]), "")


def _sentences(text: str) -> Iterator[str]:
    for line in re.split(r"\n\s*\n|\n(?=\s*(?:[-*•]|\d+[.)])\s)", text):
        for sentence in cut_sentences(" ".join(line.split())):
            bare = re.sub(r"^(?:[-*•]|\d+[.)])\s+", "", sentence.text).strip()
            if bare and re.search(r"\w", bare):
                yield bare


def _asks(sentence: str) -> bool:
    return sentence.endswith(("?", "\uff1f", "\u061f")) or bool(_ASKS.match(sentence) or _TELLS.match(sentence))


def _split(sentence: str) -> list[str]:
    """Split a sentence with two questions. It must begin with a question, and each question needs words of its own."""
    if not _ASKS.match(sentence) or words_of(sentence).is_foreign:
        return [sentence]
    parts = [part.strip() for part in _AND.split(sentence)]
    return parts if all(len(part.split()) > 2 for part in parts) else [sentence]
