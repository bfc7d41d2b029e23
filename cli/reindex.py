"""`carrel reindex`: index a collection again, or rebuild an index, also the catalog's, with another model."""

import asyncio
from typing import Annotated

import typer

from cli.choosing import AsJson
from cli.completing import names_of_collections
from cli.outcome import show_errors, usage
from cli.screen import Screen
from flows.operations.options import CATALOG, ReindexOptions


def reindex(
    collection: Annotated[
        str,
        typer.Argument(
            metavar="COLLECTION",
            help=f"Name or id of the collection; {CATALOG} (with --model) for the catalog.",
            autocompletion=names_of_collections,
        ),
    ],
    *,
    everything: Annotated[bool, typer.Option("--all", help="Every document, not only changed documents.")] = False,
    model: Annotated[
        str | None,
        typer.Option(help="Rebuild the index with this embedding model. Searches use the old index until then."),
    ] = None,
    force: Annotated[bool, typer.Option(help="With --model: finish without documents that fail.")] = False,
    cancel: Annotated[bool, typer.Option("--cancel", help="Cancel the rebuild with another model.")] = False,
    wait: Annotated[bool, typer.Option(help="Wait until re-indexing is done.")] = True,
    as_json: AsJson = False,
) -> None:
    """Re-index the documents of a collection: only stale documents, --all, or with another --model."""
    with show_errors(Screen(as_json=as_json)) as screen:
        from cli.runs import cancel_rebuild, run_reindex  # noqa: PLC0415 - the flows come with an extra

        if cancel:
            raise typer.Exit(cancel_rebuild(collection, screen=screen))
        options = ReindexOptions(everything=everything, model=model, force=force, wait_for_end=wait)
        if model is None and collection == CATALOG:
            raise usage(screen, "The catalog is never stale. Give --model to rebuild its index.")
        raise typer.Exit(asyncio.run(run_reindex(collection, options, screen=screen)))
