"""Fingerprints: one short string per document that changes whenever anything that would be sent changes."""

import hashlib
import json

from flows.operations.sources.documents import SourceDocument

_KEY_BYTES = 16
_KEYS = 2 ** (8 * _KEY_BYTES)
_encode = json.JSONEncoder(ensure_ascii=True, separators=(",", ":")).encode
_VERSION = "1"  # goes up when what is covered changes: every document is then sent once more


def fingerprint_of(document: SourceDocument, *, sha256: bytes) -> str:
    """Return the document's fingerprint (66 characters; the service keeps at most 128).

    It covers the bytes (by their SHA-256), the file's and the document's name, access, metadata, collection and URL;
    groups and collection as ids, since a name may come to mean another one. Whether pictures in it are read is covered
    where that is said.
    """
    access = document.access
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
    return f"{_VERSION}-{hashlib.sha256(_encode(covered).encode()).hexdigest()}"


def key_of(text: str) -> bytes:
    """Return the key (16 bytes) of an external id, place or path in the ledger: the same for the same text, ever."""
    return hashlib.blake2b(text.encode(), digest_size=_KEY_BYTES).digest()


def key_range(partition: int, *, partitions: int) -> tuple[bytes, bytes]:
    """Return the first and last key of a partition; the ranges of all partitions cover every key once."""
    first, end = (_KEYS * part // partitions for part in (partition, partition + 1))
    return first.to_bytes(_KEY_BYTES, "big"), (end - 1).to_bytes(_KEY_BYTES, "big")
