"""The local model: onnxruntime on the service's own cores."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from service.text.embedding.batching import Batcher, BatchLimits, Tokens
from service.text.embedding.models import EmbeddingModel, minilm
from service.text.embedding.prepared import Precision, prepare
from service.text.embedding.session import Session
from service.text.embedding.tokenizer import WordPieces
from service.text.embedding.weights import locate

_INLINE_CHARACTERS = 2000
"""Up to here (a search query, say) tokenizing takes less time than handing it to a thread."""

_SLICE = 256
"""Texts tokenized at a time, so that a cancelled call soon stops."""


_ONE_BY_ONE = BatchLimits(texts=1)
"""In int8, whose small products cost so little that batches gain nothing, and would make vectors depend on company."""


class LocalEmbedder:
    """all-MiniLM-L6-v2 behind a micro-batcher; created by `open`, as building and loading the graph take a moment.

    Each worker thread runs the one session on one core: measured on two cores this is as fast for long texts as one
    batch on both, half again as fast for short ones, and leaves no thread spinning.
    """

    def __init__(
        self, session: Session, tokenizer: WordPieces, *, threads: int | None = None, limits: BatchLimits | None = None
    ) -> None:
        self.model: EmbeddingModel = minilm()
        self.tokenizer = tokenizer
        self.texts_embedded = 0
        workers = threads or len(os.sched_getaffinity(0))
        self._batcher = Batcher(session.run, width=self.model.dimensions, workers=workers, limits=limits)

    @classmethod
    async def open(cls, folder: Path, *, precision: Precision = "fp32", threads: int | None = None) -> "LocalEmbedder":
        """Load the graph from `folder`, building it there first if need be; raises ModelFilesError."""

        def load() -> tuple[Session, WordPieces]:
            files = locate()
            return Session(prepare(folder, precision, files=files)), WordPieces(files.tokenizer)

        session, tokenizer = await asyncio.to_thread(load)
        return cls(session, tokenizer, threads=threads, limits=_ONE_BY_ONE if precision == "int8" else None)

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one row of unit length for each text, in their order; what is beyond 256 tokens is not read.

        Raises Unavailable (with Retry-After) when too much is waiting already.
        """
        if not texts:
            return np.empty((0, self.model.dimensions), np.float32)
        with self._batcher.admit(len(texts)):
            rows = await self._batcher.embed(await self._token_ids(texts))
        self.texts_embedded += len(texts)
        return rows

    async def _token_ids(self, texts: Sequence[str]) -> list[Tokens]:
        if sum(map(len, texts)) <= _INLINE_CHARACTERS:
            return self.tokenizer.token_ids(texts)
        ids: list[Tokens] = []
        for start in range(0, len(texts), _SLICE):
            ids += await asyncio.to_thread(self.tokenizer.token_ids, texts[start : start + _SLICE])
        return ids

    async def close(self) -> None:
        """Stop the workers; calls under way fail with Unavailable."""
        await asyncio.to_thread(self._batcher.close)
