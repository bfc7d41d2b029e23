"""The local model: onnxruntime on the service's own cores."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from service.platform import traces
from service.text.embedding.batching import Tokens
from service.text.embedding.engine import Arithmetic, Engine
from service.text.embedding.models import MINILM, EmbeddingModel, minilm
from service.text.embedding.prepared import Precision, prepare, read_mean
from service.text.embedding.tokenizer import WordPieces
from service.text.embedding.weights import ModelFiles, locate

_INLINE_CHARACTERS = 2000
"""Up to here (a search query, say) tokenizing takes less time than handing it to a thread."""

_SLICE = 256
"""Texts tokenized at a time, so that a cancelled call soon stops."""


class LocalEmbedder:
    """all-MiniLM-L6-v2 or a folder's model: texts to tokens here, tokens to vectors by an `Engine`, in this process or
    in another. `tokenizer` measures chunks; the model's own feeds it."""

    def __init__(self, model: EmbeddingModel, arithmetic: Arithmetic, files: ModelFiles) -> None:
        self.model: EmbeddingModel = model
        self.tokenizer = self._own = WordPieces(files.tokenizer, max_tokens=files.max_tokens)
        self.texts_embedded = 0
        self._arithmetic, self._prefixes = arithmetic, files.prefixes

    @classmethod
    async def open(
        cls,
        folder: Path,
        *,
        precision: Precision,
        arithmetic: Arithmetic | None = None,
        files: ModelFiles | None = None,
    ) -> "LocalEmbedder":
        """Load the tokenizer, and an engine from `folder` unless `arithmetic` is given; raises ModelFilesError."""
        files = files or locate()

        def load() -> "LocalEmbedder":
            model = minilm()
            if files.name != MINILM:
                mean = read_mean(prepare(folder, precision, files=files))
                model = EmbeddingModel(files.name, len(mean), mean)
            return cls(model, arithmetic or Engine.open(folder, precision=precision, files=files), files)

        return await asyncio.to_thread(load)

    async def embed(self, texts: Sequence[str], *, in_background: bool = False) -> NDArray[np.float32]:
        """Return a unit row for each text, read to the model's limit; raises Unavailable (Retry-After) under load."""
        if not texts:
            return np.empty((0, self.model.dimensions), np.float32)
        with traces.span("embed", {"carrel.model": self.model.name, "carrel.texts": len(texts)}):
            texts, tokens = [self._prefixes[in_background] + text for text in texts], list[Tokens]()
            if sum(map(len, texts)) <= _INLINE_CHARACTERS:
                tokens = self._own.token_ids(texts)
            while len(tokens) < len(texts):
                tokens += await asyncio.to_thread(self._own.token_ids, texts[len(tokens) : len(tokens) + _SLICE])
            rows = await self._arithmetic.embed(tokens, in_background=in_background)
        self.texts_embedded += len(texts)
        return rows

    async def close(self) -> None:
        """Stop the arithmetic; calls under way fail with Unavailable."""
        await self._arithmetic.close()
