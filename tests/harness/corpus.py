"""An organization's index, written and read directly, for tests of index and search."""

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import Any
from uuid import UUID

import numpy as np
from sqlalchemy import RowMapping, text
from sqlalchemy.ext.asyncio import AsyncConnection

from service.index.service import DocumentToIndex, ensure_catalog_space, fold_statistics, write_index
from service.index.spaces.queries import Space
from service.index.statistics.queries import ask_frequencies, try_lock_statistics
from service.index.terms import as_sparsevec, read_query, term_of, weigh_query
from service.permissions.access import Access
from service.permissions.service import register_resource
from service.platform.batches import Batch
from service.platform.database import Database, driver_url
from service.platform.identifiers import document_id_for, uuid7
from service.schema.indexing import TOTAL_TERM
from tests.harness.services import RunningService
from tests.service.directory import organization_id as organization_of

MOVE_INSIDE = (
    """
    UPDATE chunks_384 c SET embedding = v.embedding FROM vectors_384 v WHERE (c.organization_id, c.space_id)
    = (v.organization_id, v.space_id) AND (c.document_id, c.chunk_no) = (v.document_id, v.chunk_no)
    """,
    "DELETE FROM vectors_384",
    "UPDATE space_documents SET forms = 1",
)
"""Statements for arranging rows as releases before 0.3.0."""


@dataclass(frozen=True)
class FakeModel:
    """A model with only a name and dimensions: its vectors are hashes of the texts."""

    name: str = "all-MiniLM-L6-v2"
    dimensions: int = 384


@dataclass(frozen=True)
class FakeChunk:
    text: str
    hash: bytes
    dense_text: str
    place: None = None


MEAN = np.zeros(384, np.float32)


def vector_of(passage: str) -> np.ndarray:
    vector = np.random.default_rng(list(sha256(passage.encode()).digest())).standard_normal(384).astype(np.float32)
    return vector / np.linalg.norm(vector)


