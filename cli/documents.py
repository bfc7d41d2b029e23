"""`carrel documents`: the documents of the catalog that the key's owner may read."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, cast

import typer

import carrel
from carrel.wire import catalog
from carrel.wire.formats import FORMATS
from carrel.wire.trash import TrashedDocument
from cli.choosing import AsJson, PartOfName, Yes, confirm, id_in, require_only
from cli.collections import collection_of
from cli.completing import names_of_collections
from cli.exit_codes import ExitCode
from cli.listing import Columns, print_json, say_done, show_first, show_list, show_object, to_json
from cli.outcome import connect
from flows.operations.formatting import list_text, name_language

app = typer.Typer(no_args_is_help=True)

Named = Annotated[str, typer.Argument(metavar="DOCUMENT", help="Id, external id, name or file name of the document.")]


def _name_state(document: catalog.Document) -> str | None:
    if document.has_no_text_yet:
        return "being read"
    return "no text" if document.has_no_text else document.indexing and document.indexing.lower()


COLUMNS: Columns[catalog.Document] = {
    "name": lambda document: document.document_name,
    "external id": lambda document: document.document_external_id,
    "owner": lambda document: document.owner.name,
    "bytes": lambda document: document.file_size,
    "updated": lambda document: document.updated_at,
    "files": lambda document: document.file_count,
    "index": _name_state,
    "id": lambda document: document.document_id,
}
LEFT_OUT: Columns[catalog.LeftOutFile] = {
    "file": lambda file: file.path or f"file {file.number:,}",
    "code": lambda file: file.code,
    "reason": lambda file: file.message,
}
TRASH: Columns[TrashedDocument] = {
    "name": lambda document: document.document_name,
    "external id": lambda document: document.document_external_id,
    "deleted": lambda document: document.deleted_at,
    "deleted by": lambda document: document.deleted_by.name,
    "kept until": lambda document: document.kept_until,
    "id": lambda document: document.trashed_document_id,
}
FOLDERS: Columns[catalog.DocumentFolder] = {
    "folder": lambda folder: folder.folder,
    "documents": lambda folder: folder.document_count,
}
Kind = StrEnum("Kind", list(dict.fromkeys(known.kind for known in FORMATS)))


@app.command("list")
def list_documents(
    *,
    query: PartOfName = None,
    owner: Annotated[str | None, typer.Option(metavar="EMAIL", help="Only documents of this owner.")] = None,
    reader: Annotated[
        str | None, typer.Option(metavar="EMAIL", help="Only documents that this person can read; for admins.")
    ] = None,
    collection: Annotated[
        str | None, typer.Option(metavar="COLLECTION", help="In this collection.", autocompletion=names_of_collections)
    ] = None,
    folder: Annotated[
        str | None, typer.Option(metavar="PATH", help="Only documents in this folder of external ids.")
    ] = None,
    kind: Annotated[Kind | None, typer.Option("--type", help="Only files of this type.")] = None,
    since: Annotated[str | None, typer.Option(metavar="TIME", help="Changed at or after this time.")] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Changed before this time.")] = None,
    indexing: Annotated[
        catalog.IndexingStatus | None,
        typer.Option(case_sensitive=False, help="Only documents with this status in the catalog's index."),
    ] = None,
    parent: Annotated[
        str | None, typer.Option(metavar="DOCUMENT", help="Only the files in this archive or email.")
    ] = None,
    with_files: Annotated[
        bool,
        typer.Option("--with-files", help="Also files in archives and emails, which --query and --indexing include."),
    ] = False,
    order: Annotated[
        catalog.DocumentOrder | None,
        typer.Option(case_sensitive=False, help="Sort by name, size, last change, or first upload."),
    ] = None,
    reverse: Annotated[bool, typer.Option("--reverse", help="Oldest or smallest first, or names from Z to A.")] = False,
    most: Annotated[int, typer.Option("--most", min=1, help="Most documents to show.")] = 100,
    as_json: AsJson = False,
) -> None:
    """List or find documents by all options; for an archive or mail, also the number of contained files."""
    with connect(as_json=as_json) as (screen, client):
        filters = {
            "document_name": query,
            "owner_email": owner,
            "readable_by": {"type": "user", "email": reader} if reader else None,
            "document_collection_id": collection and collection_of(collection, client).document_collection_id,
            "folder": folder,
            "media_types": kind and [item.media_type for item in FORMATS if item.kind == kind],
            "updated_from": since,
            "updated_to": until,
            "indexing": indexing,
            "parent_document_id": parent and document_of(parent, client).document_id,
        }
        listed = client.catalog.list_documents(
            **cast("dict[str, Any]", filters),
            contained=None if with_files or query or indexing or parent else False,
            order=order,
            descending=order is catalog.DocumentOrder.NAME if reverse else None,
            page_size=min(most + 1, 1000),
        )
        empty = "No documents match." if any(filters.values()) else "No documents yet."
        empty = f"{empty} Add documents with: carrel upload"
        show_first(screen, "documents", listed, COLUMNS, most=most, empty=empty, more="There are more")


@app.command()
def folders(folder: Annotated[str | None, typer.Argument()] = None, *, as_json: AsJson = False) -> None:
    """List the folders of documents in a folder, or at the top, with the number of documents in each."""
    with connect(as_json=as_json) as (screen, client):
        listed = client.catalog.list_folders(folder=folder, contained=False, page_size=1000)
        show_list(screen, "folders", listed, FOLDERS, empty="No folders here.")


@app.command()
def show(document: Named, *, as_json: AsJson = False) -> None:
    """Show a document, its metadata, and indexing state in the catalog and in collections."""
    with connect(as_json=as_json) as (screen, client):
        found = document_of(document, client)
    files = found.contained_files or f"{found.files_done or 0:,} of {found.file_count or 0:,} so far"
    languages = [(indexing, indexing.language) for indexing in found.indexed_in if indexing.language]
    show_object(
        screen,
        found,
        title=found.document_name,
        facts=[
            ("id", found.document_id),
            ("external", found.document_external_id),
            ("resource", f"{found.resource.resource_type}:{found.resource.resource_id}"),
            ("owner", found.owner.name),
            ("file", f"{found.file_name}, {found.media_type}, {found.file_size:,} bytes"),
            ("version", f"{found.document_version} of {found.updated_at:%Y-%m-%d %H:%M}"),
            *([("in", found.parent_document_id)] if found.parent_document_id else []),
            *([("files", files)] if found.file_count else []),
            *((field, value) for field, value in found.custom_metadata.items()),
            *(("text recognition", recognition) for recognition in (found.text_recognition,) if recognition),
            *(("not read", failure) for failure in found.list_left_out()),
            *(("index", f"{_place(indexing)}: {_progress(indexing)}") for indexing in found.indexed_in),
            *(("language", f"{_place(item)}: {name_language(language)}") for item, language in languages),
        ],
    )


@app.command()
def left_out(
    document: Named,
    *,
    most: Annotated[int, typer.Option("--most", min=1, help="Most files to show.")] = 100,
    as_json: AsJson = False,
) -> None:
    """List the files in an archive or mail without a document, each with the reason."""
    with connect(as_json=as_json) as (screen, client):
        found = document_of(document, client)
        listed = client.catalog.list_left_out_files(found.document_id, page_size=min(most + 1, 1000))
        so_far = "" if found.file_count == found.files_done else " so far"
        empty = f"No files were left out{so_far}."
        show_first(screen, "files", listed, LEFT_OUT, most=most, empty=empty, more="There are more")


@app.command()
def state(document: Named, *, as_json: AsJson = False) -> None:
    """Show how far a document is indexed in the catalog and in collections.

    Exit code 1: indexing failed somewhere."""
    with connect(as_json=as_json) as (screen, client):
        found = document_of(document, client)
    failed = any(indexing.status is catalog.IndexingStatus.FAILED for indexing in found.indexed_in)
    code = ExitCode.PROBLEMS if failed else ExitCode.DONE
    if as_json:
        rows = [to_json(indexing) for indexing in found.indexed_in]
        print_json(screen, "found", code=code, documentId=str(found.document_id), indexedIn=rows)
    for indexing in found.indexed_in:
        screen.line(f"{_place(indexing)}: {_progress(indexing)}", style="red" if indexing.error else "")
    if not found.indexed_in:
        screen.say("The document is in no index.")
    raise typer.Exit(code)


@app.command()
def download(
    document: Named,
    *,
    to: Annotated[
        Path, typer.Option("--to", metavar="PATH", help="Target file, or a folder to keep the file's name.")
    ] = (Path()),
    version: Annotated[int | None, typer.Option(min=1, help="Default: the newest version.")] = None,
    page: Annotated[
        int | None, typer.Option(min=1, help="Download this page of a PDF or image as a JPEG instead of the file.")
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Overwrite an existing file.")] = False,
    as_json: AsJson = False,
) -> None:
    """Download a document's file, or a page as a picture. The file appears only when complete."""
    with connect(as_json=as_json) as (screen, client):
        found = document_of(document, client)
        if page is None:
            download = client.catalog.download_document(found.document_id, document_version=version)
        else:
            download = client.catalog.download_document_page(found.document_id, page, document_version=version)
        with download as file, screen.bar(file.file_name) as bar:

            def show(done: int, total: int | None) -> None:
                bar(file.file_name, done=done, total=total or None)

            saved = file.save(to, replace=replace, on_progress=show)
    say_done(screen, "downloaded", f"{saved}", documentId=str(found.document_id), path=str(saved))


