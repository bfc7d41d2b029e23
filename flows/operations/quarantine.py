"""The quarantine: a source's items missing in the catalog, with reasons; the service stores ignored items."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

from carrel import AsyncCarrel
from carrel.wire.sources import Source
from flows.errors import SourceError
from flows.operations.formatting import failure_row, purpose_text
from flows.operations.jobs import NO_HOOKS, Hooks, Outcome
from flows.operations.ledger.addresses import ledger_name
from flows.operations.ledger.ledger import Ledger
from flows.operations.ledger.quarantine import KnownSource, list_sources, names_in_quarantine
from flows.operations.ledger.rows import Failure, Retry
from flows.operations.loading import add_to_collection, upload
from flows.operations.options import CollectionOptions, UploadOptions
from flows.operations.sources.reading import source_identity
from flows.settings import FlowSettings

_SHOWN = 1000
_PAGE = 1000
_MOST_NAMES = 1000
_NAMED = 5


async def find_sources(client: AsyncCarrel, source: str | None, *, settings: FlowSettings) -> list[Source]:
    """Return the sources shown by the service to the caller, or the matches of `source` (`choose_sources`)."""
    every = [item async for item in client.sources.list_sources(page_size=_PAGE)]
    return choose_sources(every, source, settings=settings)


def choose_sources(every: list[Source], source: str | None, *, settings: FlowSettings) -> list[Source]:
    """Return the sources matching a path, a URL, a ledger's name or an id; all for None. Raises SourceError."""
    if source is None:
        return every
    found = [item for item in every if source in {item.ledger, str(item.source_id)}]
    found = found or [item for item in every if item.source == source]
    if not found:
        identity, target = source_identity(source), settings.base_url
        collections = [item.document_collection_id and str(item.document_collection_id) for item in every]
        names = [ledger_name(identity, target=target, collection=collection) for collection in collections]
        found = [each for each, name in zip(every, names, strict=True) if each.ledger == name]
    if not found:
        raise SourceError(f"No run has reported {source}. `carrel quarantine list` lists the sources.")
    return found


async def ignore_items(
    client: AsyncCarrel, source: str, names: Sequence[str], *, undo: bool, settings: FlowSettings
) -> list[str]:
    """Ignore items of a reported source until they change, or `undo` that; return unknown names. Raises SourceError."""
    found = await find_sources(client, source, settings=settings)
    if len(found) > 1:
        whose = [f"{purpose_text(item.document_collection_id)}, reported by {reporter_of(item)}" for item in found]
        means = ", ".join(f"{each.source_id} ({words})" for each, words in zip(found, whose, strict=True))
        raise SourceError(f"{source} matches several sources. Give an id: {means}.")
    change = client.sources.restore_source_items if undo else client.sources.ignore_source_items
    wanted, unknown = list(dict.fromkeys(names)), list[str]()
    for start in range(0, len(wanted), _PAGE):
        unknown += (await change(found[0].source_id, wanted[start : start + _PAGE])).unknown_names
    return unknown


def reporter_of(source: Source) -> str:
    return source.reported_by.email or source.reported_by.name


async def retry(source: str, *, names: Sequence[str] = (), settings: FlowSettings, hooks: Hooks = NO_HOOKS) -> Outcome:
    """Send the source's quarantined items again (only `names`, if any), with the options of the last run, and wait for
    the index. Items refused for good are sent too, ignored items are not; nothing is deleted. Raises SourceError."""
    known = await asyncio.to_thread(_find_source, source, settings=settings)
    if known.target not in {"", settings.base_url}:
        raise SourceError(f"{source} was loaded into another service. Run again with CARREL_BASE_URL={known.target}")
    kept = json.loads(known.options)
    if "source" not in kept:
        raise SourceError(f"This machine has no record of loading {source}. Run `carrel upload` on it again.")
    chosen = Retry(frozenset(names))
    await asyncio.to_thread(_check_names, known, chosen, settings=settings)
    options = kept["options"] | {"wait_for_index": True}
    if known.collection is None:
        uploaded = UploadOptions.model_validate(options)
        return await upload(kept["source"], options=uploaded, settings=settings, hooks=hooks, retry=chosen)
    added = CollectionOptions.model_validate(options)
    return await add_to_collection(kept["source"], options=added, settings=settings, hooks=hooks, retry=chosen)


def _check_names(known: KnownSource, chosen: Retry, *, settings: FlowSettings) -> None:
    if len(chosen.names) > _MOST_NAMES:
        msg = f"A retry takes at most {_MOST_NAMES:,} names. Without names, it takes the whole quarantine."
        raise SourceError(msg)
    unknown = sorted(chosen.names - names_in_quarantine(settings, known, chosen.names))
    if unknown:
        named = ", ".join(unknown[:_NAMED]) + (" …" if len(unknown) > _NAMED else "")
        where = f"Not in the quarantine of {known.source}"
        raise SourceError(f"{where}: {named}. `carrel quarantine list {known.ledger}` lists the names.")


def _find_source(source: str, *, settings: FlowSettings) -> KnownSource:
    """Return the only source with a ledger here by this ledger's name, path or URL. Raises SourceError."""
    every = list_sources(settings)
    found = [known for known in every if known.ledger == source] or [
        known for known in every if known.identity == source_identity(source) and known.target == settings.base_url
    ]
    if not found:
        raise SourceError(f"No run on this machine has loaded {source}. `carrel quarantine list` lists the sources.")
    if len(found) > 1:
        names = ", ".join(f"{known.ledger} ({purpose_text(known.collection)})" for known in found)
        raise SourceError(f"{source} was loaded in several ways. Give the ledger's name: {names}.")
    return found[0]


def failure_rows(ledger: Ledger, *, limit: int = _SHOWN) -> list[dict[str, str]]:
    return [_row(failure) for failure in ledger.failures(limit=limit)]


def write_quarantine(ledger: Ledger, path: Path) -> int:
    """Write every failure as a JSON object per line, replacing the whole file; return the number of failures."""
    number = 0
    path.parent.mkdir(parents=True, exist_ok=True)
    written = path.with_name(f".{path.name}.part")
    with written.open("w", encoding="utf-8") as file:
        for failure in ledger.failures():
            file.write(json.dumps(_row(failure), ensure_ascii=False) + "\n")
            number += 1
    written.replace(path)
    return number


def _row(failure: Failure) -> dict[str, str]:
    return failure_row(failure.place, failure.external_id or "", failure.code, failure.message)
