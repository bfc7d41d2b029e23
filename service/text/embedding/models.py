"""The properties of an embedding model, its word pieces for counting, cutting and feeding it, and the interface of an
embedder."""

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from tokenizers import BertWordPieceTokenizer, Tokenizer

MAX_TOKENS = 256
"""What the model was trained for, its two special tokens included."""

SPECIAL_TOKENS = 2
"""`[CLS]` before a text and `[SEP]` after it."""

MAX_PIECES = MAX_TOKENS - SPECIAL_TOKENS

_LONGEST_READ = 65_536
"""Characters of a text that are looked at for its first MAX_PIECES pieces; words of 100 and more are one piece each."""

_SLICE = 1024
"""Texts encoded at once: an encoding holds some hundred bytes a piece until it is dropped."""


@dataclass(frozen=True, slots=True)
class Pieces:
    """The word pieces of one text: `ends` holds the character offset just behind each piece, `words` the number of its
    word. Pieces of different words never depend on each other, so a text may be cut between them."""

    ends: list[int]
    words: list[int | None]


class WordPieces:
    """The tokenizer of tokenizer.json or vocab.txt, with its truncation and padding replaced; safe in any thread."""

    def __init__(self, path: Path, *, max_tokens: int = MAX_TOKENS) -> None:
        self._tokenizer, self._max_tokens = _load(path), max_tokens

    def count(self, texts: Sequence[str]) -> list[int]:
        """Count the word pieces of each text, special tokens not included."""
        return [
            len(encoding)
            for start in range(0, len(texts), _SLICE)
            for encoding in self._tokenizer.encode_batch_fast(texts[start : start + _SLICE], add_special_tokens=False)
        ]

    def split(self, texts: Sequence[str]) -> list[Pieces]:
        """Return where the word pieces of each text end."""
        encodings = self._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        return [Pieces([end for _, end in encoding.offsets], encoding.word_ids) for encoding in encodings]

    def cut(self, text: str, pieces: int) -> str:
        """Return the longest beginning of the text of at most so many (and at most MAX_PIECES) word pieces."""
        ends = self.split([text[:_LONGEST_READ]])[0].ends
        return text[:_LONGEST_READ] if len(ends) <= pieces else text[: ends[pieces - 1]]

    def token_ids(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        """Return each text's model input, special tokens included, cut at the model's limit."""
        encodings = self._tokenizer.encode_batch_fast([text[:_LONGEST_READ] for text in texts])
        most = self._max_tokens
        return [np.array([*each.ids[: most - 1], *each.ids[most - 1 :][-1:]], np.int64) for each in encodings]


def _load(path: Path) -> Tokenizer:
    is_json = path.suffix == ".json"
    tokenizer = (
        Tokenizer.from_file(str(path)) if is_json else Tokenizer.from_str(BertWordPieceTokenizer(str(path)).to_str())
    )
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


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
