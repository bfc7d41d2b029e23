"""The properties of an embedding model, and the interface of an embedder."""

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from service.text.embedding.tokenizer import WordPieces

MINILM = "all-MiniLM-L6-v2"

_MEAN_FILE = Path(__file__).with_name("all-MiniLM-L6-v2.mean.json")
_WORDS_FILE = Path(__file__).with_name("all-MiniLM-L6-v2.words.toml")


@dataclass(frozen=True, eq=False)
class EmbeddingModel:
    """A model by the name that collections are created with. `mean` is that of ordinary embeddings: binary codes
    are the signs of (embedding - mean), so that they differ enough. `weights_of_words`: how much words count beside
    meaning, by stemmings of languages (empty: the model knows all)."""

    name: str
    dimensions: int
    mean: NDArray[np.float32]
    weights_of_words: Mapping[str, float] = field(default_factory=dict[str, float])


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
    """Return the local model; files beside this module have its numbers, and say how they were measured."""
    mean = np.array(json.loads(_MEAN_FILE.read_text())["mean"], np.float32)
    return EmbeddingModel(MINILM, len(mean), mean, tomllib.loads(_WORDS_FILE.read_text())["weights"])
