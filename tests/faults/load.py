"""A mixed load on a service, by actors that know the right answers and end the load at a wrong answer."""

import random
import socket
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, ClassVar

import httpx

from tests.harness.mongo.processes import MongoServer
from tests.harness.services import API_KEY
from tests.service.docstore import DATED, a_thing

PATIENCE_SECONDS = 120
DOCUMENTS = 80
THINGS = 40
WORDS = ("ferry", "lamp", "crew", "harbour", "pier", "storm", "anchor", "tide", "gull", "rope", "mast", "chart")
PRIVATE, SHARED = "private", "shared"


class LoadError(AssertionError):
    """The service gave a wrong answer."""


@dataclass
class Load:
    """State shared by all actors: the service's address, the end time, the number of requests, and errors."""

    base_url: str
    port: int
    seed: int
    readers: Sequence[str] = ()
    stop: threading.Event = field(default_factory=threading.Event)
    asked: "Counter[str]" = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, name: str) -> None:
        with self._lock:
            self.asked[name] += 1

    @property
    def requests(self) -> int:
        with self._lock:
            return sum(number for name, number in self.asked.items() if "/" in name)


class Actor(ABC):
    """Repeats an action, in a thread with a separate connection, until the load stops."""

    pause: ClassVar[float]

    def __init__(self, load: Load, *, name: str, api_key: str = API_KEY) -> None:
        self.load = load
        self.name = name
        self.dice = random.Random(f"{load.seed} {name}")  # noqa: S311 - no secret
        self._clients: list[httpx.Client] = []
        self.http = self.connect(api_key)
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)

    @abstractmethod
    def act(self) -> None:
        """Do the action once; raises LoadError for a wrong answer."""

    def _run(self) -> None:
        try:
            while not self.load.stop.is_set():
                self.act()
                self.load.stop.wait(self.pause * self.dice.uniform(0.5, 1.5))
        except Exception as error:  # noqa: BLE001 - whatever ends an actor is what the load has to tell
            self.load.problems.append(f"{self.name}: {type(error).__name__}: {error}")
            self.load.stop.set()
        finally:
            for client in self._clients:
                client.close()

    def connect(self, api_key: str) -> httpx.Client:
        headers = {"Authorization": f"Bearer {api_key}"}
        self._clients.append(httpx.Client(base_url=self.load.base_url, headers=headers, timeout=PATIENCE_SECONDS))
        return self._clients[-1]

    def post(self, operation: str, **request: Any) -> httpx.Response:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            answer = self.http.post(f"/api/v0/{operation}", **request)
            self.load.count(operation)
            if answer.status_code >= 500:
                raise LoadError(f"{operation} answered {answer.status_code}: {answer.text[:500]}")
            if answer.status_code != 429 or time.monotonic() > deadline:
                return answer
            self.load.count("refused for now")
            time.sleep(min(float(answer.headers.get("Retry-After", 1)), 10))

    def ask(self, operation: str, **body: Any) -> dict[str, Any]:
        answer = self.post(operation, json=body)
        if answer.status_code != 200:
            raise LoadError(f"{operation} answered {answer.status_code}: {answer.text[:500]}")
        return answer.json()

    def words(self, number: int) -> str:
        return " ".join(self.dice.choice(WORDS) for _ in range(number))


class Uploader(Actor):
    """Uploads new, changed and unchanged documents and deletes some; `texts` is the expected content."""

    pause = 0.15

    def __init__(self, load: Load, *, name: str) -> None:
        super().__init__(load, name=name)
        self.texts: dict[str, str] = {}
        self.ids: dict[str, str] = {}

    def act(self) -> None:
        external_id = f"{self.name}/{self.dice.randrange(DOCUMENTS):03}"
        text = self.texts.get(external_id)
        chance = self.dice.random()
        if text is not None and chance < 0.15:
            self.ask("catalog/deleteDocument", documentId=self.ids[external_id])
            del self.texts[external_id]
        elif text is not None and chance < 0.45:
            self._upload(external_id, text)
        else:
            length = 1500 if self.dice.random() < 0.05 else self.dice.randrange(10, 150)
            self._upload(external_id, f"{self.name} {self.words(length)}.")

    def _upload(self, external_id: str, text: str) -> None:
        is_shared = int(external_id[-1]) % 2 == 0
        parts = {
            "documentExternalId": external_id,
            "documentName": f"{SHARED if is_shared else PRIVATE} {external_id}",
            "allowedUsersEmailAddresses": "[]",
            "internalPublic": "true" if is_shared else "false",
        }
        answer = self.post("catalog/uploadFile", data=parts, files={"file": ("note.txt", text.encode())})
        if not answer.is_success:
            raise LoadError(f"uploadFile answered {answer.status_code}: {answer.text[:500]}")
        self.ids[external_id] = answer.json()["documentId"]
        self.texts[external_id] = text


class Reader(Actor):
    """Searches and lists with access to shared documents; private documents must not appear."""

    pause = 0.15

    def act(self) -> None:
        if self.dice.random() < 0.75:
            found = self.ask("search/searchDocumentCatalog", searchQuery=self.words(3))["results"]
        else:
            found = self.ask("catalog/listDocuments", pageSize=100)["documents"]
        seen = [one["documentName"] for one in found if one["documentName"].startswith(PRIVATE)]
        if seen:
            raise LoadError(f"a reader saw {seen}")


