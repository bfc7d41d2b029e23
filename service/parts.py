"""How the parts of a running service are made from its settings.

Until every part has landed, one that is missing is None.
"""
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false

from contextlib import AsyncExitStack
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from service.settings import Settings

Extractor = Any
Embedders = Any
FileStore = Any


def _part(module: str, name: str) -> Any:
    return getattr(import_module(module), name, None) if find_spec(module) else None


async def bootstrap(connection: AsyncConnection, settings: Settings) -> None:
    """Fill an empty database from the environment's settings."""
    if function := _part("service.identity.bootstrap", "bootstrap"):
        await function(connection, settings)


def open_files(settings: Settings) -> FileStore:
    """Open the store of files: the data folder's, unless another is set."""
    store = _part("service.files", "FileStore")
    folder = settings.data_dir / "files"
    folder.mkdir(mode=0o700, exist_ok=True)
    return store and store.from_url(settings.files_url or folder.resolve().as_uri())


async def open_extractor(stack: AsyncExitStack, settings: Settings) -> Extractor:
    """Start the processes that read files."""
    extractor = _part("service.extraction", "Extractor")
    if extractor is None:
        return None
    opened = extractor(
        workers=settings.extraction_workers,
        seconds=settings.extraction_seconds,
        memory_bytes=settings.extraction_memory_bytes,
    )
    stack.callback(opened.close)
    return opened


async def open_embedders(stack: AsyncExitStack, settings: Settings) -> Embedders:  # noqa: ARG001
    """Load the embedding models."""
    return None


def start_sweeping(runtime: Any) -> None:
    """Take up, now and every so often, the work that a crash left."""
