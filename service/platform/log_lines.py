"""Log lines for people at a terminal: one for each event."""

from collections.abc import Mapping

# The line has its own place for these, or a reader at a terminal has no use for them.
_BESIDE = frozenset({"event", "level", "logger", "timestamp", "exception", "stack_info"})


def line_of(event: Mapping[str, object]) -> str:
    """Return one line: the level, the event in words, its details, and the last line of its traceback."""
    words = str(event.get("event", ""))
    if words.isidentifier():
        words = words.replace("_", " ").capitalize()
    details = [f"{name}={value}" for name, value in event.items() if name not in _BESIDE and value not in (None, "")]
    if trace := str(event.get("exception", "")).strip():
        details.append(trace.splitlines()[-1].lstrip(" |+-"))
    line = f"{event.get('level', 'info')}: {words}" + (f" ({', '.join(details)})" if details else "")
    return " ".join(line.split())
