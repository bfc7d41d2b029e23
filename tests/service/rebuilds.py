"""Helpers for rebuilding an index in a test, and for the contents."""

from dataclasses import dataclass

import httpx

from service.index.rebuilds.running import rebuild_all
from tests.harness.documents import add_to_collection, create_collection, ok, uploaded
from tests.harness.embeddings import MODEL
from tests.harness.jobs import until
from tests.harness.services import RunningService
from tests.service.directory import organization_id, walk

LOCAL = "all-MiniLM-L6-v2"
FOLDER = "documentCollections"
TEXTS = {
    "ferry": "The ferry leaves the harbour at noon.",
    "lamp": "The lamp of the lighthouse is lit at dusk.",
    "crew": "The crew sleeps below the deck until the watch.",
}


@dataclass
class Shelf:
    """A collection (None: the catalog) with rebuilds advanced by the test."""

    service: RunningService
    collection_id: str | None

    @property
    def about(self) -> dict[str, str]:
        return {} if self.collection_id is None else {"documentCollectionId": self.collection_id}

    def call(self, operation: str, **members) -> httpx.Response:
        return self.service.call(f"{FOLDER}/{operation}IndexRebuild", self.about | members)

    def start(self, model: str = MODEL, **members) -> dict:
        return ok(self.call("start", embeddingsModel=model, **members))

    def state(self) -> dict:
        return ok(self.call("get"))

    def failures(self) -> list[dict]:
        return walk(self.service, f"{FOLDER}/listIndexRebuildFailures", self.about)

    def take_all_steps(self) -> None:
        self.service.run(rebuild_all(self.service.runtime.indexer, self.service.runtime.disk))

    def finish(self) -> dict:
        self.take_all_steps()
        state = self.state()
        assert state["status"] == "COMPLETED", state
        return state

    def add(self, name: str, text: str | None = None) -> str:
        place = {} if self.collection_id is None else {"collectionId": self.collection_id}
        return uploaded(self.service, name, text or TEXTS[name], file_name=f"{name}.txt", **place)["documentId"]

    def add_chunks(self, document_id: str, *chunks: str) -> None:
        assert self.collection_id is not None
        members = {"chunks": chunks, "customMetadata": {}}
        operation = "addDocumentChunksToCollection"
        ok(add_to_collection(self.service, document_id, self.collection_id, operation=operation, **members))

    def search(self, query: str, **members) -> list[str]:
        operation = "searchDocumentCatalog" if self.collection_id is None else "searchDocumentCollection"
        body = {"searchQuery": query, **self.about, **members}
        return [each["documentName"] for each in ok(self.service.call(f"search/{operation}", body))["results"]]

    def model(self) -> str:
        statement = (
            "SELECT model FROM spaces WHERE is_catalog AND organization_id = %(organization_id)s"
            if self.collection_id is None
            else "SELECT model FROM spaces JOIN collections USING (space_id) WHERE collection_id = %(id)s"
        )
        ids = {"id": self.collection_id, "organization_id": organization_id(self.service)}
        return str(self.service.execute(statement, ids)[0][0])


def a_shelf(service: RunningService, *names: str) -> Shelf:
    shelf = Shelf(service, create_collection(service, "Shelf"))
    for name in names:
        shelf.add(name)
    return shelf


def places(service: RunningService) -> dict[tuple[str, str], tuple[int, int | None, int]]:
    statement = (
        "SELECT d.name, s.model, p.version, p.indexed_version, p.chunk_count FROM space_documents p"
        " JOIN spaces s USING (space_id) JOIN documents d USING (document_id)"
        " WHERE NOT s.is_catalog AND s.organization_id = %s"
    )
    rows = service.execute(statement, [organization_id(service)])
    return {(name, model): (version, indexed, count) for name, model, version, indexed, count in rows}


def let_time_pass(service: RunningService, interval: str = "2 hours") -> None:
    service.execute("UPDATE spaces SET retired_at = retired_at - %s::interval", [interval])
    service.execute("UPDATE space_documents SET claimed_until = NULL WHERE indexed_version IS DISTINCT FROM version")


def wait_blocked(service: RunningService, number: int = 1) -> None:
    statement = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    until(lambda: service.execute(statement) == [(number,)])
