"""The items of a source: documents to send, with their fingerprints, and problems with items that can't be sent."""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate
from types import MappingProxyType

from flows.operations.sources.exclusions import FileSelection

# Stand-ins for bytes that are not UTF-8.
_SURROGATE = re.compile("[\ud800-\udfff]")
NO_METADATA: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Access:
    """The readers of a document, each part sent; `groups` are names until `flows.operations.names` finds the ids."""

    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    internal_public: bool = False
    assumed: bool = False
    """Whether the options name no reader: the fingerprint then equals the fingerprint without access."""

    @classmethod
    def of(
        cls, users: Iterable[str] | None, groups: Iterable[str] | None, *, internal_public: bool | None
    ) -> "Access | None":
        """Return the access with names sorted and without repetition; None when no part is given."""
        if users is None and groups is None and internal_public is None:
            return None
        return cls(tuple(sorted(set(users or ()))), tuple(sorted(set(groups or ()))), bool(internal_public))


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object in a store: the source's URL, the key below, the marker, and the size in bytes."""

    store: str
    key: str
    marker: str
    size: int


@dataclass(frozen=True, slots=True)
class SourceDocument:
    """A file with properties; `path` is absolute with links resolved, or the stored key. `access` None leaves access
    open. `keeps_readers`: the source has a field for readers, left empty."""

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
    keeps_readers: bool = False


@dataclass(frozen=True, slots=True)
class Problem:
    """An item of the source that can't be sent, and why. `place` is a path, or "line 12" of a manifest."""

    place: str
    code: str
    message: str
    external_id: str | None = None


@dataclass(frozen=True, slots=True)
class Skipped:
    """An item left out on purpose (a hidden file, a link to a folder): reported, but no failure."""

    place: str
    reason: str


SourceItem = SourceDocument | Problem | Skipped


@dataclass(frozen=True, slots=True)
class Defaults:
    """Defaults for properties not given by the source, and the selection of files."""

    access: Access | None = None
    metadata: Mapping[str, str] = field(default_factory=lambda: NO_METADATA)
    collection: str | None = None
    read_pictures: bool | None = None
    hidden: bool = False
    files: FileSelection = field(default_factory=FileSelection)


def document_at(path: str, place: str, defaults: Defaults, *, stored: StoredObject | None = None) -> SourceDocument:
    name = place.rpartition("/")[2]
    return SourceDocument(
        path=path,
        external_id=place,
        name=name,
        file_name=name,
        access=defaults.access,
        metadata=defaults.metadata,
        collection=defaults.collection,
        read_pictures=defaults.read_pictures,
        place=place,
        stored=stored,
    )


def folders_of(place: str) -> set[str]:
    """Return a place and all folders above."""
    return set(accumulate(place.split("/"), lambda folder, part: f"{folder}/{part}"))


def is_undecodable(text: str) -> bool:
    return not text.isascii() and _SURROGATE.search(text) is not None


_KEY_BYTES = 16
_KEYS = 2 ** (8 * _KEY_BYTES)
encode = json.JSONEncoder(ensure_ascii=True, separators=(",", ":")).encode
_VERSION = "1"  # raised when a fingerprint covers more: then each document is sent once more


def fingerprint_of(document: SourceDocument, *, sha256: bytes) -> str:
    """Return the fingerprint of all that is sent; groups and collections count by id, since names may change."""
    access = None if document.access is None or document.access.assumed else document.access
    covered = [
        sha256.hex(),
        document.file_name,
        document.name,
        None if access is None else [list(access.users), list(access.groups), access.internal_public],
        sorted(document.metadata.items()),
        document.collection,
        document.external_url,
        *([] if document.read_pictures is None else [document.read_pictures]),
    ]
    return f"{_VERSION}-{hashlib.sha256(encode(covered).encode()).hexdigest()}"


def former_fingerprint(document: SourceDocument, *, sha256: bytes, fingerprint: str) -> str | None:
    """Return the fingerprint by earlier releases of a document without readers in its options; otherwise None."""
    if fingerprint != fingerprint_of(replace(document, access=None), sha256=sha256):
        return None
    return fingerprint_of(replace(document, access=Access()), sha256=sha256)


def key_of(text: str) -> bytes:
    """Return the key (16 bytes) of an external id, place or path in the ledger; it never changes for a text."""
    return hashlib.blake2b(text.encode(), digest_size=_KEY_BYTES).digest()


def key_range(partition: int, *, partitions: int) -> tuple[bytes, bytes]:
    """Return the first and last key of a partition; the ranges of all partitions cover every key once."""
    first, end = (_KEYS * part // partitions for part in (partition, partition + 1))
    return first.to_bytes(_KEY_BYTES, "big"), (end - 1).to_bytes(_KEY_BYTES, "big")
