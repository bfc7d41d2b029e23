"""`carrel sync`: keep collections up to date with document databases."""

import json
import os
import sys
from collections.abc import Mapping
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, cast
from uuid import UUID

import typer
from pydantic import SecretStr

import carrel
from carrel import InvalidArgumentError
from carrel.wire.docstore import DocstoreConfig, DocstoreCounts, DocstoreRun, DocstoreSync
from cli.choosing import AsJson, Yes, confirm, require_only
from cli.collections import collection_of
from cli.listing import Columns, print_json, say_done, show_list, table_of
from cli.outcome import client_of, connect, show_errors, usage
from cli.screen import Screen
from flows.operations.formatting import json_fault

URI_VARIABLE = "CARREL_DOCSTORE_URI"

app = typer.Typer(no_args_is_help=True)

Named = Annotated[str, typer.Argument(metavar="SYNC", help="Name or id of the sync.")]
UriFile = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="File with the database's URL, mongodb://user:password@host/database; - for standard input. Default: "
        f"the variable {URI_VARIABLE}.",
    ),
]
_Path = Annotated[str | None, typer.Option(metavar="PATH", help="Dotted path of the field in a document.")]
_Filter = Annotated[
    str | None, typer.Option("--filter", metavar="JSON", help="A MongoDB query in Extended JSON, or @FILE.")
]
_Users = Annotated[list[str] | None, typer.Option("--allow-user", metavar="EMAIL", help="Gets access; repeatable.")]
_Groups = Annotated[list[UUID] | None, typer.Option("--allow-group", metavar="ID", help="Repeatable.")]
_Public = Annotated[bool | None, typer.Option(help="Whether everyone in the organization can read the documents.")]
_Delete = Annotated[bool | None, typer.Option(help="Whether to remove documents that are deleted in the source.")]
_Limit = Annotated[
    int | None, typer.Option("--delete-limit", min=0, max=100, help="Deletion limit of a run (percent). Default: 20.")
]
_Rename = Annotated[str | None, typer.Option("--rename", metavar="NAME", help="New name of the sync.")]
_Source = Annotated[str | None, typer.Option("--source", metavar="NAME", help="Collection of the database.")]

SYNCS: Columns[DocstoreSync] = {
    "name": lambda sync: sync.config.sync_name,
    "status": lambda sync: sync.status,
    "documents": lambda sync: sync.document_count,
    "failed": lambda sync: sync.counts.failed,
    "told": lambda sync: (told := sync.last_error or sync.warning) and told.code,
    "id": lambda sync: sync.docstore_credential_id,
}
RUNS: Columns[DocstoreRun] = {
    "ended": lambda run: run.finished_at,
    "status": lambda run: run.status,
    **{name: attrgetter(f"counts.{name}") for name in DocstoreCounts.model_fields},
    "told": lambda run: (told := run.last_error or run.warning) and told.code,
}


