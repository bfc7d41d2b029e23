"""Each part is killed while rights and documents change: no search shows revoked documents, and no data are lost."""

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

import httpx
import psutil
import pytest

from tests.harness.loops import going_on
from tests.harness.processes import ServiceProcess
from tests.harness.replication import Server, replicated

PAIRS = 10_000
WATCHERS = 4
SECONDS = 120
PATIENCE_SECONDS = 1800
AWAY = {409, 429, 500, 502, 503, 504}
SEARCH = "search/searchDocumentCatalog"


@dataclass
class Load:
    """Threads revoke rights and look at once, each with its own document for two readers; another uploads."""

    service: ServiceProcess
    pairs: int = 0
    stale: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    unanswered: int = 0
    uploaded: list[str] = field(default_factory=list)
    readers: dict[str, str] = field(default_factory=dict)
    answered_at: float = 0.0
    written_at: float = 0.0
    ending: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def running(self) -> Generator[None]:
        watching = [partial(self._watch, number) for number in range(WATCHERS)]
        with going_on(*watching, self._upload, ending=self.ending):
            yield

    def _watch(self, number: int) -> None:
        people = [f"{name}{number}@example.test" for name in ("ann", "ben")]
        with client(self.service) as http:
            users = [{"email": email, "name": email} for email in people]
            self.insist(http, "admin/users/upsert", {"users": users})
            document_id = upload(self, http, f"watched {number}")
            while not self.ending.is_set():
                people.reverse()
                reader, other = people
                principal = {"type": "user", "email": reader}
                grants = {
                    "resource": {"resourceId": document_id, "resourceType": "UPLOADED_DOCUMENT"},
                    "grants": [{"principal": principal, "role": "VIEWER"}],
                }
                self.insist(http, "admin/grants/set", grants)
                self.written_at = time.monotonic()
                self.readers[document_id] = reader
                if document_id in self.found(http, other):
                    self.stale.append(f"{document_id} {other}")
                if self.pairs % 10 == 0 and document_id not in self.found(http, reader):
                    self.missed.append(f"{document_id} {reader}")
                with self.lock:
                    self.pairs += 1

    def found(self, http: httpx.Client, reader: str) -> set[str]:
        body = {"searchQuery": "quinquereme", "searchOptions": {"mode": "LEXICAL"}, "userEmail": reader}
        answer = self.insist(http, SEARCH, body)
        self.answered_at = time.monotonic()
        return {result["documentId"] for result in answer["results"]}

    def _upload(self) -> None:
        with client(self.service) as http:
            while not self.ending.is_set():
                name = f"loaded {len(self.uploaded)}"
                upload(self, http, name)
                self.uploaded.append(name)
                time.sleep(0.2)

    def insist(self, http: httpx.Client, operation: str, body: object) -> dict[str, list[dict[str, str]]]:
        return self.ask(lambda: http.post(f"/api/v0/{operation}", json=body))

    def ask(self, send: Callable[[], httpx.Response]) -> dict[str, list[dict[str, str]]]:
        deadline = time.monotonic() + SECONDS
        while True:
            try:
                answer = send()
            except httpx.TransportError:
                answer = None
            if answer is not None and answer.status_code not in AWAY:
                assert answer.status_code == 200, answer.text
                return answer.json()
            with self.lock:
                self.unanswered += 1
            assert time.monotonic() < deadline, "nothing is answered any more"
            time.sleep(0.02)

    def wait(self, pairs: int) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self.pairs < pairs and not self.ending.is_set():
            assert time.monotonic() < deadline, self.pairs
            time.sleep(0.05)


def client(service: ServiceProcess) -> httpx.Client:
    return httpx.Client(base_url=service.base_url, headers=service.http.headers, timeout=30)


def upload(load: Load, http: httpx.Client, name: str) -> str:
    text = f"{name}: the harbour saw a quinquereme come in."
    parts = {"documentExternalId": name, "documentName": name}
    files = {"file": ("log.txt", text.encode())}
    return str(load.ask(lambda: http.post("/api/v0/catalog/uploadFile", data=parts, files=files))["documentId"])


@pytest.fixture
def servers() -> Iterator[tuple[Server, list[Server]]]:
    with replicated(2) as servers:
        yield servers


@pytest.fixture
def service(servers: tuple[Server, list[Server]], service_process: Callable[..., ServiceProcess]) -> ServiceProcess:
    primary, standbys = servers
    return service_process(
        CARREL_DATABASE_URL=primary.address(*standbys).get_secret_value(),
        CARREL_DATABASE_REPLICA_URLS=",".join(each.address().get_secret_value() for each in standbys),
        CARREL_RATE_LIMIT_REQUESTS="0",
    )


def figure(service: ServiceProcess, name: str, **labels: str) -> float:
    lines = service.http.get("/metrics").text.splitlines()
    given = [f'{label}="{value}"' for label, value in labels.items()]
    own = [line for line in lines if line.startswith(f"{name}{{") and all(each in line for each in given)]
    return sum(float(line.rpartition(" ")[2]) for line in own)


def reads_of(service: ServiceProcess) -> Counter[str]:
    return Counter({name: int(figure(service, "carrel_reads_total", server=name)) for name in ("primary", "1", "2")})


def all_serve(service: ServiceProcess) -> bool:
    return all(serves(service, number) for number in (1, 2))


def kill(process: psutil.Process | None) -> None:
    assert process is not None
    for each in [process, *process.children(recursive=True)]:
        each.kill()
    psutil.wait_procs([process], timeout=SECONDS)


