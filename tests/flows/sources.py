"""A folder and its runs, with the resulting service state, for tests of runs."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from carrel import Carrel
from carrel.wire import sources
from carrel.wire.collections import CustomMetadataSchema
from flows.operations.backlog import notes_of
from flows.operations.jobs import NO_HOOKS, Hooks, Outcome, open_client
from flows.operations.loading import add_to_collection, open_ledger, upload
from flows.operations.options import CollectionOptions, UploadOptions
from flows.operations.quarantine import find_sources, ignore_items, retry
from flows.settings import FlowSettings
from tests.harness.services import RunningService

IN_BOTH = pytest.mark.parametrize("ledgers", ["file", "database"])
"""Run a test with ledgers in files, and with ledgers in PostgreSQL."""
IN_DATABASE = pytest.mark.parametrize("ledgers", ["database"])


@dataclass(frozen=True)
class Source:
    """A folder, a service for runs, and settings (`usual` options); `of` returns a second source."""

    folder: Path
    settings: FlowSettings
    service: RunningService
    usual: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return str(self.folder)

    def using(self, **settings: Any) -> "Source":
        return replace(self, settings=self.settings.model_copy(update=settings))

    def beside(self, name: str) -> "Source":
        (folder := self.folder.parent / name).mkdir()
        return replace(self, folder=folder)

    def write(self, name: str, content: str | bytes = "Mended.") -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def manifest(self, *lines: str, name: str = "m.csv") -> Path:
        return self.write(name, "\n".join(lines))

    def remove(self, *numbers: int) -> None:
        for number in numbers:
            (self.folder / note(number)).unlink()

    def files(self) -> set[str]:
        return {path.relative_to(self.folder).as_posix() for path in self.folder.rglob("*.md")}

    def documents(self, *, as_user: str | None = None) -> set[str]:
        with self.client() as client:
            return {one.document_external_id for one in client.catalog.list_documents(user_email=as_user)}

    def client(self) -> Carrel:
        return Carrel(self.service.api_key, self.service.base_url)

    async def load(
        self, of: object = None, *, hooks: Hooks = NO_HOOKS, dry_run: bool = False, **options: Any
    ) -> Outcome:
        asked = UploadOptions(**{**self.usual, **options})
        return await upload(str(of or self), options=asked, settings=self.settings, hooks=hooks, dry_run=dry_run)

    async def retry(self, of: object = None, *, names: Sequence[str] = ()) -> Outcome:
        return await retry(str(of or self), names=names, settings=self.settings)

    async def add_to(self, collection: str, of: object = None, **options: Any) -> Outcome:
        asked = CollectionOptions(collection=collection, **options)
        return await add_to_collection(str(of or self), options=asked, settings=self.settings)

    async def reported(self, of: object = None) -> list[sources.Source]:
        async with open_client(self.settings) as client:
            return await find_sources(client, str(of) if of else None, settings=self.settings)

    async def items(self, of: object = None) -> list[sources.SourceItem]:
        found = await self.reported(of)
        async with open_client(self.settings) as client:
            return [item for one in found async for item in client.sources.list_source_items(one.source_id)]

    async def quarantine(self, of: object = None, *, ignored: bool = False) -> dict[str, str]:
        return {item.name: item.code for item in await self.items(of) if ignored or not item.ignored}

    async def ignored(self) -> dict[str, bool]:
        return {item.name: item.ignored for item in await self.items()}

    async def ignore(self, *names: str, of: object = None, undo: bool = False) -> list[str]:
        async with open_client(self.settings) as client:
            return await ignore_items(client, str(of or self), names, undo=undo, settings=self.settings)

    def remarks(self, of: object = None) -> list[str]:
        with open_ledger(str(of or self), settings=self.settings) as ledger:
            return notes_of(ledger.address.name).remarks

    def create_collection(self, *fields: str) -> str:
        schema = {"fields": [{"name": name, "type": "STRING"} for name in fields]}
        with self.client() as client:
            created = client.document_collections.create_document_collection(
                "Notes", custom_metadata_schema=CustomMetadataSchema.model_validate(schema)
            )
        return str(created.document_collection_id)


def note(number: int) -> str:
    return f"shelf-{number % 3}/note-{number}.md"


@contextmanager
def unlisted(folder: str) -> Iterator[None]:
    scandir = os.scandir

    def refuse(path: Any) -> Any:
        if str(path).endswith(folder):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.scandir", refuse)
        yield
