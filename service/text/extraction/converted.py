"""Formats that kreuzberg turns into Markdown: EPUB, notebooks, reStructuredText and Org."""

import zipfile
from collections.abc import Callable
from pathlib import Path

from carrel.wire.formats import BY_NAME
from service.text.extraction.building import BlockBuilder, one_line
from service.text.extraction.failures import corrupt_file, encrypted_file, too_complex
from service.text.extraction.markdown import parse_markdown
from service.text.extraction.packages import leave_out_entries

_PROTECTED = ("password", "encrypted")


def convert(kind: str) -> Callable[[Path, BlockBuilder], str | None]:
    """Return a reader of files of this format."""

    def parse(path: Path, builder: BlockBuilder) -> str | None:
        text, title = to_markdown(path.read_bytes(), kind)
        if len(text) > builder.limits.characters:
            raise too_complex(f"The file holds more than {builder.limits.characters:,} characters of text.")
        parse_markdown(text.encode("utf-8", "replace"), builder)
        # After the text, which what is left out or read later follows.
        if kind == "EPUB":
            with zipfile.ZipFile(path) as archive:
                leave_out_entries(archive, builder)
        return title

    return parse


parse_epub, parse_notebook, parse_rst, parse_org = map(convert, ("EPUB", "Jupyter notebook", "reStructuredText", "Org"))


def to_markdown(data: bytes, kind: str) -> tuple[str, str | None]:
    """Return the text of a file of a format as Markdown, and its title; Unreadable when it can't be read."""
    # Imported in the worker that needs it: kreuzberg has threads, which a process that forks must not have.
    from kreuzberg import ConcurrencyConfig, ExtractionConfig, KreuzbergError, extract_bytes_sync  # noqa: PLC0415

    config = ExtractionConfig(use_cache=False, output_format="markdown", concurrency=ConcurrencyConfig(max_threads=1))
    try:
        result = extract_bytes_sync(data, BY_NAME[kind].media_type, config=config)
    except (KreuzbergError, RuntimeError, ValueError, OSError) as error:
        if any(word in str(error).lower() for word in _PROTECTED):
            raise encrypted_file(kind) from error
        raise corrupt_file(kind) from error
    return result.content, one_line(str(result.metadata.get("title") or result.metadata.get("subject") or "")) or None
