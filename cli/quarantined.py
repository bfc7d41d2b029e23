"""Printing and changing the quarantine for `carrel quarantine`."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from cli.outcome import ExitCode
from cli.screen import Screen
from flows.operations.quarantine import Quarantined, ignore, list_quarantine
from flows.settings import FlowSettings


def show_quarantine(source: str | None, *, with_ignored: bool, screen: Screen) -> ExitCode:
    """Print the items source by source. Raises what flows.operations.quarantine.list_quarantine does."""
    items = list_quarantine(settings=FlowSettings(), source=source, ignored=with_ignored)
    if screen.as_json:
        rows = [_members(item) for item in items]
        screen.json({"outcome": "listed", "exitCode": ExitCode.DONE, "quarantine": rows})
        return ExitCode.DONE
    number = 0
    for head, group in groupby(items, key=_head):
        screen.line(head, style="bold")
        for item in group:
            number += 1
            screen.line(_line(item), style="dim" if item.ignored else "red")
    screen.say(f"{number:,} in quarantine." if number else "Nothing is in quarantine.")
    return ExitCode.DONE


def ignore_items(source: str, names: Sequence[str], *, undo: bool, screen: Screen) -> ExitCode:
    """Ignore or restore items of the quarantine, and print unknown names."""
    unknown = ignore(source, names, settings=FlowSettings(), undo=undo)
    code = ExitCode.PROBLEMS if unknown else ExitCode.DONE
    done = len(set(names)) - len(set(unknown))
    if screen.as_json:
        outcome = "counted" if undo else "ignored"
        screen.json({"outcome": outcome, "exitCode": code, "number": done, "unknown": unknown})
        return code
    screen.line(f"{done:,} {'count again' if undo else 'ignored until they change'}.")
    for name in unknown:
        screen.line(f"! {name}  is not in the quarantine of {source}", style="red")
    return code


def _head(item: Quarantined) -> str:
    purpose = f", added to collection {item.collection}" if item.collection else ""
    return f"{item.source}{purpose}  [{item.ledger}]"


def _line(item: Quarantined) -> str:
    document = f" ({item.external_id})" if item.external_id not in {None, item.place} else ""
    ignored = " (ignored)" if item.ignored else ""
    return f"! {item.place}{document}  {item.code}: {item.message}{ignored}"


def _members(item: Quarantined) -> dict[str, Any]:
    return {
        "source": item.source,
        "ledger": item.ledger,
        "collection": item.collection,
        "place": item.place,
        "document": item.external_id,
        "code": item.code,
        "reason": item.message,
        "since": item.since.isoformat(timespec="seconds"),
        "ignored": item.ignored,
    }
