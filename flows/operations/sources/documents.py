"""The items of a source: documents to send, and problems with items that can't be sent."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from types import MappingProxyType

from flows.operations.sources.exclusions import FileSelection

# Where a byte stood that is no UTF-8.
_SURROGATE = re.compile("[\ud800-\udfff]")
NO_METADATA: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Access:
    """Who may read a document. Each part is sent, the empty ones too, so that an update leaves exactly this.

    `groups` are ids, external ids or names until `flows.operations.names` has turned them into ids.
    """

    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    internal_public: bool = False


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object in a store: the source's URL, its key below that, its marker, and its size in bytes."""

    store: str
    key: str
    marker: str
    size: int


@dataclass(frozen=True, slots=True)
class SourceDocument:
    """A file and its properties; `path` (a text, quick to make) is absolute with links resolved, or the stored key.

    `access` None says nothing about access: a new document is its uploader's alone, and an update leaves it as it is.
    """

    path: str
    external_id: str
    name: str
    file_name: str
    access: Access | None = None
    metadata: Mapping[str, str] = field(default_factory=lambda: NO_METADATA)
    collection: str | None = None
    external_url: str | None = None
    place: str = ""
    stored: StoredObject | None = None
    read_pictures: bool | None = None


@dataclass(frozen=True, slots=True)
class Problem:
    """An item of the source that will not be sent, and why. `place` is a path, or "line 12" of a manifest."""

    place: str
    code: str
    message: str
    external_id: str | None = None


@dataclass(frozen=True, slots=True)
class Skipped:
    """An item left out on purpose (a hidden file, a link to a folder), which is reported but no failure."""

    place: str
    reason: str


SourceItem = SourceDocument | Problem | Skipped


@dataclass(frozen=True, slots=True)
class Defaults:
    """Properties of documents for which the source gives none, and which of its files are documents at all."""

    access: Access | None = None
    metadata: Mapping[str, str] = field(default_factory=lambda: NO_METADATA)
    collection: str | None = None
    read_pictures: bool | None = None
    hidden: bool = False
    files: FileSelection = field(default_factory=FileSelection)


def folders_of(place: str) -> set[str]:
    """Return a place and every folder that it is in."""
    return set(accumulate(place.split("/"), lambda folder, part: f"{folder}/{part}"))


def undecodable(text: str) -> bool:
    """Return whether a text from a file or its name had bytes that aren't UTF-8, now lone surrogates."""
    return not text.isascii() and _SURROGATE.search(text) is not None
