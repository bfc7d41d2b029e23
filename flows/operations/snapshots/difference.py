"""The difference of two snapshots, as values that are shown, published and stored with the newer one."""

from typing import Literal

from pydantic import BaseModel, ConfigDict


class Change(BaseModel):
    """A change that a number of resources have in common; `who` and `examples` are the first of them."""

    model_config = ConfigDict(frozen=True)

    change: Literal["widened", "narrowed"]
    resources: int
    people: int
    who: list[str]
    examples: list[str]


class Difference(BaseModel):
    """The changes since `since`, of READ only: an editor may read as much as a viewer.

    `widened` and `narrowed` are resources in both snapshots that somebody may read now or no more; one can be both.
    `gained` and `lost` count pairs of a person and a resource. `changes` are the largest, `more` those left out.
    """

    model_config = ConfigDict(frozen=True)

    since: str
    consistent: bool
    same: int
    widened: int
    narrowed: int
    added: int
    removed: int
    gained: int
    lost: int
    joined: int
    left: int
    changes: list[Change]
    more: int

    @property
    def is_empty(self) -> bool:
        """Whether nobody may read more or less than before."""
        return not (self.widened or self.narrowed or self.added or self.removed)

    def text(self) -> str:
        """Return the figures in one line, for people."""
        parts = (
            f"{self.widened:,} widened ({_times(self.gained)} somebody may read something now)",
            f"{self.narrowed:,} narrowed ({_times(self.lost)} somebody may no more)",
            f"{self.added:,} new",
            f"{self.removed:,} gone",
            f"{self.same:,} as they were",
        )
        joined = f"{self.joined:,} {'person' if self.joined == 1 else 'people'} joined"
        people = f"; {joined}, {self.left:,} left" if self.joined or self.left else ""
        return f"Since {self.since}: {', '.join(parts)}{people}."


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number:,} times"
