"""The quarantine, read and changed from elsewhere through Prefect's API: as the flow `quarantine` told it last."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from flows.prefect_api import UnknownError, table
from flows.run_status import moment_of
from flows.runs import Runs

SOURCES, ITEMS = "carrel-quarantine-sources", "carrel-quarantine-items"
GONE = "No longer in quarantine: "
"""What the end of a run's message begins with that names what was to be changed and isn't there."""


@dataclass(frozen=True, slots=True)
class Item:
    """What could not be loaded; `name` is what `ignore` takes, `since` when it came there as it is."""

    name: str
    place: str
    document: str
    code: str
    reason: str
    since: datetime | None
    ignored: bool


@dataclass(frozen=True, slots=True)
class QuarantinedSource:
    """A source, of which `items` could not be loaded and `ignored` count no more; `shown` are the first of both.

    `ledger` names it without doubt; `collection` is the id of the one that its documents were to be added to.
    """

    ledger: str
    source: str
    collection: str | None
    items: int
    ignored: int
    shown: Sequence[Item]


@dataclass(frozen=True, slots=True)
class Quarantine:
    """What was in quarantine at a moment, source by source."""

    at: datetime | None
    sources: Sequence[QuarantinedSource]


def read_quarantine(runs: Runs) -> Quarantine | None:
    """Return the quarantine as it was told last; None when it never was. Raises RunsError."""
    try:
        latest = runs.call("GET", f"/artifacts/{SOURCES}/latest")
    except UnknownError:
        return None
    run = UUID(latest["flow_run_id"])
    # What one run has published belongs together: another may be publishing now.
    told = runs.artifacts([run], keys=(SOURCES, ITEMS)).get(str(run), {})
    items = table(told.get(ITEMS))
    sources = [_source(row, items) for row in table(told.get(SOURCES))]
    return Quarantine(moment_of(latest["updated"]), sources)


def start_listing(runs: Runs, *, person: str = "") -> UUID:
    """Start telling the quarantine anew; return the flow run's id. Raises RunsError."""
    return runs.start("quarantine", {"action": "list"}, person=person)


def start_ignoring(runs: Runs, ledger: str, names: Sequence[str], *, undo: bool = False, person: str = "") -> UUID:
    """Start letting items of a source count no more, or (`undo`) again; return the flow run's id. Raises RunsError."""
    parameters = {"action": "restore" if undo else "ignore", "source": ledger, "names": list(names)}
    return runs.start("quarantine", parameters, person=person)


def start_retry(runs: Runs, source: QuarantinedSource, *, person: str = "", key: str | None = None) -> UUID:
    """Start sending what of a source is in quarantine again; return the flow run's id. Raises RunsError."""
    parameters = {"source": source.ledger, "loaded_from": source.source}
    return runs.start("quarantine-retry", parameters, person=person, key=key)


def _source(row: Mapping[str, Any], items: Sequence[Mapping[str, Any]]) -> QuarantinedSource:
    ledger = str(row["ledger"])
    shown = [_item(item) for item in items if item["ledger"] == ledger]
    return QuarantinedSource(
        ledger, str(row["source"]), row.get("collection"), int(row["items"]), int(row["ignored"]), shown
    )


def _item(row: Mapping[str, Any]) -> Item:
    return Item(
        name=str(row["name"]),
        place=str(row["place"]),
        document=str(row["document"]),
        code=str(row["code"]),
        reason=str(row["reason"]),
        since=moment_of(row["since"]),
        ignored=bool(row["ignored"]),
    )
