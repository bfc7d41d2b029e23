"""The first step of a run: read the source into the ledger, with every file's digest and fingerprint."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from pydantic import TypeAdapter, ValidationError

from carrel.wire.fields import Identifier
from flows.operations.ledger.ledger import Ledger
from flows.operations.ledger.rows import Digest, Entry, Retry
from flows.operations.names import Names
from flows.operations.sources.contents import ChangingFileError, hash_files
from flows.operations.sources.documents import (
    Defaults,
    Problem,
    Skipped,
    SourceDocument,
    SourceItem,
    fingerprint_of,
    folders_of,
)
from flows.operations.sources.exclusions import advice
from flows.operations.sources.objects import marker_digest
from flows.operations.sources.reading import read_source

Prepare = Callable[[Ledger, list[SourceDocument]], Sequence[Entry | Problem]]
"""Makes the ledger's entries of documents; called in a thread."""

_CHUNK = 1000
_EMPTY = "The file is empty: it has 0 bytes. Check its origin."
_EXAMPLES = 5
_EXTERNAL_ID = TypeAdapter[str](Identifier)


@dataclass(slots=True)
class Scanned:
    """The result of a scan: examples of left-out items, and the number of manifest rows with unchanged readers."""

    documents: int = 0
    kept_readers: int = 0
    problems: int = 0
    skipped: Counter[str] = field(default_factory=Counter[str])
    examples: dict[str, list[str]] = field(default_factory=dict[str, list[str]])

    def left_out(self) -> list[str]:
        lines: list[str] = []
        for reason, number in self.skipped.most_common():
            examples = self.examples[reason]
            how = f"; {told}" if (told := advice(reason, examples[0])) else ""
            lines.append(f"skipped as {reason}: {number:,} (such as {', '.join(examples)}){how}")
        return lines

    def left_out_as_json(self) -> list[dict[str, Any]]:
        return [
            {"reason": reason, "number": number, "examples": self.examples[reason]}
            for reason, number in self.skipped.most_common()
        ]


async def scan(
    ledger: Ledger,
    source: str,
    *,
    defaults: Defaults,
    names: Names,
    prepare: Prepare | None = None,
    retry: Retry | None = None,
    chunks: AsyncIterator[list[SourceItem]] | None = None,
) -> Scanned:
    """Read the source (or `retry` of its quarantine) into the ledger, a thousand items at a time; older entries no
    longer in the source are removed. `prepare` makes the entries. Raises SourceError for an unreadable source."""
    prepare = prepare or hash_documents
    scanned = Scanned()
    async for chunk in chunks or _chunks_of(read_source(source, defaults=defaults)):
        items = await asyncio.to_thread(_in_quarantine, ledger, chunk, retry) if retry else chunk
        named = [_with_usable_id(item) for item in items if isinstance(item, SourceDocument)]
        scanned.kept_readers += sum(isinstance(item, SourceDocument) and item.keeps_readers for item in named)
        documents = [item for item in named if isinstance(item, SourceDocument)]
        problems = [item for item in (*items, *named) if isinstance(item, Problem)]
        for item in items:
            if isinstance(item, Skipped):
                scanned.skipped[item.reason] += 1
                examples = scanned.examples.setdefault(item.reason, [])
                if len(examples) < _EXAMPLES:
                    examples.append(item.place)
        resolved = await names.resolve(documents)
        known = [item for item in resolved if isinstance(item, SourceDocument)]
        problems += [item for item in resolved if isinstance(item, Problem)]
        kept, refused = await asyncio.to_thread(_record, ledger, prepare, known, problems)
        scanned.documents += kept
        scanned.problems += refused
    await asyncio.to_thread(ledger.forget_unseen)
    return scanned


async def _chunks_of(items: Iterator[SourceItem]) -> AsyncGenerator[list[SourceItem]]:
    while chunk := await asyncio.to_thread(lambda: list(islice(items, _CHUNK))):
        yield chunk


def _in_quarantine(ledger: Ledger, items: Sequence[SourceItem], retry: Retry) -> list[SourceItem]:
    """Return the items to retry: items in quarantine, and items below a folder in quarantine."""
    lines = [_names_of(item) for item in items]
    wanted = ledger.quarantined_among(sorted({name for line in lines for name in line}))
    return [item for item, line in zip(items, lines, strict=True) if wanted & line and retry.concerns(line)]


def _names_of(item: SourceItem) -> set[str]:
    external_id = None if isinstance(item, Skipped) else item.external_id
    return folders_of(item.place) | ({external_id} if external_id else set())


def _with_usable_id(document: SourceDocument) -> SourceDocument | Problem:
    try:
        _EXTERNAL_ID.validate_python(document.external_id)
    except ValidationError as exc:
        message = f"The external id is not valid: {exc.errors()[0]['msg']}. Set another id in a manifest."
        return Problem(document.place, "external_id_invalid", message, document.external_id)
    return document


def hash_documents(ledger: Ledger, documents: list[SourceDocument]) -> list[Entry | Problem]:
    """Return documents with digests and fingerprints; unreadable and empty files are problems. Objects aren't read."""
    hashes = hash_files(ledger, (document.path for document in documents if document.stored is None))
    return [_prepare(document, hashes) for document in documents]


def _prepare(document: SourceDocument, hashes: Mapping[str, Digest | OSError | ChangingFileError]) -> Entry | Problem:
    if document.stored is not None:
        size, sha256 = document.stored.size, marker_digest(document.stored.marker)
    else:
        found = hashes[document.path]
        if isinstance(found, ChangingFileError):
            return Problem(document.place, found.code, str(found), document.external_id)
        if isinstance(found, OSError):
            message = f"The file cannot be read: {found.strerror or found}"
            return Problem(document.place, "file_unreadable", message, document.external_id)
        size, sha256 = found.size, found.sha256
    if not size:
        return Problem(document.place, "file_empty", _EMPTY, document.external_id)
    return Entry(document, size, sha256, fingerprint_of(document, sha256=sha256))


def _record(
    ledger: Ledger, prepare: Prepare, documents: list[SourceDocument], problems: list[Problem]
) -> tuple[int, int]:
    """Store the scan's documents, and the problems with others, in the ledger; return the number of both."""
    prepared = prepare(ledger, documents)
    entries = [item for item in prepared if isinstance(item, Entry)]
    repeated = ledger.record(entries)
    refused = [*problems, *(item for item in prepared if isinstance(item, Problem))]
    message = "The source contains this external id several times. The first is used."
    twice = (entry.document for entry in repeated)
    refused += [Problem(document.place, "external_id_repeated", message, document.external_id) for document in twice]
    ledger.record_problems(refused)
    return len(entries) - len(repeated), len(refused)
