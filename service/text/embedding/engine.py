"""The arithmetic of the local model: tokens to vectors, in this process."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from service.platform.settings import usable_cores
from service.text.embedding.batching import Batcher, BatchLimits, Rows, Tokens
from service.text.embedding.prepared import Precision, prepare
from service.text.embedding.session import Session
from service.text.embedding.weights import ModelFiles, locate

DOCUMENTS_NICENESS = 10
"""A core that a query wants is its own within a moment: one more such step would hardly be felt."""

_ONE_BY_ONE = BatchLimits(texts=1)
"""In int8, whose small products cost so little that batches gain nothing, and would make vectors depend on company."""


class Arithmetic(Protocol):
    """What computes vectors from tokens."""

    async def embed(self, texts: Sequence[Tokens], *, in_background: bool) -> Rows:
        """Return a row for each text, in their order; Unavailable (with Retry-After) when too much waits already."""
        ...

    async def close(self) -> None:
        """Stop; calls under way fail with Unavailable."""
        ...


class Engine:
    """A session of onnxruntime behind micro-batchers of queries and of documents, whose threads yield. Each thread uses
    one core: measured, long texts are as fast as with two cores and short texts half again as fast. On a busy core
    documents mostly rest while they `must_rest`."""

    def __init__(
        self,
        session: Session,
        *,
        threads: int | None = None,
        limits: BatchLimits | None = None,
        must_rest: Callable[[], bool] = lambda: False,
    ) -> None:
        workers = threads or usable_cores()
        self._queries = Batcher(session.run, workers=workers, limits=limits)
        self._documents = Batcher(
            session.run, workers=workers, limits=limits, niceness=DOCUMENTS_NICENESS, must_rest=must_rest
        )

    @classmethod
    def open(cls, folder: Path, *, precision: Precision, files: ModelFiles | None = None, **options: Any) -> "Engine":
        """Load the graph from `folder`, building it there first if need be; blocks, and raises ModelFilesError."""
        session = Session(prepare(folder, precision, files=files or locate()))
        return cls(session, limits=_ONE_BY_ONE if precision == "int8" else None, **options)

    async def embed(self, texts: Sequence[Tokens], *, in_background: bool) -> Rows:
        batcher = self._documents if in_background else self._queries
        with batcher.admit(len(texts)):
            return await batcher.embed(texts)

    async def close(self) -> None:
        await asyncio.gather(*(asyncio.to_thread(each.close) for each in (self._queries, self._documents)))
