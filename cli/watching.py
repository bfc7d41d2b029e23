"""A run that goes on, shown: as a bar on a terminal, else as a line now and then while it waits for the service."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from cli.screen import Bar, Screen
from flows.operations.ledger.addresses import Address
from flows.operations.ledger.ledger import Ledger
from flows.operations.notes import notes_of
from flows.operations.summary import Summary, summarize

T = TypeVar("T")
_SECONDS = 0.3
# When nobody watches: how long a wait may last before it is said, and how far apart the lines are.
_FIRST_LINE_SECONDS, _LINE_SECONDS = 4.0, 30.0


async def watch_run(work: Callable[[], Awaitable[T]], *, ledger: Address, screen: Screen) -> T:
    """Run `work` and show the progress of the run this process has begun on `ledger`."""
    task = asyncio.ensure_future(work())
    if screen.is_watched:
        with screen.bar("reading the source") as bar:
            return await _beside(task, _show_bar(ledger, bar=bar))
    if screen.as_json:
        return await task
    return await _beside(task, _say_waits(ledger, screen=screen))


async def _beside(task: "asyncio.Future[T]", showing: Awaitable[None]) -> T:
    watching = asyncio.ensure_future(showing)
    try:
        return await task
    finally:
        task.cancel()
        watching.cancel()


async def _say_waits(ledger: Address, *, screen: Screen) -> None:
    """Say what the run waits for once that has lasted for a while, and again from time to time."""
    due: float | None = None
    while True:
        await asyncio.sleep(_SECONDS)
        text, now = notes_of(ledger.name).waiting_for, time.monotonic()
        if not text:
            due = None
        elif due is None:
            due = now + _FIRST_LINE_SECONDS
        elif now >= due:
            screen.say(text)
            due = now + _LINE_SECONDS


async def _show_bar(ledger: Address, *, bar: Bar) -> None:
    watched: Ledger | None = None
    try:
        while True:
            await asyncio.sleep(_SECONDS)
            watched = watched or Ledger.watch(ledger, process=os.getpid())
            if watched is not None:
                summary = await asyncio.to_thread(summarize, watched)
                tell(bar, summary, waiting_for=notes_of(ledger.name).waiting_for)
    finally:
        if watched is not None:
            watched.close()


def tell(bar: Bar, summary: Summary, *, waiting_for: str = "") -> None:
    """Update a progress bar with a run's progress, or with what the run waits for."""
    if not summary.to_send and not summary.indexing:
        bar(waiting_for or f"planning {summary.documents:,} documents", done=0, total=None)
        return
    done = summary.to_send - summary.waiting
    if summary.waiting:
        what = f"sending {done:,} of {summary.to_send:,}"
        what = f"{what}, {waiting_for}" if waiting_for else what
    else:
        what = waiting_for or "waiting for the index"
        done += summary.contained_files - summary.contained_waiting - summary.indexing
    total = summary.to_send + summary.contained_files
    failed = f", {summary.quarantined:,} in quarantine" if summary.quarantined else ""
    bar(f"{what}{failed}", done=max(0, done), total=total or None)


def interruption(ledger: Ledger) -> str:
    """Say what a run that was interrupted leaves behind, where only its waiting for the index was; else nothing."""
    ledger.join_latest()
    summary = summarize(ledger)
    if summary.waiting or not summary.indexing:
        return ""
    return (
        f"Interrupted. All {summary.to_send:,} documents are sent and stored, and the service continues by itself:"
        f" {summary.coming_text()}. Run it again to see whether they can be searched; it sends nothing twice."
    )
