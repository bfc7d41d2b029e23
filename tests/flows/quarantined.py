"""The quarantine as the service shows it, and what people do with it there."""

from carrel.wire.sources import Source, SourceItem
from flows.operations.jobs import open_client
from flows.operations.quarantine import find_sources, ignore_items
from flows.settings import FlowSettings


async def reported(settings: FlowSettings, source: str | None = None) -> list[Source]:
    """Return the sources that the settings' key sees, or one of them."""
    async with open_client(settings) as client:
        return await find_sources(client, source, settings=settings)


async def items_of(settings: FlowSettings, source: str | None = None) -> list[SourceItem]:
    """Return what of the sources, or of one, is in quarantine, ignored or not."""
    sources = await reported(settings, source)
    async with open_client(settings) as client:
        return [item for one in sources async for item in client.sources.list_source_items(one.source_id)]


async def listed(settings: FlowSettings, source: str | None = None, *, ignored: bool = False) -> dict[str, str]:
    """Return the codes by name of what counts; `ignored`: of all."""
    return {item.name: item.code for item in await items_of(settings, source) if ignored or not item.ignored}


async def ignore(settings: FlowSettings, source: str, *names: str, undo: bool = False) -> list[str]:
    """Ignore items, or restore them; return the names that are unknown."""
    async with open_client(settings) as client:
        return await ignore_items(client, source, names, undo=undo, settings=settings)
