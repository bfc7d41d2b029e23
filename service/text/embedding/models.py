"""An embedding model's properties, the word pieces for counting, cutting and input, and an embedder's interface."""

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from tokenizers import BertWordPieceTokenizer, Tokenizer

MAX_TOKENS = 256  # the model's trained limit, including its two special tokens

SPECIAL_TOKENS = 2  # `[CLS]` before a text and `[SEP]` after it

MAX_PIECES = MAX_TOKENS - SPECIAL_TOKENS

_LONGEST_READ = 65_536
"""Characters of a text examined for its first MAX_PIECES pieces; words of 100 characters or more are a single piece."""

_SLICE = 1024  # texts encoded at once: an encoding needs some hundred bytes per piece until it is dropped


@dataclass(frozen=True, slots=True)
class Pieces:
    """A text's word pieces: the `ends` in characters, and numbers of `words`. Cuts between words change no piece."""

    ends: list[int]
    words: list[int | None]


class WordPieces:
    """The tokenizer of tokenizer.json or vocab.txt, with its truncation and padding replaced; thread-safe."""

    def __init__(self, path: Path, *, max_tokens: int = MAX_TOKENS) -> None:
        self._tokenizer, self._max_tokens = _load(path), max_tokens

    def count(self, texts: Sequence[str]) -> list[int]:
        """Count the word pieces of each text, without special tokens."""
        return [
            len(encoding)
            for start in range(0, len(texts), _SLICE)
            for encoding in self._tokenizer.encode_batch_fast(texts[start : start + _SLICE], add_special_tokens=False)
        ]

    def split(self, texts: Sequence[str]) -> list[Pieces]:
        encodings = self._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        return [Pieces([end for _, end in encoding.offsets], encoding.word_ids) for encoding in encodings]

    def cut(self, text: str, pieces: int) -> str:
        """Return the beginning of a text: at most a number of pieces, and `_LONGEST_READ` characters."""
        ends = self.split([text[:_LONGEST_READ]])[0].ends
        return text[:_LONGEST_READ] if len(ends) <= pieces else text[: ends[pieces - 1]]

    def token_ids(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        """Return each text's model input, including special tokens, cut at the model's limit."""
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
    """An embedding model, by the name in collections. Binary codes are the signs of (embedding - `mean`), so codes
    differ enough. `weights_of_words`: words' weight relative to meaning, by stemming (empty: the model knows all)."""

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
        """Return a unit row per text, in order; text beyond the model's limit is ignored. Documents `in_background`
        delay no queries. Raises Unavailable (with Retry-After) when saturated or unreachable."""
        ...

    async def close(self) -> None:
        """Release threads and connections; running calls fail with Unavailable."""
        ...


def minilm() -> EmbeddingModel:
    """Return the local model; files next to this module contain the numbers and how they were measured."""
    mean = np.array(json.loads(_MEAN_FILE.read_text())["mean"], np.float32)
    return EmbeddingModel(MINILM, len(mean), mean, tomllib.loads(_WORDS_FILE.read_text())["weights"])