@app.command()
def reindex(document: Named, *, as_json: AsJson = False) -> None:
    """Index a document in the catalog again, for example after a failure."""
    with connect(as_json=as_json) as (screen, client):
        found = document_of(document, client)
        done = client.catalog.reindex_document(found.document_id)
    command = f"carrel documents state {found.document_id}"
    waits = f"Re-indexing {found.document_name}. {command} shows the progress."
    words = f"Re-indexed {found.document_name}." if done.indexing is catalog.IndexingStatus.DONE else waits
    say_done(screen, "reindexed", words, **to_json(done))


@app.command()
def rename(document: Named, name: Annotated[str, typer.Argument(help="New name.")], *, as_json: AsJson = False) -> None:
    """Rename a document. Later uploads of its file keep the name."""
    with connect(as_json=as_json) as (screen, client):
        found = document_of(document, client)
        done = client.catalog.rename_document(found.document_id, name, version=found.version)
    say_done(screen, "renamed", f"Renamed {found.document_name} to {done.document_name}.", **to_json(done))


@app.command()
def delete(document: Named, *, yes: Yes = False, as_json: AsJson = False) -> None:
    """Delete a document everywhere, with its versions."""
    with connect(as_json=as_json, yes=yes) as (screen, client):
        found = document_of(document, client)
        confirm(screen, f"Delete {found.document_name} ({found.document_external_id})?")
        client.catalog.delete_document(found.document_id)
    say_done(screen, "deleted", f"Deleted {found.document_name}.", documentId=str(found.document_id))


