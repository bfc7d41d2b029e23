"""Formats that kreuzberg turns into Markdown: Office before 2007, OpenDocument, RTF, EPUB, Outlook and more."""

import re
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from carrel.wire.formats import NotReadKind
from service.text.extraction.blocks import Block
from service.text.extraction.building import BlockBuilder, one_line
from service.text.extraction.failures import corrupt_file, encrypted_file, too_complex
from service.text.extraction.markdown import parse_markdown
from service.text.extraction.packages import leave_out_entries

# In the directory of an Outlook message, the storage of each attachment.
_ATTACHMENT = re.compile(re.escape("__attach_version1.0_#".encode("utf-16-le")) + rb"(?:[0-9A-F]\x00){8}")
# Two backslashes are one in the text.
_RTF_PARTS = re.compile(rb"(?<!\\)(?:\\\\)*\\(pict|nonshppict|objdata)(?![a-z])")
_ARCHIVES = ("OpenDocument text", "OpenDocument sheets", "EPUB")
_SHEETS = ("Excel 97", "binary Excel", "OpenDocument sheets")
_PROTECTED = ("password", "encrypted")


def convert(kind: str, media_type: str) -> Callable[[Path, BlockBuilder], str | None]:
    """Return a reader of files of this media type, which errors call `kind`."""

    def parse(path: Path, builder: BlockBuilder) -> str | None:
        # Imported in the worker that needs it: kreuzberg has threads, which a process that forks must not have.
        from kreuzberg import (  # noqa: PLC0415
            ConcurrencyConfig,
            ExtractionConfig,
            KreuzbergError,
            extract_bytes_sync,
        )

        config = ExtractionConfig(
            use_cache=False, output_format="markdown", concurrency=ConcurrencyConfig(max_threads=1)
        )
        try:
            result = extract_bytes_sync(path.read_bytes(), media_type, config=config)
        except (KreuzbergError, RuntimeError, ValueError, OSError) as error:
            if any(word in str(error).lower() for word in _PROTECTED):
                raise encrypted_file(kind) from error
            raise corrupt_file(kind) from error
        if len(result.content) > builder.limits.characters:
            raise too_complex(f"The file holds more than {builder.limits.characters:,} characters of text.")
        _leave_out_parts(path, kind, builder)
        parse_markdown(result.content.encode("utf-8", "replace"), builder)
        if kind in _SHEETS:
            builder.blocks[:] = _with_sheets(builder.blocks)
        return one_line(str(result.metadata.get("title") or result.metadata.get("subject") or "")) or None

    return parse


def _with_sheets(blocks: Iterable[Block]) -> Iterator[Block]:
    """Yield the blocks of a workbook with the names of their sheets, which are its headings of the second level."""
    sheet = None
    for block in blocks:
        if block.kind == "heading" and block.level == 2:
            sheet = block.text
        yield replace(block, sheet=sheet)


def _leave_out_parts(path: Path, kind: str, builder: BlockBuilder) -> None:
    """Note what the formats tell plainly of their pictures, objects and attachments."""
    if kind in _ARCHIVES:
        with zipfile.ZipFile(path) as archive:
            leave_out_entries(archive, builder)
    elif kind == "RTF":
        words = Counter(_RTF_PARTS.findall(path.read_bytes()))
        # A picture for old programs follows the one that it repeats.
        builder.leave_out(NotReadKind.PICTURE, count=max(words[b"pict"] - words[b"nonshppict"], 0))
        builder.leave_out(NotReadKind.EMBEDDED, count=words[b"objdata"])
    elif kind == "Outlook message":
        builder.leave_out(NotReadKind.ATTACHMENT, count=len(set(_ATTACHMENT.findall(path.read_bytes()))))
