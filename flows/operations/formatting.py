"""Numbers, durations, languages and waits as text for people."""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from json import JSONDecodeError

from carrel.wire.access import ResourceCount
from carrel.wire.common import ResourceType
from carrel.wire.docstore import DocstoreSync


def count_text(number: int, item: str, many: str | None = None) -> str:
    """Return a number with its noun: 1 document, 2,304 documents."""
    return f"{number:,} {item if number == 1 else many or f'{item}s'}"


def list_text(names: Sequence[str]) -> str:
    """Return names as a list in a sentence: a, b and c."""
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


_KINDS = {
    ResourceType.DOCUMENT_COLLECTION: "collection",
    ResourceType.AGENT: "agent",
    ResourceType.DOCSTORE_SYNC: "sync",
}


def kind_of(resource_type: ResourceType) -> str:
    """Return the word for a kind of resource: collection, agent, sync, or else document."""
    return _KINDS.get(resource_type, "document")


def counts_text(counts: Iterable[ResourceCount]) -> str:
    """Return counts of resources by kind: 2 collections and 1 document; without resources, an empty text."""
    totals = Counter[str]()
    for counted in counts:
        totals[kind_of(counted.resource_type)] += counted.count
    return list_text([count_text(count, kind) for kind, count in totals.items() if count])


def capitalize(text: str) -> str:
    return text[:1].upper() + text[1:]


def rate_text(per_second: float, what: str) -> str:
    """Return a pace in a readable unit: 12.5 documents a second, 6 documents a minute; empty below 1 an hour."""
    for seconds, unit in ((1, "a second"), (60, "a minute"), (3600, "an hour")):
        number = per_second * seconds
        if number >= 1:
            return f"{number:,.1f} {what}s {unit}" if seconds == 1 else f"{count_text(round(number), what)} {unit}"
    return ""


def failure_row(place: str, document: str, code: str, reason: str) -> dict[str, str]:
    return {"place": place, "document": document, "code": code, "reason": reason}


def purpose_text(collection: object) -> str:
    return f"added to collection {collection}" if collection else "uploaded"


def duration_text(seconds: float) -> str:
    """Return a rough duration: about 40 s, about 12 min, about 3 h."""
    if seconds < 90:
        return f"about {max(1, round(seconds))} s"
    if seconds < 90 * 60:
        return f"about {round(seconds / 60)} min"
    return f"about {round(seconds / 3600)} h"


# How long a run may wait for a worker of the service before people are told.
_PATIENCE = timedelta(seconds=60)
_LANGUAGES = """
af Afrikaans, ar Arabic, az Azerbaijani, be Belarusian, bg Bulgarian, bn Bengali, ca Catalan, cs Czech, cy Welsh,
da Danish, de German, el Greek, en English, es Spanish, et Estonian, eu Basque, fa Persian, fi Finnish, fr French,
ga Irish, gl Galician, he Hebrew, hi Hindi, hr Croatian, hu Hungarian, hy Armenian, id Indonesian, is Icelandic,
it Italian, ja Japanese, ka Georgian, kk Kazakh, km Khmer, ko Korean, lo Lao, lt Lithuanian, lv Latvian, mk Macedonian,
mr Marathi, ms Malay, mt Maltese, my Burmese, ne Nepali, nl Dutch, no Norwegian, pl Polish, pt Portuguese, ro Romanian,
ru Russian, sk Slovak, sl Slovenian, sq Albanian, sr Serbian, sv Swedish, sw Swahili, ta Tamil, th Thai, tl Tagalog,
tr Turkish, uk Ukrainian, ur Urdu, vi Vietnamese, zh Chinese
"""
_NAMES = {code: name for code, _, name in (each.strip().partition(" ") for each in _LANGUAGES.split(","))}


def name_language(code: str) -> str:
    """Return a language's English name; an unknown code stays as it is."""
    return _NAMES.get(code, code)


def waiting_text(sync: DocstoreSync, *, now: datetime | None = None) -> str:
    """Return a warning with advice when a run has not begun for a minute; else an empty text."""
    if sync.wanted_at is None or (now or datetime.now(UTC)) - sync.wanted_at < _PATIENCE:
        return ""
    return (
        "No worker of the service has started this run yet. It starts when a worker is free. If no other "
        "sync is running, check that a service process has workers for syncs (CARREL_DOCSTORE_WORKERS)."
    )


def json_fault(error: ValueError | RecursionError, *, in_line: bool = False) -> str:
    """Return where a text stops being JSON (`in_line`: without the line), and why; another error as its own text."""
    if not isinstance(error, JSONDecodeError):
        return str(error)
    has_comma = error.doc[: error.pos].rstrip().endswith(",") and error.doc[error.pos :].lstrip()[:1] in {"}", "]"}
    place = f"column {error.colno}" if in_line else f"line {error.lineno}, column {error.colno}"
    return f"{place}: {'a trailing comma' if has_comma else error.msg}"
