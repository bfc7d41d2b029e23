"""Reading a page inside a worker process, within limits of memory and time; see `service.text.extraction.task`."""

import os
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from service.text.extraction.blocks import pack_blocks
from service.text.extraction.failures import Unreadable
from service.text.extraction.pages import is_known, open_page
from service.text.extraction.task import limit_processor
from service.text.extraction.task import prepare as limit_process
from service.text.recognition.engine import Recognizer
from service.text.recognition.layout import make_blocks

_recognizers: list[Recognizer] = []


class ReadPage(NamedTuple):
    """A page's packed blocks; without blocks, `error` says why in a sentence, and `cause` is any unexpected error."""

    packed: bytes = b""
    error: str | None = None
    cause: str | None = None


def prepare(memory_bytes: int, niceness: int) -> None:
    """Limit the process, lower the priority, and load the models."""
    os.nice(niceness)
    limit_process(memory_bytes)
    _recognizers.append(Recognizer())


def read_page(
    path: str, media_type: str, page: int, *, is_numbered: bool, pixels: int, seconds: float, address: str | None = None
) -> ReadPage:
    """Return the blocks of a page, or of a picture at `address` (no boxes), beyond its text layer; or the reason."""
    limit_processor(seconds)
    try:
        picture, words = open_page(Path(path), media_type=media_type, page=page, pixels=pixels, address=address)
        lines, view = _recognizers[0].read(picture)
    except Unreadable as refusal:
        return ReadPage(error=refusal.message)
    except MemoryError:
        return ReadPage(error="Reading the page takes more memory than is allowed.")
    except Exception as error:  # noqa: BLE001 - libraries raise anything on a broken file; the service logs what this was
        return ReadPage(error="The page is damaged.", cause=repr(error))
    new = [line for line in lines if not is_known(line.text, words)]
    blocks = make_blocks(new, view=view, page=page if is_numbered else None)
    return ReadPage(pack_blocks(blocks if address is None else [replace(block, box=None) for block in blocks]))
