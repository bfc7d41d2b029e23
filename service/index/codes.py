"""Binary codes of embeddings, on pages of a few chunks: signs of (embedding - the model's mean)."""

from collections.abc import Sequence
from functools import cache
from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray

from service.schema.indexing import CHUNKS_PER_PAGE


def binary_codes(embeddings: NDArray[np.float32], mean: NDArray[np.float32]) -> list[str]:
    """Return each row's code as a PostgreSQL bit string with the model's dimensions."""
    signs = np.where(embeddings > mean, np.uint8(ord("1")), np.uint8(ord("0")))
    return [row.tobytes().decode("ascii") for row in signs]


def pages_of(codes: Sequence[str]) -> list[list[str | None]]:
    """Divide a document's codes, in the order of its chunks, into pages; the last page is padded with None."""
    return [list(page) for page in zip_longest(*[iter(codes)] * CHUNKS_PER_PAGE)]


def as_vector(embedding: NDArray[np.float32] | NDArray[np.float16]) -> str:
    """Write a vector in pgvector's format, to six digits: a `halfvec` keeps the first three or four."""
    numbers = tuple(embedding.tolist())
    return _format_of(len(numbers)) % numbers


@cache
def _format_of(dimensions: int) -> str:
    """Return a single format for all of a vector's numbers, four times as fast as formatting each number."""
    return "[" + ",".join(["%.6g"] * dimensions) + "]"


def from_binary(sent: bytes) -> NDArray[np.float32]:
    """Read a `halfvec` in the server's binary format: two 16-bit numbers (dimensions, unused), then the values."""
    return np.frombuffer(sent, ">f2", offset=4).astype(np.float32)
