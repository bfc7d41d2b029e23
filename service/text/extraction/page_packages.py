"""Packages whose pages are parts of XML with the texts where they are drawn: Visio and XPS."""

import re
from pathlib import Path

from service.text.extraction.archives import open_archive
from service.text.extraction.building import BlockBuilder
from service.text.extraction.packages import read_damaged, read_main, read_title

_NUMBER = re.compile(r"\d+")


def parse_visio(path: Path, builder: BlockBuilder) -> str | None:
    """Add the texts of the shapes on each page of a Visio drawing."""
    return _add_pages(path, builder, re.compile(r".*/pages/page\d+\.xml", re.IGNORECASE), "Text", b"Text|Shape")


def parse_xps(path: Path, builder: BlockBuilder) -> str | None:
    """Add the texts of each page of an XPS document."""
    return _add_pages(path, builder, re.compile(r".*\.fpage", re.IGNORECASE), "Glyphs", b"")


def _add_pages(path: Path, builder: BlockBuilder, pages: re.Pattern[str], tag: str, piece: bytes) -> str | None:
    with open_archive(path) as archive:
        names = sorted(filter(pages.fullmatch, archive.namelist()), key=lambda name: [*map(int, _NUMBER.findall(name))])
        for builder.page, name in enumerate(names, start=1):
            root = read_damaged(read_main(archive, name, builder, f"rest of page {builder.page}", piece))
            for text in () if root is None else root.iter(f"{{*}}{tag}"):
                builder.paragraph(text.get("UnicodeString", "").removeprefix("{}") or "".join(text.itertext()))
        return read_title(archive)
