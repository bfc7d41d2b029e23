"""The quarantine: everything of a source that did not get into the catalog, each with its reason."""

import json
from collections import Counter
from pathlib import Path

from flows.operations.ledger import Failure, Ledger

_SHOWN = 1000


def failure_rows(ledger: Ledger, *, limit: int = _SHOWN) -> list[dict[str, str]]:
    """Return up to `limit` failures as rows of a table: place, document, code, reason."""
    return [_row(failure) for failure in ledger.failures(limit=limit)]


def failure_codes(ledger: Ledger) -> Counter[str]:
    """Return how often each code occurs."""
    return Counter(ledger.failure_codes())


def write_quarantine(ledger: Ledger, path: Path) -> int:
    """Write every failure as one JSON object a line, replacing the file as a whole; return their number."""
    number = 0
    path.parent.mkdir(parents=True, exist_ok=True)
    written = path.with_name(f".{path.name}.part")
    with written.open("w", encoding="utf-8") as file:
        for failure in ledger.failures():
            file.write(json.dumps(_row(failure), ensure_ascii=False) + "\n")
            number += 1
    written.replace(path)
    return number


def _row(failure: Failure) -> dict[str, str]:
    return {
        "place": failure.place,
        "document": failure.external_id or "",
        "code": failure.code,
        "reason": failure.message,
    }
