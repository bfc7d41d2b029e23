"""Reading files: the door to `extraction` and `recognition`, the only module through which other packages use them.

An `Extractor` reads a file's text in worker processes with limits of time and memory (`Limits`), and raises
UnreadableFile for a file that can't be read. The text is a sequence of `Block`s (headings, paragraphs, rows), which
`pack_blocks` turns into bytes to keep, and `unpack_blocks` into blocks again. Beside the text it gives the pictures
(`FoundPicture`) and the files (`ContainedFile`) in a file, and the parts that it left out (`NotRead`).

A `PageReader` reads the text in the pixels of a scanned page or picture, and raises UnreadablePage, or
ReadingInterrupted when the page is to be read again later."""

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
