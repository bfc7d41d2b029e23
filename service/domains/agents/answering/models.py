"""Inputs and results of answering."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from carrel.wire.agents import AgentRetrieval
from carrel.wire.places import PassagePlace
from service.auth.callers import Caller
from service.platform.errors import Unavailable


@dataclass(frozen=True, slots=True)
class Exchange:
    message: str
    reply: str


@dataclass(frozen=True, slots=True)
class Assignment:
    """A message to answer. `sender` returns the caller with current rights, or raises Forbidden or NotFound; each
    search calls it. `model` None means the service's default. `history` is the readable conversation, oldest first."""

    sender: Callable[[], Awaitable[Caller]]
    message: str
    instructions: str = ""
    model: str | None = None
    collection_ids: Sequence[UUID] = ()
    history: Sequence[Exchange] = ()
    retrieval: AgentRetrieval = field(default_factory=AgentRetrieval)


@dataclass(frozen=True, slots=True)
class Part:
    """A chunk within a passage, from the character `start` on; `rank` counts what was found, the best 0."""

    start: int
    chunk_no: int
    place: PassagePlace | None
    rank: int | None = None


@dataclass(frozen=True, slots=True)
class Passage:
    """Text readable by the caller when retrieved: a chunk, or `parts` of a section in a row. `chunk_no` is of the first
    chunk and `place` of the best found, in this `version`."""

    document_id: UUID
    document_name: str
    text: str
    score: float
    chunk_no: int = 0
    place: PassagePlace | None = None
    collection_id: UUID | None = None
    version: int | None = None
    parts: Sequence[Part] = ()

    def find(self, quote: str) -> Part:
        """Return the chunk where a quote begins."""
        start = max(self.text.find(quote), 0)
        return next((part for part in reversed(self.parts) if part.start <= start), Part(0, self.chunk_no, self.place))


@dataclass(frozen=True, slots=True)
class Citation:
    """Words of a passage (`passage_no` from 0); `unsupported` lists parts of the reply missing from the passage."""

    passage_no: int
    quote: str
    unsupported: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reply:
    """The checked text and the passages. With `quotes_only`, all text except fixed phrases is cited."""

    text: str
    model: str
    passages: Sequence[Passage] = ()
    citations: Sequence[Citation] = ()
    warnings: Sequence[str] = field(default_factory=tuple[str, ...])
    quotes_only: bool = False


Progress = Callable[[str, Sequence[Passage]], Awaitable[None]]
"""Receives the text so far again and again, with all passages behind the text."""


class ModelFailure(Unavailable, code="model_unavailable"):
    """503: the model gave no reply. The message gives cause and remedy, and repeats no provider text."""
