"""What a run shows on a terminal: a bar while it goes on, and its end in words or as JSON."""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from flows.operations.ledger import Ledger
from flows.operations.plan import Plan
from flows.operations.quarantine import failure_codes, failure_rows, write_quarantine
from flows.operations.scan import Scanned
from flows.operations.summary import Summary, summarize

T = TypeVar("T")
_SECONDS = 0.3
_SHOWN = 20


async def with_bar(work: Awaitable[T], *, ledger: Path, console: Console) -> T:
    """Run `work` and show the progress of the run this process has begun on `ledger`."""
    task = asyncio.ensure_future(work)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    watched: Ledger | None = None
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as bar:
        shown = bar.add_task("reading the source", total=None)
        try:
            while not (await asyncio.wait({task}, timeout=_SECONDS))[0]:
                watched = watched or Ledger.watch(ledger, process=os.getpid())
                if watched is not None:
                    summary = await asyncio.to_thread(summarize, watched)
                    bar.update(shown, **_bar(summary))
        finally:
            task.cancel()
            if watched is not None:
                watched.close()
    return await task


def _bar(summary: Summary) -> Mapping[str, Any]:
    if not summary.to_send:
        return {"description": f"planning {summary.documents} documents", "total": None}
    done = summary.to_send - summary.waiting
    what = "indexing" if done == summary.to_send else "sending"
    failed = f", {summary.quarantined} in quarantine" if summary.quarantined else ""
    return {"description": f"{what}{failed}", "completed": done, "total": summary.to_send}


def show_plan(plan: Plan, scanned: Scanned, ledger: Ledger, *, console: Console) -> None:
    """Print what a run would do, with the first rows of what would go into quarantine."""
    console.print(plan.text(), soft_wrap=True)
    for reason, number in scanned.skipped.items():
        examples = ", ".join(scanned.examples[reason])
        console.print(f"left out as {reason}: {number} (such as {examples})", markup=False, soft_wrap=True)
    if scanned.problems or plan.forbidden or plan.refused:
        _show_failures(ledger, console=console)


def show_end(summary: Summary, ledger: Ledger, *, console: Console) -> None:
    """Print what a run came to, with the first rows of its quarantine and where all of them are."""
    console.print(summary.text(), soft_wrap=True)
    if not summary.quarantined:
        return
    _show_failures(ledger, console=console)
    console.print(f"All of it, one JSON object a line: {quarantine_file(ledger)}", soft_wrap=True, markup=False)


def _show_failures(ledger: Ledger, *, console: Console) -> None:
    codes = ", ".join(f"{number} {code}" for code, number in failure_codes(ledger).most_common())
    table = Table("place", "document", "code", "reason", title=f"Quarantine: {codes}")
    for row in failure_rows(ledger, limit=_SHOWN):
        table.add_row(*map(Text, row.values()))
    console.print(table)


def quarantine_file(ledger: Ledger) -> Path:
    """Write the run's quarantine beside its ledger and return where."""
    path = ledger.path.with_suffix(".quarantine.jsonl")
    write_quarantine(ledger, path)
    return path


def print_json(members: Mapping[str, Any]) -> None:
    """Print one JSON object on standard output, for programs."""
    sys.stdout.write(json.dumps(members) + "\n")
    sys.stdout.flush()