@app.command()
def trash(*, query: PartOfName = None, as_json: AsJson = False) -> None:
    """List the deleted documents that you may restore."""
    with connect(as_json=as_json) as (screen, client):
        listed = client.catalog.list_trashed_documents(document_name=query, page_size=1000)
        show_list(screen, "documents", listed, TRASH, empty="No deleted documents found.")


@app.command()
def restore(
    trashed: Annotated[str, typer.Argument(metavar="ID", help="Id from `carrel documents trash`.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Restore a deleted document."""
    with connect(as_json=as_json) as (screen, client):
        back = client.catalog.restore_document(trashed)
    lost = [*(back.readers_left_out or ()), *(back.collections_left_out or ()), *(back.values_left_out or ())]
    without = f" without {list_text(lost)}, which were deleted or changed, or which you cannot change" if lost else ""
    say_done(screen, "restored", f"Restored {back.document_name}{without}.", documentId=str(back.document_id))


def document_of(name: str, client: "carrel.Carrel") -> catalog.GetDocumentResponse:
    """Return the document with an id, external id or name; raises InvalidArgumentError for none or several."""
    if id_in(name) is not None:
        return client.catalog.get_document(name)
    if not (found := list(client.catalog.list_documents(document_external_ids=[name]))):
        named = client.catalog.list_documents(document_name=name, page_size=1000)
        found = [document for document in named if name in {document.document_name, document.file_name}]
    match = require_only(found, kind="document", name=name, hint="find its id with carrel documents list --query")
    return client.catalog.get_document(match.document_id)


def _place(indexing: catalog.DocumentIndexing) -> str:
    return indexing.collection_name or "catalog"


def _progress(indexing: catalog.DocumentIndexing) -> str:
    if indexing.error:
        return f"failed: {indexing.error}"
    if indexing.status is catalog.IndexingStatus.RUNNING and indexing.chunks_expected:
        return f"running, {indexing.chunks_embedded or 0:,} of {indexing.chunks_expected:,} chunks"
    if indexing.status is catalog.IndexingStatus.DONE and not indexing.chunk_count:
        return "done, no text"
    return f"{indexing.status.lower()}, {indexing.chunk_count:,} {'chunk' if indexing.chunk_count == 1 else 'chunks'}"