@dataclass
class Corpus:
    """An organization's catalog; `transaction` opens a transaction as the service does, on its own connections."""

    database: Database
    organization_id: UUID
    owner_id: UUID
    space: Space
    model: FakeModel

    @classmethod
    async def open(cls, service: RunningService) -> "Corpus":
        url = service.settings.database_url
        assert url is not None
        database = Database(driver_url(url.get_secret_value()))
        organization_id = organization_of(service)
        async with database.transaction(organization_id) as connection:
            owner = text("SELECT principal_id FROM principals WHERE kind = 'user'")
            owner_id = (await connection.execute(owner)).scalar_one()
            space = await ensure_catalog_space(connection, organization_id, model=FakeModel())
        return cls(database, organization_id, owner_id, space, FakeModel())

    async def close(self) -> None:
        await self.database.close()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncConnection]:
        async with self.database.transaction(self.organization_id) as connection:
            yield connection

    def chunk(self, title: str, passage: str) -> FakeChunk:
        dense_text = f"{title}\n{passage}"
        return FakeChunk(passage, sha256(dense_text.encode()).digest(), dense_text)

    async def add(self, title: str, chunks: Sequence[str], *, access: Access | None = None) -> UUID:
        document_id = await self.register(title, access=access)
        async with self.transaction() as connection:
            assert await self.write(connection, document_id, title, chunks)
        return document_id

    async def register(self, title: str, *, access: Access | None = None) -> UUID:
        external_id = f"{title}-{uuid7()}"
        document_id = document_id_for(self.organization_id, external_id)
        access = access or Access(owner_id=self.owner_id, viewers=frozenset(), editors=frozenset())
        async with self.transaction() as connection:
            await connection.execute(
                text(
                    "INSERT INTO documents (document_id, organization_id, external_id, name, owner_id, version)"
                    " VALUES (:document_id, :organization_id, :external_id, :name, :owner_id, 1)"
                ),
                {
                    "document_id": document_id,
                    "organization_id": self.organization_id,
                    "external_id": external_id,
                    "name": title,
                    "owner_id": self.owner_id,
                },
            )
            await register_resource(
                connection,
                self.organization_id,
                object_id=document_id,
                resource_type="UPLOADED_DOCUMENT",
                resource_id=str(document_id),
                access=access,
            )
        await self.want(document_id, self.space)
        return document_id

    async def want(self, document_id: UUID, space: Space, *, version: int = 1, metadata: str = "{}") -> None:
        async with self.transaction() as connection:
            await connection.execute(
                text(
                    "INSERT INTO space_documents (document_id, space_id, organization_id, version, custom_metadata)"
                    " VALUES (:document_id, :space_id, :organization_id, :version, cast(:metadata AS jsonb))"
                    " ON CONFLICT (document_id, space_id) DO UPDATE SET version = excluded.version"
                ),
                {
                    "document_id": document_id,
                    "space_id": space.space_id,
                    "organization_id": self.organization_id,
                    "version": version,
                    "metadata": metadata,
                },
            )

    async def write(
        self,
        connection: AsyncConnection,
        document_id: UUID,
        title: str,
        chunks: Sequence[str],
        *,
        version: int = 1,
        space: Space | None = None,
    ) -> bool:
        documents = [self.document(document_id, title, chunks, version=version)]
        space = space or self.space
        return bool(await write_index(connection, self.organization_id, space=space, documents=documents))

    def document(self, document_id: UUID, title: str, chunks: Sequence[str], *, version: int = 1) -> DocumentToIndex:
        made = [self.chunk(title, passage) for passage in chunks]
        vectors = np.stack([vector_of(chunk.dense_text) for chunk in made])
        return DocumentToIndex(document_id, version, title, made, vectors, MEAN)

    async def rewrite(
        self, document_id: UUID, title: str, chunks: Sequence[str], *, wanted: int = 2, version: int = 2
    ) -> bool:
        await self.want(document_id, self.space, version=wanted)
        async with self.transaction() as connection:
            return await self.write(connection, document_id, title, chunks, version=version)

    async def select(self, statement: str, **values) -> Sequence[RowMapping]:
        async with self.transaction() as connection:
            return (await connection.execute(text(statement), values)).mappings().all()

    async def written(self, document_id: UUID) -> tuple[int, int]:
        [counts] = await self.select(
            "SELECT (SELECT count(*) FROM chunks_384 WHERE document_id = :document_id) AS chunks,"
            " (SELECT count(*) FROM code_pages_384 WHERE document_id = :document_id) AS code_pages",
            document_id=document_id,
        )
        return counts["chunks"], counts["code_pages"]

    async def fold(self) -> int:
        async with self.transaction() as connection:
            return await fold_statistics(connection, self.organization_id)

    @asynccontextmanager
    async def folding_alone(self) -> AsyncIterator[AsyncConnection]:
        """Open a transaction without foreign folding of term statistics; use `fold_statistics` inside."""
        async with self.transaction() as connection:
            while not await try_lock_statistics(connection, self.organization_id):
                pass  # the service is at it, and lets go when its transaction ends
            yield connection

    async def frequency(self, word: str, space: Space | None = None) -> int:
        return await self._frequency(term_of(word, "english"), space)

    async def total(self, space: Space | None = None) -> int:
        return await self._frequency(TOTAL_TERM, space)

    async def _frequency(self, term: int, space: Space | None) -> int:
        return (await self.frequencies((space or self.space).space_id, [term])).get(term, 0)

    async def frequencies(self, space_id: int, terms: Collection[int]) -> dict[int, int]:
        batch = Batch()
        counted = ask_frequencies(batch, self.organization_id, space_id=space_id, terms=terms)
        await self.database.read(self.organization_id, batch)
        return dict(counted.rows)

    async def rows(self, document_id: UUID) -> dict[int, Any]:
        """Return the chunk rows of a document in the catalog, by number, each with its place in PostgreSQL."""
        columns = "chunk_no, chunk_id, text, ctid::text AS place"
        found = f"SELECT {columns} FROM chunks_384 WHERE document_id = :document_id"  # noqa: S608 - columns of ours
        return {row["chunk_no"]: row for row in await self.select(found, document_id=document_id)}

    async def codes(self, document_id: UUID) -> list[int]:
        statement = (
            "SELECT num_nonnulls(c1, c2, c3, c4, c5, c6, c7, c8) AS codes FROM code_pages_384"
            " WHERE document_id = :document_id ORDER BY page_no"
        )
        return [row["codes"] for row in await self.select(statement, document_id=document_id)]

    async def access_classes(self, document_id: UUID) -> dict[str, Any]:
        statement = (
            "SELECT (SELECT access_class FROM resources WHERE object_id = :document_id) AS resource,"
            " ARRAY(SELECT access_class FROM chunks_384 WHERE document_id = :document_id) AS chunks,"
            " ARRAY(SELECT access_class FROM vectors_384 WHERE document_id = :document_id) AS vectors,"
            " ARRAY(SELECT access_class FROM code_pages_384 WHERE document_id = :document_id) AS code_pages"
        )
        [found] = await self.select(statement, document_id=document_id)
        return dict(found)

    async def lexical_scores(self, query: str) -> list[float]:
        words = read_query(query, ("english",)).words
        terms = {term_of(word, "english") for word in words} | {TOTAL_TERM}
        counts = await self.frequencies(self.space.space_id, terms)
        vector = weigh_query(read_query(query, ("english",)), frequencies=counts, total=counts[TOTAL_TERM])
        statement = "SELECT -(terms <#> cast(:query AS sparsevec)) AS score FROM chunks_384"
        return [row["score"] for row in await self.select(statement, query=as_sparsevec(vector))]
