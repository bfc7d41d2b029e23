"""Text from files: `Extractor` reads them in worker processes, `Block`s are what they say.

Whoever imports this package pays for `Extractor` only when it is used: the workers, too, import from here, and have no
use for the service's web framework.
"""

import os
from typing import TYPE_CHECKING, Any

from service.text.extraction.blocks import (
    Block,
    BlockKind,
    ContainedFile,
    Extraction,
    FoundPicture,
    NotRead,
    are_short,
    iterate_blocks,
    pack_blocks,
    unpack_blocks,
)
from service.text.extraction.building import Limits

# Decided here, before openpyxl is imported, and not by whether defusedxml happens to be installed: archives.py refuses
# declarations already, expat bounds expansion by itself, and defusedxml's parser in Python takes three times as long.
os.environ.setdefault("OPENPYXL_DEFUSEDXML", "False")

if TYPE_CHECKING:
    from service.text.extraction.workers import Extractor, UnreadableFile

__all__ = [
    "Block",
    "BlockKind",
    "ContainedFile",
    "Extraction",
    "Extractor",
    "FoundPicture",
    "Limits",
    "NotRead",
    "UnreadableFile",
    "are_short",
    "iterate_blocks",
    "pack_blocks",
    "unpack_blocks",
]


def __getattr__(name: str) -> Any:
    if name in {"Extractor", "UnreadableFile"}:
        from service.text.extraction import workers  # noqa: PLC0415 - see above

        return getattr(workers, name)
    raise AttributeError(name)
