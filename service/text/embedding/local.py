"""The local model: onnxruntime on the service's own cores."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from service.platform import traces
from service.text.embedding.batching import Tokens
from service.text.embedding.engine import Arithmetic, Engine
from service.text.embedding.models import EmbeddingModel, minilm
from service.text.embedding.prepared import Precision
from service.text.embedding.tokenizer import WordPieces
from service.text.embedding.weights import locate

_INLINE_CHARACTERS = 2000
"""Up to here (a search query, say) tokenizing takes less time than handing it to a thread."""

_SLICE = 256
"""Texts tokenized at a time, so that a cancelled call soon stops."""


class LocalEmbedder:
    """all-MiniLM-L6-v2: texts to tokens here, tokens to vectors by an `Engine`, in this process or in another."""

    def __init__(self, arithmetic: Arithmetic, tokenizer: WordPieces) -> None:
        self.model: EmbeddingModel = minilm()
        self.tokenizer = tokenizer
        self.texts_embedded = 0
        self._arithmetic = arithmetic

    @classmethod
    async def open(
        cls, folder: Path, *, precision: Precision, threads: int | None = None, arithmetic: Arithmetic | None = None
    ) -> "LocalEmbedder":
        """Load the tokenizer, and an engine from `folder` unless `arithmetic` is given; raises ModelFilesError."""

        def load() -> tuple[Arithmetic, WordPieces]:
            tokenizer = WordPieces(locate().tokenizer)
            return arithmetic or Engine.open(folder, precision=precision, threads=threads), tokenizer

        return cls(*await asyncio.to_thread(load))

    async def embed(self, texts: Sequence[str], *, in_background: bool = False) -> NDArray[np.float32]:
        """Return a unit row for each text, read to 256 tokens; raises Unavailable (Retry-After) under load."""
        if not texts:
            return np.empty((0, self.model.dimensions), np.float32)
        with traces.span("embed", {"carrel.model": self.model.name, "carrel.texts": len(texts)}):
            rows = await self._arithmetic.embed(await self._token_ids(texts), in_background=in_background)
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
        """Stop the arithmetic; calls under way fail with Unavailable."""
        await self._arithmetic.close()
