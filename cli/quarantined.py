"""Printing and changing the quarantine for `carrel quarantine`."""

import asyncio
from collections.abc import Container, Sequence
from typing import Any

from carrel.wire.sources import Source, SourceItem
from cli.exit_codes import ExitCode
from cli.screen import Screen
from flows.operations.jobs import open_client
from flows.operations.quarantine import choose_sources, find_sources, ignore_items, reporter_of
from flows.operations.reporting import find_unreported
from flows.settings import FlowSettings

_PAGE = 1000


async def show_quarantine(source: str | None, *, with_ignored: bool, screen: Screen) -> None:
    """Print the items, grouped by source. Raises the errors of flows.operations.quarantine.find_sources."""
    settings = FlowSettings()
    async with open_client(settings) as client:
        every = await find_sources(client, None, settings=settings)
        unreported = await _tell_unreported({each.ledger for each in every}, settings=settings, screen=screen)
        sources = choose_sources(every, source, settings=settings)
        several = len({each.reported_by.id for each in sources}) > 1
        rows: list[dict[str, Any]] = []
        number = 0
        for each in sources:
            wanted = each.item_count + (each.ignored_count if with_ignored else 0)
            if not wanted:
                continue
            if not screen.as_json:
                screen.line(_head(each, with_reporter=several), style="bold")
            ignored = None if with_ignored else False
            async for item in client.sources.list_source_items(each.source_id, ignored=ignored, page_size=_PAGE):
                number += 1
                if screen.as_json:
                    rows.append(_members(each, item))
                else:
                    screen.line(_line(item), style="dim" if item.ignored else "red")
    if screen.as_json:
        screen.json({"outcome": "listed", "exitCode": ExitCode.DONE, "quarantine": rows})
    elif number:
        screen.say(f"{number:,} in quarantine.")
    else:
        never = "The quarantine is empty: no run has reported any items."
        screen.say("The quarantine is empty." if sources else "No other items." if unreported else never)


async def _tell_unreported(reported: Container[str], *, settings: FlowSettings, screen: Screen) -> bool:
    """Report local ledgers with a quarantine unknown to the service, and the remedy; return whether any exist."""
    unreported = await asyncio.to_thread(find_unreported, settings, reported=reported)
    for known in unreported:
        screen.say(
            f"{known.source} is loading for the first time. Items that fail are listed at the end of the run. "
            "If the run was interrupted, run it again."
            if known.is_unfinished
            else f"The quarantine of {known.source} was never reported. `carrel quarantine retry {known.ledger}` "
            "retries and reports it."
        )
    return bool(unreported)


async def change_ignored(source: str, names: Sequence[str], *, undo: bool, screen: Screen) -> ExitCode:
    settings = FlowSettings()
    async with open_client(settings) as client:
        unknown = await ignore_items(client, source, names, undo=undo, settings=settings)
    code = ExitCode.PROBLEMS if unknown else ExitCode.DONE
    done = len(set(names)) - len(set(unknown))
    if screen.as_json:
        outcome = "counted" if undo else "ignored"
        screen.json({"outcome": outcome, "exitCode": code, "number": done, "unknown": unknown})
        return code
    screen.line(f"{done:,} {'restored' if undo else 'ignored until they change'}.")
    for name in unknown:
        screen.line(f"! {name}  is not in the quarantine of {source}", style="red")
    return code


def _head(source: Source, *, with_reporter: bool) -> str:
    collection = source.document_collection_id
    purpose = f", added to collection {collection}" if collection else ""
    reporter = f", reported by {reporter_of(source)}" if with_reporter else ""
    return f"{source.source}{purpose}{reporter}  [{source.ledger}]"


def _line(item: SourceItem) -> str:
    document = f" ({item.document_external_id})" if item.document_external_id not in {None, item.place} else ""
    ignored = " (ignored)" if item.ignored else ""
    return f"! {item.place}{document}  {item.code}: {item.message}{ignored}"


def _members(source: Source, item: SourceItem) -> dict[str, Any]:
    collection = source.document_collection_id
    return {
        "source": source.source,
        "sourceId": str(source.source_id),
        "reportedBy": reporter_of(source),
        "ledger": source.ledger,
        "collection": collection and str(collection),
        "place": item.place,
        "document": item.document_external_id,
        "code": item.code,
        "reason": item.message,
        "since": item.since.isoformat(timespec="seconds"),
        "ignored": item.ignored,
    }
