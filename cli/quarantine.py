"""`carrel quarantine`: documents that failed to load, over all sources."""

import asyncio
from typing import Annotated

import typer

from cli.choosing import AsJson
from cli.outcome import show_errors
from cli.screen import Screen

app = typer.Typer(no_args_is_help=True)

_LOADED = "The source, as given to `carrel upload`, or the ledger's name from `list`"
_NAMES = "External ids of documents, or places of items without an id."
_SOURCE = f"{_LOADED}. If several match, the source's id."


@app.command("list")
def list_items(
    source: Annotated[str | None, typer.Argument(help=f"{_SOURCE} Default: all sources.")] = None,
    *,
    ignored: Annotated[bool, typer.Option("--ignored", help="Also show ignored items.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the quarantine, with reasons: your own sources; for admins, all sources.

    Runs report it to the service from every machine."""
    with show_errors(Screen(as_json=as_json)) as screen:
        from cli.quarantined import show_quarantine  # noqa: PLC0415 - the flows come with an extra of their own

        asyncio.run(show_quarantine(source, with_ignored=ignored, screen=screen))


@app.command()
def retry(
    source: Annotated[str, typer.Argument(help=f"{_LOADED}.")],
    names: Annotated[list[str] | None, typer.Argument(help=f"{_NAMES} Default: all.")] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Send only a source's quarantined documents again, with the options of the last run.

    Use the machine that loaded the source, or its database of ledgers. Exit code 1: some is still in quarantine."""
    with show_errors(Screen(as_json=as_json)) as screen:
        from cli.runs import run_retry  # noqa: PLC0415 - as above

        raise typer.Exit(run_retry(source, names or (), screen=screen))


@app.command()
def ignore(
    source: Annotated[str, typer.Argument(help=_SOURCE)],
    names: Annotated[list[str], typer.Argument(help=_NAMES)],
    *,
    undo: Annotated[bool, typer.Option("--undo", help="Restore the items.")] = False,
    as_json: AsJson = False,
) -> None:
    """Ignore quarantined items of a source until a change; the next run skips them.

    Exit code 1: some of the names aren't in quarantine."""
    with show_errors(Screen(as_json=as_json)) as screen:
        from cli.quarantined import change_ignored  # noqa: PLC0415 - as above

        raise typer.Exit(asyncio.run(change_ignored(source, names, undo=undo, screen=screen)))
