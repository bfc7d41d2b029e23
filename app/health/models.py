"""A finding of the page Health."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from app.ui.help import help_address


class Level(StrEnum):
    """The level of a health finding."""

    FINE = "OK"
    BUSY = "Running"
    TROUBLE = "Needs attention"


@dataclass(frozen=True)
class PageLink:
    """A link to a page of the workbench or of help: its label, and its address."""

    name: str
    address: str


@dataclass(frozen=True)
class Finding:
    """A finding about one part: a sentence, what to do if something is wrong, and the page to do it on."""

    about: str
    level: Level
    said: str
    todo: str = ""
    see: PageLink | None = None


def help_page(topic: str) -> PageLink:
    """Return a link to a page of help, which says what to do."""
    return PageLink("What to do", help_address(topic))


def is_late(at: datetime | None, now: datetime, limit: timedelta) -> bool:
    """Return whether a time was longer ago than the limit."""
    return at is not None and now - at > limit
