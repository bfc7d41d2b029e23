"""Fingerprints: one short string per document that changes whenever anything that would be sent changes."""

import hashlib
import json

from flows.operations.documents import SourceDocument

BUCKETS = 2**32
_VERSION = "1"  # goes up when what is covered changes: every document is then sent once more


def fingerprint_of(document: SourceDocument, *, sha256: bytes) -> str:
    """Return the document's fingerprint (66 characters; the service keeps at most 128).

    It covers the bytes (by their SHA-256), the file's and the document's name, access, metadata, collection and URL;
    groups and collection as ids, since a name may come to mean another one.
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
    ]
    canonical = json.dumps(covered, ensure_ascii=True, separators=(",", ":"))
    return f"{_VERSION}-{hashlib.sha256(canonical.encode()).hexdigest()}"


def bucket_of(external_id: str) -> int:
    """Return the document's bucket, 0 to 2**32 - 1: a stable hash, so that a resumed run finds it there again."""
    return int.from_bytes(hashlib.blake2b(external_id.encode(), digest_size=4).digest(), "big")


def bucket_range(partition: int, *, partitions: int) -> tuple[int, int]:
    """Return the buckets of one partition of `partitions`, as (first, one past the last)."""
    return BUCKETS * partition // partitions, BUCKETS * (partition + 1) // partitions
