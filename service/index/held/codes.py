"""Codes in memory: of the chunks that a reader may read, those that are nearest to a query."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.schema.indexing import CHUNKS_PER_PAGE

# So many codes are compared at once: what is computed of them stays in the cache of the processor.
AT_ONCE = 1 << 14
# Of so many chunks, the nearest by the bits that differ, the query's numbers choose the nearest.
WEIGHED = 8000

_PLACE = np.dtype([("document", "V16"), ("page_no", ">i4"), ("codes", ">i4")])
_LENGTH = 4  # bytes before each code, with its length

Words = NDArray[np.uint64]
Numbers = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class ClassPages:
    """Code pages of an access class as the database sends them: the pages' places, and the codes on them, as the
    `snapshot` sees them."""

    access_class: int
    places: bytes
    codes: bytes
    snapshot: str


class Near(NamedTuple):
    """Chunks that are near to a query: how near their codes are, their documents, and their numbers there."""

    nearness: NDArray[np.float32]
    documents: NDArray[np.void]
    chunk_numbers: NDArray[np.int32]


class Proposed(NamedTuple):
    """Chunks to score, by document and number, each once; `is_all`: the access classes have no others."""

    chunks: list[tuple[bytes, int]]
    is_all: bool


@dataclass(frozen=True, slots=True)
class CodeTable:
    """Codes, in columns of 64 bits and in the order of their access classes, with the pages that they are from."""

    words: Words
    classes: NDArray[np.int64]
    class_starts: Numbers
    pages: NDArray[np.void]
    page_starts: Numbers

    @classmethod
    def of(cls, pages: Sequence[ClassPages], *, dimensions: int) -> "CodeTable":
        """Make the table of pages that are in the order of their classes."""
        code_bytes = _LENGTH + dimensions // 8
        counts = np.array([len(each.codes) // code_bytes for each in pages], np.intp)
        starts = _starts_of(counts)
        words = np.empty((dimensions // 64, counts.sum()), np.uint64)
        for each, start, count in zip(pages, starts.tolist(), counts.tolist(), strict=True):
            codes = np.frombuffer(each.codes, np.uint8).reshape(count, code_bytes)[:, _LENGTH:]
            words[:, start : start + count] = np.ascontiguousarray(codes).view(np.uint64).T
        classes, firsts = np.unique(np.array([each.access_class for each in pages], np.int64), return_index=True)
        places = np.frombuffer(b"".join(each.places for each in pages), _PLACE)
        return cls(words, classes, np.append(starts[firsts], len(words.T)), places, _starts_of(places["codes"]))

    def rows_of(self, classes: NDArray[np.int64]) -> Numbers:
        """Return the rows of access classes, of which each is given once."""
        held = np.flatnonzero(np.isin(self.classes, classes, assume_unique=True))
        starts = self.class_starts[held]
        counts = self.class_starts[held + 1] - starts
        before: Numbers = np.repeat(starts - _starts_of(counts), counts)
        return before + np.arange(len(before))

    def find_nearest(self, rows: Numbers, code: Words, weights: NDArray[np.float32], *, most: int) -> Near:
        """Return the `most` rows that weigh most, of the nearest rows by the bits in which they differ."""
        distances, enough = self._compare(rows, code), max(WEIGHED, most)
        furthest = np.searchsorted(np.cumsum(np.bincount(distances)), enough)
        closer, last = rows[distances < furthest], rows[distances == furthest]
        near: Numbers = np.concatenate([closer, last[: enough - len(closer)]])
        signs = (
            self.words.take(near, axis=1).view(np.uint8).reshape(len(self.words), len(near), 8).swapaxes(1, 2).copy()
        )
        nearness = np.zeros(len(near), np.float32)
        for weight, column in zip(weights, signs.reshape(len(weights), len(near)), strict=True):
            nearness += weight.take(column)
        best = np.argsort(-nearness, kind="stable")[:most]
        pages = np.searchsorted(self.page_starts, near[best], side="right") - 1
        numbers = self.pages["page_no"][pages] * CHUNKS_PER_PAGE + near[best] - self.page_starts[pages]
        return Near(nearness[best], self.pages["document"][pages], numbers)

    def _compare(self, rows: Numbers, code: Words) -> NDArray[np.uint16]:
        found = np.zeros(len(rows), np.uint16)
        taken, ones = np.empty(AT_ONCE, np.uint64), np.empty(AT_ONCE, np.uint8)
        for start in range(0, len(rows), AT_ONCE):
            part, sums = rows[start : start + AT_ONCE], found[start : start + AT_ONCE]
            differing, bits = taken[: len(part)], ones[: len(part)]
            for column, word in zip(self.words, code, strict=True):
                np.take(column, part, out=differing, mode="clip")
                np.bitwise_xor(differing, word, out=differing)
                sums += np.bitwise_count(differing, out=bits)
        return found


@dataclass(frozen=True, eq=False)
class HeldCodes:
    """The codes of a space as a snapshot of the database saw them, beside some that were replaced or removed before.

    It never changes, so that a search whose snapshot is later misses nothing, whatever other searches see."""

    space_id: int
    dimensions: int
    timeline: int
    snapshot: str
    first: CodeTable
    changes: tuple[ClassPages, ...] = ()

    @cached_property
    def tables(self) -> Sequence[CodeTable]:
        """The codes of the first snapshot, and those that later snapshots added."""
        return (self.first, CodeTable.of(self.changes, dimensions=self.dimensions)) if self.changes else (self.first,)

    @property
    def size(self) -> int:
        """The bytes in memory, but for those of a few changes."""
        return self.first.words.nbytes + self.first.pages.nbytes + self.first.page_starts.nbytes

    @property
    def changed_pages(self) -> int:
        return sum(len(each.places) for each in self.changes) // _PLACE.itemsize

    def with_changes(self, changes: Sequence[ClassPages]) -> "HeldCodes":
        """Return the codes as a later snapshot sees them; `changes` are the pages that only the later one sees."""
        both = sorted((*self.changes, *changes), key=attrgetter("access_class"))
        return replace(self, snapshot=changes[0].snapshot, changes=tuple(both))

    def find_nearest(
        self, classes: NDArray[np.int64], code: str, vector: NDArray[np.float32], *, most: int, much: int
    ) -> Proposed | None:
        """Return at most `most` chunks of access classes that are nearest to a query; None where these have little."""
        rows = [table.rows_of(classes) for table in self.tables]
        if sum(map(len, rows)) < much:
            return None
        asked = np.packbits(np.frombuffer(code.encode(), np.uint8) - ord("0")).view(np.uint64)
        weights = vector.reshape(-1, 8) @ _BITS
        found = [
            table.find_nearest(each, asked, weights, most=most) for table, each in zip(self.tables, rows, strict=True)
        ]
        nearness, documents, numbers = map(np.concatenate, zip(*found, strict=True))
        order = np.argsort(-nearness, kind="stable")
        # A chunk that has changed is in both tables.
        chunks = dict.fromkeys(zip(documents[order].tolist(), numbers[order].tolist(), strict=True))
        return Proposed(list(chunks)[:most], is_all=sum(map(len, rows)) <= most)


def _starts_of(counts: NDArray[np.integer]) -> Numbers:
    return np.cumsum(counts, dtype=np.intp) - counts


# The bits of each byte, in columns.
_BITS = np.unpackbits(np.arange(256, dtype=np.uint8)[:, np.newaxis], axis=1).T.astype(np.float32)