class Granter(Actor):
    """Grants and revokes a reader's access to a document, and checks at once each time: by id, by search, by list."""

    pause = 0.3

    def __init__(self, load: Load, *, name: str, reader: str, reader_key: str) -> None:
        super().__init__(load, name=name)
        self._reader = reader
        self._looking = self.connect(reader_key)
        self._marker = f"quinquereme{name.replace('-', '')}"
        self._document_id = ""

    def act(self) -> None:
        if not self._document_id:
            self._upload()
        for grants in ([{"principal": {"type": "user", "email": self._reader}, "role": "VIEWER"}], []):
            resource = {"resourceId": self._document_id, "resourceType": "UPLOADED_DOCUMENT"}
            self.ask("admin/grants/set", resource=resource, grants=grants)
            self._look(may_read=bool(grants))

    def _upload(self) -> None:
        # Named as what is shared, for while it is granted the readers that look for private names may see it.
        parts = {"documentExternalId": self.name, "documentName": self.name, "awaitVectorStoreSync": "true"}
        file = ("note.txt", f"The {self._marker} of Nineveh.".encode())
        answer = self.post("catalog/uploadFile", data=parts, files={"file": file})
        self._document_id = answer.raise_for_status().json()["documentId"]

    def _look(self, *, may_read: bool) -> None:
        shown = self._looked("catalog/getDocument", documentId=self._document_id)
        if shown.status_code != (200 if may_read else 404):
            raise LoadError(f"getDocument answered {shown.status_code} though the grant is {may_read}")
        found = self._looked("search/searchDocumentCatalog", searchQuery=self._marker).json()["results"]
        if any(one["documentId"] == self._document_id for one in found) != may_read:
            raise LoadError(f"a search for {self._marker} disagrees with the grant, which is {may_read}")

    def _looked(self, operation: str, **body: Any) -> httpx.Response:
        answer = self._looking.post(f"/api/v0/{operation}", json=body)
        self.load.count(operation)
        if answer.status_code not in {200, 404}:
            raise LoadError(f"{operation} answered {answer.status_code}: {answer.text[:500]}")
        return answer


class Asker(Actor):
    """Asks an agent and expects a reply each time."""

    pause = 2.0

    def __init__(self, load: Load, *, name: str, agent_id: str) -> None:
        super().__init__(load, name=name)
        self._agent_id = agent_id

    def act(self) -> None:
        result = self.ask(
            "copilots/sendMessage", agentId=self._agent_id, message=f"When does the {self.words(1)} leave?"
        )
        if not result["sendChatResult"]["response"]["message"]:
            raise LoadError(f"an empty reply: {result}")


class Syncer(Actor):
    """Changes documents of a document database and syncs them; each run must bring all."""

    pause = 10.0

    def __init__(self, load: Load, *, name: str, mongo: MongoServer) -> None:
        super().__init__(load, name=name)
        self._mongo = mongo
        self._sync: dict[str, str] = {}

    def act(self) -> None:
        folder = "documentCollections/docstore"
        if not self._sync:
            self._mongo.collection.insert_many([a_thing(number) for number in range(THINGS)])
            made = self.ask("documentCollections/createDocumentCollection", collectionName=self.name)
            config = {"syncName": self.name, "collectionName": self._mongo.collection_name, "sourceFields": DATED}
            place = {"documentCollectionId": made["documentCollectionId"], "docstoreURI": self._mongo.uri}
            created = self.ask(f"{folder}/createDocstoreSync", config=config, **place)
            self._sync = {"docstoreCredentialId": created["docstoreCredentialId"]}
        else:
            change = {"content.text": self.words(20), "updatedAt": datetime.now(UTC)}
            self._mongo.collection.update_one({"_id": f"thing-{self.dice.randrange(THINGS):04}"}, {"$set": change})
            self.ask(f"{folder}/launchDocstoreSync", **self._sync)
        self._wait()

    def _wait(self) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not self.load.stop.is_set():
            sync = self.ask("documentCollections/docstore/getDocstoreSync", **self._sync)
            if sync["status"] not in {"PENDING", "RUNNING"}:
                break
            if time.monotonic() > deadline:
                raise LoadError(f"a sync doesn't end: {sync}")
            time.sleep(0.5)
        else:
            return
        if (sync["status"], sync["documentCount"], sync.get("warning")) != ("COMPLETED", THINGS, None):
            raise LoadError(f"a sync ended wrongly: {sync}")


class Breaker(Actor):
    """Begins requests and hangs up: in the middle of the head, of an upload, and before reading the answer."""

    pause = 0.5
    _HEAD = "POST /api/v0/{0} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {1}\r\nContent-Type: {2}\r\n"

    def act(self) -> None:
        form, part = "multipart/form-data; boundary=B", b'--B\r\nContent-Disposition: form-data; name="file"; '
        upload = f"{self._HEAD.format('catalog/uploadFile', API_KEY, form)}Content-Length: 500000\r\n\r\n".encode()
        query = b'{"searchQuery":"ferry"}'
        search = self._HEAD.format("search/searchDocumentCatalog", API_KEY, "application/json")
        whole = f"{search}Content-Length: {len(query)}\r\n\r\n".encode() + query
        sent = self.dice.choice([b"POST /api/v0/cat", upload + part + b'filename="a.txt"\r\n\r\n' + b"x" * 9000, whole])
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.load.port), timeout=10) as connection:
            connection.sendall(sent)
            time.sleep(self.dice.uniform(0, 0.2))
        self.load.count("broken off")
