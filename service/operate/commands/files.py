"""`files check`."""

import json
from typing import Annotated, Any

import typer

from service.operate.backup import queries
from service.operate.backup.checking import Checked, Fault, check_files
from service.operate.commands.context import (
    check_schema,
    format_count,
    format_size,
    new_group,
    open_access,
    settings_of,
)
from service.platform.files import open_files

app = new_group("The documents' files in the file store.")


@app.command()
def check(
    context: typer.Context,
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Compare names and sizes only.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Find missing, altered and leftover files in the file store, without changes. Exit code 1 if files are faulty."""
    settings = settings_of(context)
    with open_access(settings) as access:
        check_schema(access)
        with queries.open_snapshot(access.owner) as snapshot:
            queries.refuse_hidden(snapshot.connection)
            checked = check_files(snapshot, open_files(settings), contents=not quick)
    if as_json:
        typer.echo(json.dumps(_to_json(checked)))
    else:
        _print_result(checked)
    if checked.faulty:
        raise typer.Exit(1)


def _print_result(checked: Checked) -> None:
    for file in checked.faulty:
        documents = ", ".join(file.documents)
        typer.echo(f"{file.fault.lower()}: {file.sha256.hex()}, of {documents}", err=True)
    counts = (f"{sum(file.fault is fault for file in checked.faulty):,} {fault.lower()}" for fault in Fault)
    typer.echo(f"{format_count(checked.files, 'file')}, {format_size(checked.bytes)}: {', '.join(counts)}.", err=True)
    if checked.left_over:
        typer.echo(
            f"{format_count(checked.left_over, 'file')} left over, {format_size(checked.left_over_bytes)}. The service "
            "removes them after CARREL_FILE_GRACE_HOURS.",
            err=True,
        )
    if checked.faulty:
        typer.echo("Restore the faulty files from a backup, or upload the same files again with forceUpdate.", err=True)


def _to_json(checked: Checked) -> dict[str, Any]:
    faulty = [{"sha256": one.sha256.hex(), "fault": one.fault, "documentIds": one.documents} for one in checked.faulty]
    return {
        "files": checked.files,
        "bytes": checked.bytes,
        "leftOver": checked.left_over,
        "leftOverBytes": checked.left_over_bytes,
        "faulty": faulty,
    }
