"""The properties of an embedding model, and the interface of an embedder."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from service.text.embedding.tokenizer import WordPieces

MINILM = "all-MiniLM-L6-v2"

_MEAN_FILE = Path(__file__).with_name("all-MiniLM-L6-v2.mean.json")


@dataclass(frozen=True, eq=False)
class EmbeddingModel:
    """A model by the name that collections are created with. `mean` is that of ordinary embeddings: binary codes
    are the signs of (embedding - mean), so that they differ enough."""

    name: str
    dimensions: int
    mean: NDArray[np.float32]


class Embedder(Protocol):
    """Turns texts into vectors. `tokenizer` measures the chunks; `texts_embedded` counts since the start."""

    model: EmbeddingModel
    tokenizer: WordPieces
    texts_embedded: int

    async def embed(self, texts: Sequence[str], *, in_background: bool = False) -> NDArray[np.float32]:
        """Return one row of unit length per text, in order; text beyond the model's limit is ignored. Documents' texts
        are `in_background`, and delay no others. Unavailable (with Retry-After) when saturated or out of reach."""
        ...

    async def close(self) -> None:
        """Release threads and connections; running calls fail with Unavailable."""
        ...


def minilm() -> EmbeddingModel:
    """Return the local model; its mean is in the file beside this module, which says how it was computed."""
    mean = np.array(json.loads(_MEAN_FILE.read_text())["mean"], np.float32)
    return EmbeddingModel(MINILM, len(mean), mean)
