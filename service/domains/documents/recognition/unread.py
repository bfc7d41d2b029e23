"""Pages without a text layer and pictures, among what was not read of a document's file."""

from collections.abc import Mapping, Sequence
from typing import Any

from carrel.wire.formats import NotReadKind


def has_unread_pages(not_read: Sequence[Mapping[str, Any]] | None) -> bool:
    """Return whether pages are among what was not read of a file."""
    return any(each["kind"] == NotReadKind.PAGE for each in not_read or ())


def replace_unread(
    not_read: Sequence[Mapping[str, Any]], count: int, pages: Sequence[int]
) -> Sequence[Mapping[str, Any]]:
    """Return what was not read of a file, with so many pages, of which the first are these; without any, with none."""
    others = [each for each in not_read if each["kind"] != NotReadKind.PAGE]
    if not count:
        return others
    return [{"kind": NotReadKind.PAGE, "count": count, "where": [f"page {page}" for page in pages]}, *others]


def take_pictures(not_read: Sequence[Mapping[str, Any]], count: int) -> Sequence[Mapping[str, Any]]:
    """Return what was not read of a file, with so many pictures less."""
    if not count:
        return not_read
    fewer = [
        {**each, "count": each["count"] - count} if each["kind"] == NotReadKind.PICTURE else each for each in not_read
    ]
    return [each for each in fewer if each["count"] > 0]
