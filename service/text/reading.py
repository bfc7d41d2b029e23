"""Reading files: the only module through which other packages use `extraction` and `recognition`. An `Extractor` reads
a file's text in worker processes with limits (`Limits`), and raises UnreadableFile. The text is a sequence of `Block`s
(headings, paragraphs, rows), stored by `pack_blocks` and `unpack_blocks`, with the pictures (`FoundPicture`), the
contained files (`ContainedFile`) and the parts left out (`NotRead`). A `PageReader` reads the text in the pixels of a
scanned page or picture, and raises UnreadablePage, or ReadingInterrupted when the page must be read again later."""

from service.text.extraction.blocks import (
    Block,
    ContainedFile,
    Extraction,
    FoundPicture,
    NotRead,
    are_short,
    iterate_blocks,
    pack_blocks,
    unpack_blocks,
)
from service.text.extraction.building import MOST_PLACES, Limits
from service.text.extraction.workers import Extractor, UnreadableFile
from service.text.recognition.workers import PageReader, ReadingInterrupted, UnreadablePage

__all__ = [
    "MOST_PLACES",
    "Block",
    "ContainedFile",
    "Extraction",
    "Extractor",
    "FoundPicture",
    "Limits",
    "NotRead",
    "PageReader",
    "ReadingInterrupted",
    "UnreadableFile",
    "UnreadablePage",
    "are_short",
    "iterate_blocks",
    "pack_blocks",
    "unpack_blocks",
]
