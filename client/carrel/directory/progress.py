"""The progress of an import. Imports nothing, so that programs can show progress without loading the client."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of an import: `done` of `total` (None: not known yet) in a stage such as `reading users`."""

    stage: str
    done: int
    total: int | None


OnProgress: TypeAlias = Callable[[Progress], None]


def unheard(progress: Progress) -> None:
    """Ignore the progress."""
