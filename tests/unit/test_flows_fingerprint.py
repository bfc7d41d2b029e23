"""Fingerprints and partitions: stable where nothing changed, different where anything did."""

import itertools
from dataclasses import replace

import pytest

from flows.operations.sources.documents import Access, SourceDocument, fingerprint_of, key_of, key_range

DIGEST = bytes(32)
DOCUMENT = SourceDocument(
    path="/library/a.md",
    external_id="a",
    name="A",
    file_name="a.md",
    access=Access(users=("u",), groups=("g",)),
    metadata={"k": "v", "j": "w"},
    collection="c",
)


def test_fingerprint_fits_and_is_stable() -> None:
    fingerprint = fingerprint_of(DOCUMENT, sha256=DIGEST)
    assert fingerprint.startswith("1-")
    assert len(fingerprint) <= 128
    moved = replace(DOCUMENT, path="/elsewhere/a.md", metadata={"j": "w", "k": "v"}, place="line 9")
    assert fingerprint_of(moved, sha256=DIGEST) == fingerprint != fingerprint_of(DOCUMENT, sha256=b"\1" * 32)


@pytest.mark.parametrize(
    "changed",
    [
        replace(DOCUMENT, name="B"),
        replace(DOCUMENT, file_name="a.txt"),
        replace(DOCUMENT, access=None),
        replace(DOCUMENT, access=Access()),
        replace(DOCUMENT, access=Access(users=("u", "g"))),
        replace(DOCUMENT, access=Access(users=("u",), groups=("g",), internal_public=True)),
        replace(DOCUMENT, metadata={}),
        replace(DOCUMENT, metadata={"k": "v", "j": "x"}),
        replace(DOCUMENT, collection=None),
        replace(DOCUMENT, external_url="https://x.org"),
    ],
)
def test_fingerprint_changes_with_everything_that_is_sent(changed: SourceDocument) -> None:
    assert fingerprint_of(changed, sha256=DIGEST) != fingerprint_of(DOCUMENT, sha256=DIGEST)


@pytest.mark.parametrize("partitions", [1, 2, 3, 7, 1000])
def test_partitions_cover_every_key_once(partitions: int) -> None:
    ranges = [key_range(number, partitions=partitions) for number in range(partitions)]
    assert ranges[0][0] == bytes(16)
    assert ranges[-1][1] == b"\xff" * 16
    numbers = [(int.from_bytes(first, "big"), int.from_bytes(last, "big")) for first, last in ranges]
    assert all(before[1] + 1 == after[0] for before, after in itertools.pairwise(numbers))


def test_keys_are_stable_and_even() -> None:
    assert key_of("a/one.txt").hex() == "5fc7b47eb507c8b4bd45e40b8c6ed978"
    assert 850 < sum(key_of(f"doc-{number}") < bytes([64]) for number in range(4000)) < 1150
