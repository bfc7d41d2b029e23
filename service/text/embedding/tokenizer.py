"""The model's word pieces, for counting, cutting and feeding it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

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
