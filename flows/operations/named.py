"""The documents behind the numbers of a plan and of a run: the first hundred of each kind, and all of them as CSV."""

import csv
import io
from collections.abc import Iterator
from itertools import chain, islice
from operator import itemgetter

from carrel.spreadsheets import as_text
from flows.operations.ledger.ledger import PAGE, Ledger
from flows.operations.ledger.rows import Action, State
from flows.operations.summary import CREATED, DELETED, FAILED, GONE, TO_DELETE, UPDATED

_KINDS: tuple[tuple[str, tuple[State, ...], tuple[Action, ...]], ...] = (
    ("To create", (State.PLANNED,), (Action.CREATE,)),
    ("To update", (State.PLANNED,), (Action.UPDATE,)),
    (TO_DELETE, (State.PLANNED, State.FOUND), (Action.DELETE,)),
    (CREATED, (State.UPLOADED, State.INDEXED), (Action.CREATE,)),
    (UPDATED, (State.UPLOADED, State.INDEXED), (Action.UPDATE,)),
    (DELETED, (State.DELETED,), (Action.DELETE,)),
    (GONE, (State.KEPT,), (Action.DELETE,)),
    ("Gone from the source, changed by others or in another source", (State.UNCHANGED,), (Action.DELETE,)),
    ("Left out now, kept", (State.IGNORED,), (Action.DELETE,)),
)
COLUMNS = ("what", "name", "path", "document", "reason")


def name_documents(ledger: Ledger, *, limit: int | None = None) -> Iterator[dict[str, str]]:
    """Yield the documents of each kind, at most `limit` of each, by path: action, name, path, id and reason. Without a
    limit, the order is the ledger's."""
    for kind, states, actions in _KINDS:
        kinds = ((state, action) for state in states for action in actions)
        walks = (ledger.walk(state, action=action, page_size=limit or PAGE) for state, action in kinds)
        entries = islice(chain.from_iterable(walks), limit)
        rows = (_row(kind, each.document.name, each.document.external_id, each.document_id or "") for each in entries)
        yield from rows if limit is None else sorted(rows, key=itemgetter("path"))
    for failure in ledger.failures(limit=limit):
        path = failure.external_id or failure.place
        yield _row(FAILED, path.rpartition("/")[2], path, "", failure.message)


def _row(*cells: str) -> dict[str, str]:
    return dict(zip(COLUMNS, (*cells, ""), strict=False))


def names_as_csv(ledger: Ledger) -> str:
    """Return all named documents as CSV, safe to open in a spreadsheet."""
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow(COLUMNS)
    writer.writerows([as_text(cell) for cell in row.values()] for row in name_documents(ledger))
    return file.getvalue()