@contextmanager
def told(what: str, load: Load, back: Callable[[], bool] = lambda: True) -> Generator[None]:
    """Print the time until a search is answered again, and until full recovery."""
    began, pairs, unanswered = time.monotonic(), load.pairs, load.unanswered
    yield
    done = time.monotonic()
    while min(load.answered_at, load.written_at) < done and not load.ending.is_set():
        time.sleep(0.01)
    answered = time.monotonic() - done
    while not back() and not load.ending.is_set():
        assert time.monotonic() < done + SECONDS, f"{what}: not back"
        time.sleep(0.05)
    print(  # noqa: T201 - the figures are what it is run for
        f"{what}: {load.pairs - pairs} pairs and {load.unanswered - unanswered} requests not answered meanwhile;"
        f" a change and a search answered after {answered:.2f} s, all back after {time.monotonic() - began:.2f} s"
    )


@pytest.mark.long
def test_nothing_revoked_is_found_whatever_is_killed(service, servers) -> None:
    primary, (first, second) = servers
    load, serves = Load(service), lambda: all_serve(service)
    while not serves():
        time.sleep(0.1)
    began = time.monotonic()
    with load.running():
        load.wait(PAIRS // 7)
        with told("a standby killed and started again", load, serves):
            kill(first.process())
            load.wait(load.pairs + 100)
            first.restart()
        load.wait(PAIRS * 2 // 7)
        with told("a standby stopped for 5 s (SIGSTOP)", load, serves):
            frozen = second.process()
            assert frozen is not None
            stopped = [frozen, *frozen.children()]
            for each in stopped:
                os.kill(each.pid, signal.SIGSTOP)
            time.sleep(5)
            for each in stopped:
                os.kill(each.pid, signal.SIGCONT)
        load.wait(PAIRS * 3 // 7)
        with told("both standbys killed", load, serves):
            for each in (first, second):
                kill(each.process())
            load.wait(load.pairs + 100)
            for each in (first, second):
                each.restart()
        load.wait(PAIRS * 4 // 7)
        with told("a worker killed", load, serves):
            service.parts("worker")[0].kill()
        load.wait(PAIRS * 5 // 7)
        reads = reads_of(service)
        with told("the service killed and started again", load, serves):
            service.kill()
            service.start()
        load.wait(PAIRS * 6 // 7)
        with told("the primary killed and started again", load, serves):
            kill(primary.process())
            primary.restart()
        load.wait(PAIRS)
    seconds = time.monotonic() - began
    reads += reads_of(service)
    print(  # noqa: T201
        f"{load.pairs} pairs in {seconds:.0f} s, {len(load.stale)} stale, {len(load.missed)} missed,"
        f" {load.unanswered} requests sent again; reads by server, but for those of the killed worker: {dict(reads)};"
        f" {len(load.uploaded)} uploads"
    )
    assert load.stale == []
    assert load.missed == []
    assert reads["primary"] < reads.total() / 2
    nothing_is_lost(load)


def nothing_is_lost(load: Load) -> None:
    with client(load.service) as http:
        for name in load.uploaded:
            listed = load.insist(http, "catalog/listDocuments", {"documentExternalIds": [name]})
            assert len(listed["documents"]) == 1, name
        for document_id, reader in load.readers.items():
            assert document_id in load.found(http, reader), reader


@pytest.mark.long
def test_a_promoted_standby_is_written_to_and_the_other_follows_it(service, servers) -> None:
    """A standby had all acknowledged data when the primary was lost; no stale result appears."""
    primary, standbys = servers
    for server in (primary, *standbys):
        for name in ("standby_1", "standby_2"):
            server.execute(f"SELECT pg_create_physical_replication_slot('{name}')")
        server.execute("ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (*)'")
    for number, standby in enumerate(standbys, start=1):
        standby.execute(f"ALTER SYSTEM SET primary_slot_name = 'standby_{number}'")
    for server in (primary, *standbys):
        server.execute("SELECT pg_reload_conf()")
    load = Load(service)
    while not all_serve(service):
        time.sleep(0.1)
    with load.running():
        load.wait(500)
        with told("the primary killed, and a standby promoted", load):
            kill(primary.process())
            furthest = max(standbys, key=received)
            furthest.execute("SELECT pg_promote()")
        answered, began = reads_of(service), time.monotonic()
        promoted, other = ("1", "2") if furthest is standbys[0] else ("2", "1")
        while reads_of(service)[other] == answered[other] and not load.ending.is_set():
            assert time.monotonic() < began + SECONDS, "the other standby is not read from"
            time.sleep(0.05)
        seconds = time.monotonic() - began
        load.wait(load.pairs + 500)
    reads = reads_of(service)
    print(  # noqa: T201
        f"the other one read from {seconds:.2f} s later; {load.pairs} pairs, {len(load.uploaded)} uploads; reads by"
        f" server: {dict(reads)}"
    )
    assert load.stale == []
    assert load.missed == []
    assert reads[promoted] == answered[promoted]
    nothing_is_lost(load)


def received(standby: Server) -> int:
    [[position]] = standby.execute("SELECT pg_wal_lsn_diff(pg_last_wal_receive_lsn(), '0/0')::bigint")
    assert isinstance(position, int)
    return position


def serves(service: ServiceProcess, number: int) -> bool:
    try:
        return figure(service, "carrel_standby_left_out", standby=str(number)) == 0
    except httpx.TransportError:
        return False
