"""Helpers for syncing a test's collection, and for comparing the result with the source."""

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import httpx

from service.domains.documents.docstore.values import SourceId
from tests.harness.mongo.processes import MongoServer
from tests.harness.services import RunningService
from tests.service.directory import done, walk

FOLDER = "documentCollections/docstore"
FIELDS = {"body": "content.text", "sourceName": "title"}
DATED: dict[str, str] = {**FIELDS, "sourceSystemUpdated": "updatedAt", "sourceUrl": "url"}
START = datetime(2026, 1, 1, tzinfo=UTC)
RUN_SECONDS = 150
LOOPBACK = ("127.0.0.1",)


def a_thing(number: int, **members) -> dict:
    """Return a source document: id and text contain its number, and each was changed a minute after the previous."""
    return {
        "_id": f"thing-{number:04}",
        "title": f"Thing {number}",
        "content": {"text": f"The lamp of thing {number} is lit at dusk."},
        "updatedAt": START + timedelta(minutes=number),
        **members,
    }


@dataclass
class Syncing:
    """A service that may connect to the test's document database, and a target collection."""

    service: RunningService
    mongo: MongoServer
    api_key: str | None = None
    collection_id: str = field(init=False)
    sync_id: str = ""

    def __post_init__(self) -> None:
        name, create = {"collectionName": self.mongo.collection_name}, "documentCollections/createDocumentCollection"
        self.collection_id = done(self.service.call(create, name, api_key=self.api_key))["documentCollectionId"]

    def config(self, **members) -> dict:
        return {"syncName": "things", "collectionName": self.mongo.collection_name, "sourceFields": DATED, **members}

    def filled(self, count: int, **members):
        self.mongo.collection.insert_many([a_thing(number, **members) for number in range(count)])
        return self.mongo.collection

    def call(self, operation: str, body: dict | None = None, **options) -> httpx.Response:
        return self.service.call(f"{FOLDER}/{operation}", body, **{"api_key": self.api_key, **options})

    def create(self, *, uri: str | None = None, **members) -> httpx.Response:
        body = {"documentCollectionId": self.collection_id, "docstoreURI": uri or self.mongo.uri}
        answer = self.call("createDocstoreSync", {**body, "config": self.config(**members)})
        if answer.status_code == 200:
            self.sync_id = answer.json()["docstoreCredentialId"]
        return answer

    def update(self, *, uri: str | None = None, **members) -> httpx.Response:
        address = {} if uri is None else {"docstoreURI": uri}
        return self.call("updateDocstoreSync", {**self.named, **address, "config": self.config(**members)})

    def updated(self, **members) -> dict:
        done(self.update(**members))
        return self.ended()

    @property
    def named(self) -> dict:
        return {"docstoreCredentialId": self.sync_id}

    def first_run(self, **members) -> dict:
        done(self.create(**members))
        return self.ended()

    def run(self) -> dict:
        assert done(self.call("launchDocstoreSync", self.named))["syncLaunched"]
        return self.ended()

    def ended(self) -> dict:
        deadline = time.monotonic() + RUN_SECONDS
        while time.monotonic() < deadline:
            sync = done(self.call("getDocstoreSync", self.named))
            if sync["status"] in {"COMPLETED", "FAILED"}:
                return sync
            time.sleep(0.02)
        raise AssertionError(sync)

    def failures(self) -> dict[str, str]:
        listed = walk(self.service, f"{FOLDER}/listDocstoreFailures", self.named)
        return {str(one["sourceId"]): one["code"] for one in listed}

    def held(self) -> list[dict]:
        listed = walk(self.service, f"{FOLDER}/listDocstoreHeldRemovals", self.named)
        return sorted(listed, key=lambda one: one["documentName"])

    def external_id(self, source_id) -> str:
        return f"{self.sync_id}:{SourceId(source_id).key}"

    def documents(self) -> dict[str, dict]:
        body = {"documentCollectionId": self.collection_id}
        listed = walk(self.service, "documentCollections/listDocumentsInCollection", body, api_key=self.api_key)
        return {one["documentExternalId"]: one for one in listed}

    def names(self) -> set[str]:
        return {one["documentName"] for one in self.documents().values()}

    def versions(self) -> dict[str, int]:
        return {one["documentName"]: one["documentVersion"] for one in self.documents().values()}


def counts(sync: dict, *names: str) -> tuple[int, ...]:
    return tuple(sync["counts"][name] for name in names)
