"""`carrel snapshot`: save the readers of each resource as files, and compare with earlier snapshots."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from cli.choosing import AsJson
from cli.exit_codes import ExitCode
from cli.outcome import show_errors
from cli.screen import Screen
from flows.operations.snapshots.files import Difference

app = typer.Typer(no_args_is_help=True)

Folder = Annotated[Path, typer.Argument(exists=True, file_okay=False, help="Folder of a snapshot.")]


@app.command()
def take(*, as_json: AsJson = False) -> None:
    """Save the readers of each resource in a new folder of Parquet files, and report changes since the last snapshot.

    Requires an admin's key. Exit code 1: written, but access changed, or the last snapshot is unreadable."""
    with show_errors(Screen(as_json=as_json)) as screen:
        from flows.operations.snapshots.taking import take_snapshot  # noqa: PLC0415 - slow to import, and optional
        from flows.settings import FlowSettings  # noqa: PLC0415 - as above

        with screen.bar("reading access") as bar:
            taken = asyncio.run(
                take_snapshot(
                    FlowSettings(), on_rows=lambda rows: bar(f"reading access: {rows:,}", done=rows, total=None)
                )
            )
        code = ExitCode.PROBLEMS if taken.problems else ExitCode.DONE
        if as_json:
            screen.json({"outcome": "problems" if taken.problems else "taken", "exitCode": code, **taken.as_json()})
        else:
            screen.lines(taken.text().splitlines())
            show_changes(taken.difference, screen=screen)
    raise typer.Exit(code)


@app.command()
def compare(before: Folder, after: Folder, *, as_json: AsJson = False) -> None:
    """Show the access gained and lost between two snapshots. Exit code 1: there are changes."""
    with show_errors(Screen(as_json=as_json)) as screen:
        from flows.operations.snapshots.comparing import compare as compared  # noqa: PLC0415 - as above

        difference = compared(before, after)
    code = ExitCode.DONE if difference.is_empty else ExitCode.PROBLEMS
    if as_json:
        screen.json({"outcome": "compared", "exitCode": code, **difference.model_dump(mode="json")})
    else:
        screen.line(difference.text())
        show_changes(difference, screen=screen)
    raise typer.Exit(code)


def show_changes(difference: Difference | None, *, screen: Screen) -> None:
    for change in difference.changes if difference else ():
        is_wider = change.change == "widened"
        others = f" and {change.people - len(change.who):,} more" * (change.people > len(change.who))
        verb = "can now read" if is_wider else "can no longer read"
        line = f"{', '.join(change.who)}{others} {verb} {change.resources:,} (such as {', '.join(change.examples)})"
        screen.line(line, style="yellow" if is_wider else "green")
