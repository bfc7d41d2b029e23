"""`carrel collections`: collections and their documents."""

import re
from typing import Annotated, Any

import typer

import carrel
from carrel import InvalidArgumentError
from carrel.wire.collections import DistanceMetric, DocumentCollection, FieldType, SchemaField, find_named
from cli.choosing import AsJson, PartOfName, Yes, confirm, require_only
from cli.completing import names_of_collections
from cli.listing import Columns, say_done, show_list, show_object, to_json
from cli.loading import SOURCE, Direct, Exclude, Hidden, Include, Metadata, pairs
from cli.outcome import connect, show_errors
from cli.screen import Screen
from flows.operations.options import CollectionOptions

app = typer.Typer(no_args_is_help=True)

Named = Annotated[
    str, typer.Argument(metavar="COLLECTION", help="Name or id of the collection.", autocompletion=names_of_collections)
]

COLUMNS: Columns[DocumentCollection] = {
    "name": lambda collection: collection.collection_name,
    "documents": lambda collection: collection.document_count,
    "role": lambda collection: collection.role,
    "embeddings": lambda collection: collection.embeddings_model,
    "id": lambda collection: collection.document_collection_id,
}

_CHOSEN = "Documents in the catalog: a quoted catalog://GLOB?field=value, or a source of external ids:"


@app.command("list")
def list_collections(*, name: PartOfName = None, as_json: AsJson = False) -> None:
    """List the collections that the key's owner may search."""
    with connect(as_json=as_json) as (screen, client):
        found = client.document_collections.list_document_collections(collection_name=name, page_size=1000)
        empty = "No collections yet. Create a collection with: carrel collections create"
        show_list(screen, "documentCollections", found, COLUMNS, empty=empty)


@app.command()
def show(collection: Named, *, as_json: AsJson = False) -> None:
    """Show a collection and the fields of its metadata."""
    with connect(as_json=as_json) as (screen, client):
        found = collection_of(collection, client)
    show_object(
        screen,
        found,
        title=found.collection_name,
        facts=[
            ("id", found.document_collection_id),
            ("documents", found.document_count),
            ("role", found.role),
            ("embeddings", f"{found.embeddings_model}, compared by {found.distance_metric}"),
            ("created", found.created_at),
            ("fields", [f"{field.name}: {field.type}" for field in found.custom_metadata_schema.fields] or "none"),
        ],
    )


@app.command()
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Unique name of the collection.")],
    *,
    field: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME:TYPE", help=f"{', '.join(FieldType)}; with choices: 'team:STRING=sea;air'. Repeatable."
        ),
    ] = None,
    embeddings_model: Annotated[str | None, typer.Option(help="Default: the service's model.")] = None,
    distance_metric: Annotated[
        DistanceMetric, typer.Option(help="How embeddings are compared.")
    ] = DistanceMetric.COSINE,
    as_json: AsJson = False,
) -> None:
    """Create a collection, which the key's owner then owns."""
    with connect(as_json=as_json) as (screen, client):
        created = client.document_collections.create_document_collection(
            name,
            embeddings_model=embeddings_model,
            distance_metric=distance_metric,
            custom_metadata_schema={"fields": [_field(text) for text in field or ()]},
        )
    say_done(screen, "created", f"Created {name}: {created.document_collection_id}", **to_json(created))


@app.command()
def add(
    collection: Named,
    source: Annotated[str, typer.Argument(help=f"{_CHOSEN} {SOURCE}", metavar="SOURCE")],
    *,
    metadata: Metadata = None,
    hidden: Hidden = False,
    include: Include = None,
    exclude: Exclude = None,
    direct: Direct = False,
    as_json: AsJson = False,
) -> None:
    """Add documents of the catalog to a collection, or update them there.

    catalog://GLOB?field=value chooses documents of the catalog by external id and custom metadata. Any other source
    gives external ids (paths below SOURCE, or a manifest) and metadata; no file is sent."""
    options = CollectionOptions(
        collection=collection, metadata=pairs(metadata), hidden=hidden, include=include or [], exclude=exclude or []
    )
    with show_errors(Screen(as_json=as_json)) as screen:
        from cli.runs import run_collection_add  # noqa: PLC0415 - the flows come with an extra of their own

        raise typer.Exit(run_collection_add(source, options, screen=screen, direct=direct))


@app.command()
def rename(
    collection: Named, name: Annotated[str, typer.Argument(help="New name.")], *, as_json: AsJson = False
) -> None:
    """Rename a collection. Schedules and manifests with the former name still find it."""
    with connect(as_json=as_json) as (screen, client):
        found = collection_of(collection, client)
        rename = client.document_collections.rename_document_collection
        done = rename(found.document_collection_id, name, version=found.version)
    say_done(screen, "renamed", f"Renamed {found.collection_name} to {done.collection_name}.", **to_json(done))


@app.command()
def delete(collection: Named, *, yes: Yes = False, as_json: AsJson = False) -> None:
    """Delete a collection with its index; its documents stay in the catalog."""
    with connect(as_json=as_json, yes=yes) as (screen, client):
        found = collection_of(collection, client)
        confirm(screen, f"Delete {found.collection_name} and the index of its {found.document_count:,} documents?")
        client.document_collections.delete_document_collection(found.document_collection_id)
    identity = str(found.document_collection_id)
    say_done(screen, "deleted", f"Deleted {found.collection_name}.", documentCollectionId=identity)


def collection_of(name: str, client: "carrel.Carrel") -> DocumentCollection:
    """Return the collection with an id, name or former name; raises InvalidArgumentError for none, or several."""
    found = find_named(client.document_collections.list_document_collections(page_size=1000), name)
    return require_only(found, kind="collection", name=name, hint="`carrel collections list` shows all")


def _field(text: str) -> SchemaField:
    written = re.fullmatch(rf"(.+?):({'|'.join(FieldType)})(?:=(.*))?", text, re.IGNORECASE | re.DOTALL)
    if written is None:
        raise InvalidArgumentError(f"{text!r} is not NAME:TYPE or NAME:TYPE=CHOICES. Types: {', '.join(FieldType)}")
    name, kind, choices = written.groups()
    more: dict[str, Any] = {"choices": [item.strip() for item in choices.split(";") if item.strip()]} if choices else {}
    return SchemaField(name=name, type=FieldType[kind.upper()], **more)