@app.command("list")
def list_syncs(
    *,
    collection: Annotated[str | None, typer.Option(help="Name or id of the target collection.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the syncs into collections editable by the key's owner."""
    with connect(as_json=as_json) as (screen, client):
        within = None if collection is None else collection_of(collection, client).document_collection_id
        docstore = client.document_collections.docstore
        found = list(docstore.list_docstore_syncs(document_collection_id=within, page_size=1000))
    if as_json:
        print_json(screen, "listed", docstoreSyncs=[sync.model_dump(mode="json") for sync in found])
    else:
        screen.show(table_of(found, SYNCS))


@app.command()
def show(name: Named, *, as_json: AsJson = False) -> None:
    """Show a sync and the result of its last run, but never the address."""
    with connect(as_json=as_json) as (screen, client):
        found = sync_of(name, client)
    if as_json:
        print_json(screen, "found", **found.model_dump(mode="json"))
        return
    screen.line(found.config.sync_name, style="bold")
    counts = ", ".join(f"{number:,} {label}" for label, number in found.counts.model_dump().items())
    rows = {
        "id": str(found.docstore_credential_id),
        "collection": str(found.document_collection_id),
        "source": found.config.collection_name,
        "filter": json.dumps(found.config.filter_expression, ensure_ascii=False),
        "status": found.status.value,
        "documents": f"{found.document_count:,}",
        "last run": counts,
        "warning": "" if found.warning is None else f"{found.warning.code}: {found.warning.message}",
        "error": "" if found.last_error is None else f"{found.last_error.code}: {found.last_error.message}",
    }
    for label, value in rows.items():
        if value:
            screen.line(f"{label:<10} {value}")


@app.command()
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the sync.")],
    *,
    into: Annotated[str, typer.Option(metavar="COLLECTION", help="Name or id of the target collection.")],
    collection_name: Annotated[str, typer.Option("--source", metavar="NAME", help="Collection of the database.")],
    body: Annotated[str, typer.Option(metavar="PATH", help="Dotted path of the field with the text.")],
    title: Annotated[str, typer.Option(metavar="PATH", help="Dotted path of the field with the name.")],
    updated: _Path = None,
    url: _Path = None,
    filter_text: _Filter = None,
    allowed_users_email_addresses: _Users = None,
    allowed_group_ids: _Groups = None,
    internal_public: _Public = None,
    delete_missing: _Delete = None,
    delete_limit_percent: _Limit = None,
    uri_file: UriFile = None,
    as_json: AsJson = False,
) -> None:
    """Create a sync and launch the first run. Without an access option, only the owner can read the documents."""
    given, screen = locals(), Screen(as_json=as_json)
    uri = _uri(uri_file, screen=screen)
    with client_of(screen) as client:
        config = _config({"sync_name": name, "source_fields": {}}, given)
        collection_id = collection_of(into, client).document_collection_id
        made = client.document_collections.docstore.create_docstore_sync(collection_id, docstore_uri=uri, config=config)
    words = f"Created {name} and started its first run: {made.docstore_credential_id}"
    say_done(screen, "created", words, **made.model_dump(mode="json"))


@app.command()
def update(
    name: Named,
    *,
    sync_name: _Rename = None,
    collection_name: _Source = None,
    body: _Path = None,
    title: _Path = None,
    updated: _Path = None,
    url: _Path = None,
    filter_text: _Filter = None,
    allowed_users_email_addresses: _Users = None,
    allowed_group_ids: _Groups = None,
    internal_public: _Public = None,
    delete_missing: _Delete = None,
    delete_limit_percent: _Limit = None,
    uri_file: UriFile = None,
    as_json: AsJson = False,
) -> None:
    """Change the given options, keep the rest, and launch a run.

    The address stays unless given. The run reads everything, unless only deletions or the name change."""
    given, screen = locals(), Screen(as_json=as_json)
    uri = _uri(uri_file, screen=screen) if uri_file or os.environ.get(URI_VARIABLE) else None
    with client_of(screen) as client:
        found = sync_of(name, client)
        config = _config(found.config.model_dump(exclude_none=True, by_alias=False), given)
        update = client.document_collections.docstore.update_docstore_sync
        changed = update(found.docstore_credential_id, docstore_uri=uri, config=config, version=found.version)
    words = f"Updated {found.config.sync_name} and started a run."
    say_done(screen, "updated", words, **changed.model_dump(mode="json"))


@app.command()
def launch(
    name: Named,
    *,
    watching: Annotated[bool, typer.Option("--watch", help="Exit with the run's result.")] = False,
    as_json: AsJson = False,
) -> None:
    """Launch a run to continue from the last run; does nothing while a run is active."""
    _follow(name, launching=True, watching=watching, as_json=as_json)


@app.command()
def watch(name: Named, *, as_json: AsJson = False) -> None:
    """Follow the active run to its end, or show how the last run ended.

    Exit code 1: a document failed, or a deletion was blocked; 2: the database can't be read."""
    _follow(name, launching=False, watching=True, as_json=as_json)


@app.command()
def failures(name: Named, *, as_json: AsJson = False) -> None:
    """List the documents a sync failed to copy, with reasons. Every run retries them."""
    with connect(as_json=as_json) as (screen, client):
        found = sync_of(name, client)
        docstore = client.document_collections.docstore
        listed = docstore.list_docstore_failures(found.docstore_credential_id, page_size=1000)
        rows = [failure.model_dump(mode="json") for failure in listed]
    if as_json:
        print_json(screen, "listed", failures=rows)
        return
    for row in rows:
        source_id = json.dumps(row["sourceId"], ensure_ascii=False)
        screen.line(f"! {source_id}  {row['code']}: {row['message']}", style="red")


@app.command("runs")
def list_runs(name: Named, *, as_json: AsJson = False) -> None:
    """List the last 50 runs that ended, newest first."""
    with connect(as_json=as_json) as (screen, client):
        found = client.document_collections.docstore.list_docstore_runs(sync_of(name, client).docstore_credential_id)
    show_list(screen, "runs", found.runs, RUNS, empty="No run has ended yet.")


@app.command("remove-held", hidden=True)  # its former name
@app.command("remove-blocked")
def remove_held(name: Named, *, yes: Yes = False, as_json: AsJson = False) -> None:
    """Remove once the documents whose removal the limit blocked, and launch a run; the limit stays unchanged."""
    with connect(as_json=as_json, yes=yes) as (screen, client):
        sync_id, docstore = sync_of(name, client).docstore_credential_id, client.document_collections.docstore
        held = list(docstore.list_docstore_held_removals(sync_id, page_size=1000))
        for removal in held:
            screen.say(f"- {removal.document_name}  {removal.document_external_id}")
        launched = False
        if held:
            confirm(screen, f"Remove these {len(held):,} documents, which are gone from the source?")
            for start in range(0, len(held), 10_000):  # the most that a request takes
                part = [removal.document_id for removal in held[start : start + 10_000]]
                launched |= docstore.launch_docstore_sync(sync_id, approved_removals=part).sync_launched
    words = f"Approved the removal of {len(held):,} documents." if held else "No removals wait for approval."
    say_done(screen, "approved" if held else "unchanged", words, documents=len(held), syncLaunched=launched)


@app.command()
def delete(name: Named, *, yes: Yes = False, as_json: AsJson = False) -> None:
    """Delete a sync and its address; copied documents stay."""
    with connect(as_json=as_json, yes=yes) as (screen, client):
        found = sync_of(name, client)
        confirm(screen, f"Delete the sync {found.config.sync_name}? Its {found.document_count:,} documents stay.")
        client.document_collections.docstore.delete_docstore_sync(found.docstore_credential_id)
    identity = str(found.docstore_credential_id)
    say_done(screen, "deleted", f"Deleted {found.config.sync_name}.", docstoreCredentialId=identity)


def sync_of(name: str, client: "carrel.Carrel") -> DocstoreSync:
    """Return the sync with a name or id; raises InvalidArgumentError for none or several."""
    every = client.document_collections.docstore.list_docstore_syncs(page_size=1000)
    found = [sync for sync in every if name in {sync.config.sync_name, str(sync.docstore_credential_id)}]
    return require_only(found, kind="sync", name=name, hint="`carrel sync list` shows their ids")


def _follow(name: str, *, launching: bool, watching: bool, as_json: bool) -> None:
    with show_errors(Screen(as_json=as_json)) as screen:
        from cli.runs import follow_sync  # noqa: PLC0415 - the flows come with an extra of their own

        raise typer.Exit(follow_sync(name, launching=launching, watching=watching, screen=screen))


def _uri(uri_file: str | None, *, screen: Screen) -> SecretStr:
    """Return the database's address from the environment, a file or standard input: process lists show arguments."""
    with show_errors(screen):
        if uri_file is None:
            text = os.environ.get(URI_VARIABLE, "")
        else:
            text = sys.stdin.read() if uri_file == "-" else Path(uri_file).read_text("utf-8", "replace")
    if not text.strip():
        message = f"Give the database's URL in {URI_VARIABLE}, in a file (--uri-file FILE), or with --uri-file -."
        raise usage(screen, message)
    return SecretStr(text.strip())


_PATHS = {"body": "body", "title": "source_name", "updated": "source_system_updated", "url": "source_url"}
"""The members of a config's `source_fields`, by the parameters of the commands."""


def _config(before: dict[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a config with the given parameters, which are named as its members or in `_PATHS`; the rest stays."""
    said = {name: value for name, value in given.items() if value is not None}
    config = {**before, **{name: value for name, value in said.items() if name in DocstoreConfig.model_fields}}

    if "filter_text" in said:
        config["filter_expression"] = _filter(said["filter_text"])
    paths = {_PATHS[name]: path for name, path in said.items() if name in _PATHS}
    return {**config, "source_fields": {**before["source_fields"], **paths}}


def _filter(text: str) -> dict[str, Any]:
    """Return a filter's JSON, or that of `@FILE`. Raises InvalidArgumentError, or OSError for an unreadable file."""
    try:
        written = Path(text[1:]).read_text("utf-8") if text.startswith("@") else text
        found: object = json.loads(written)
    except ValueError as exc:
        raise InvalidArgumentError(f"--filter is not valid JSON: {json_fault(exc)}") from exc
    if not isinstance(found, dict):
        raise InvalidArgumentError("--filter must be a MongoDB query, a JSON object")
    return cast("dict[str, Any]", found)
