"""Numbers and durations as text for people."""


def count_text(number: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun: 1 document, 2,304 documents."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def capitalize(text: str) -> str:
    """Return a text with a capital first letter, and the rest unchanged."""
    return text[:1].upper() + text[1:]


def rate_text(per_second: float, what: str) -> str:
    """Return a pace in the unit that makes it a number to look at: 12.5 documents a second, 6 documents a minute."""
    for seconds, unit in ((1, "a second"), (60, "a minute"), (3600, "an hour")):
        number = per_second * seconds
        if number >= 1:
            return f"{number:,.1f} {what}s {unit}" if seconds == 1 else f"{count_text(round(number), what)} {unit}"
    return ""


def duration_text(seconds: float) -> str:
    """Return a rough duration: about 40 s, about 12 min, about 3 h."""
    if seconds < 90:
        return f"about {max(1, round(seconds))} s"
    if seconds < 90 * 60:
        return f"about {round(seconds / 60)} min"
    return f"about {round(seconds / 3600)} h"
