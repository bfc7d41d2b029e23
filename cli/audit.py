"""`carrel audit list`: changes, authors and origins."""

from typing import Annotated

import typer

from carrel.wire.oversight import AuditEntry
from cli.choosing import AsJson, Since
from cli.listing import Columns, show_first
from cli.outcome import connect

app = typer.Typer(no_args_is_help=True)

COLUMNS: Columns[AuditEntry] = {
    "at": lambda entry: entry.at,
    "action": lambda entry: entry.action if entry.attempts is None else f"{entry.action} ({entry.attempts})",
    "who": lambda entry: entry.who,
    "resource": lambda entry: entry.target and (entry.target.name or entry.target.id),
    "device": lambda entry: entry.device,
    "address": lambda entry: entry.address,
}


@app.command("list")
def list_entries(
    *,
    since: Since = None,
    person: Annotated[str | None, typer.Option(metavar="EMAIL", help="Only actions by or for this person.")] = None,
    action: Annotated[str | None, typer.Option(help="Only this action, such as document.delete.")] = None,
    query: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Text in the name of the resource or person.")
    ] = None,
    parent: Annotated[
        str | None, typer.Option(metavar="DOCUMENT", help="Only the files in this archive or email, by its id.")
    ] = None,
    without_files: Annotated[
        bool, typer.Option("--without-files", help="Leave out entries for files in archives and emails.")
    ] = False,
    most: Annotated[int, typer.Option("--most", min=1, help="Most entries to show.")] = 100,
    as_json: AsJson = False,
) -> None:
    """Show entries of the audit log, newest first."""
    with connect(as_json=as_json) as (screen, client):
        log = client.admin.audit_log.query(
            actor=person,
            action=action,
            query=query,
            contained=False if without_files else None,
            container_id=parent,
            from_=since,
            page_size=min(most + 1, 1000),
        )
        show_first(screen, "entries", log, COLUMNS, most=most, empty="No entries match.")
