"""A service of two workers under load: each process killed in turn, workers replaced, and all ended."""

import hashlib
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path

import httpx
import psutil
import pytest

from service.platform.postgres.server import DATABASE
from service.supervisor import LOOK_SECONDS
from tests.faults.loading import catalog_of, metric
from tests.faults.test_database_supervision import without_descriptors
from tests.harness.cases import script
from tests.harness.first_start import CLUSTER
from tests.harness.jobs import until
from tests.harness.loops import going_on
from tests.harness.processes import ServiceProcess
from tests.harness.services import API_KEY

ORGANIZATION = "/api/v0/admin/organization/get"
UPLOAD, SEARCH = "/api/v0/catalog/uploadFile", "/api/v0/search/searchDocumentCatalog"
HEADERS = {"Authorization": f"Bearer {API_KEY}"}
LIMIT = 30
UNDER_LOAD = {"CARREL_RATE_LIMIT_REQUESTS": "0", "CARREL_SWEEP_SECONDS": "0.5"}
# The service, whose workers end at their start while a file is there, and which waits for no client when they are
# replaced.
SERVICE_WITH_DEADLY_START = script("workers_deadly_start.txt")
THREADS = 4
LOADED = "load"
# What passes until an upload that was refused or broken off is sent again.
PAUSE_SECONDS = 0.05


class Load:
    """Concurrent uploads and searches, each on a kept connection. An upload repeats until acknowledged (`acknowledged`:
    names and hashes; `turns`: per thread). `wrong` are searches that stopped finding documents."""

    def __init__(self) -> None:
        self.acknowledged: dict[str, str] = {}
        self.turns = [0] * THREADS
        self.statuses: Counter[int] = Counter()
        self.broken: list[str] = []
        self.wrong: list[str] = []
        self._has_found = False

    def wait_for_more(self) -> None:
        before = list(self.turns)
        until(lambda: all(turns >= past + 2 for turns, past in zip(self.turns, before, strict=True)))

    def ask(self, client: httpx.Client, number: int) -> None:
        try:
            self._ask(client, number)
        except httpx.TransportError as error:
            self.broken.append(repr(error))
            time.sleep(PAUSE_SECONDS)

    def _ask(self, client: httpx.Client, number: int) -> None:
        name = f"{LOADED}/{number}-{self.turns[number]}"
        text = f"The ferry {name} leaves the pier at noon.".encode()
        sent = client.post(UPLOAD, data={"documentExternalId": name}, files={"file": ("ferry.txt", text)})
        self.statuses[sent.status_code] += 1
        if sent.status_code != 200:
            time.sleep(PAUSE_SECONDS)
            return
        self.acknowledged[name] = hashlib.sha256(text).hexdigest()
        self.turns[number] += 1
        found = client.post(SEARCH, json={"searchQuery": "ferry at the pier"})
        self.statuses[found.status_code] += 1
        if found.status_code == 200:
            results = found.json()["results"]
            if self._has_found and not results:
                self.wrong.append(name)
            self._has_found = self._has_found or bool(results)


@contextmanager
def load_on(service: ServiceProcess) -> Iterator[Load]:
    load = Load()
    with ExitStack() as stack:
        clients = [httpx.Client(base_url=service.base_url, headers=HEADERS, timeout=60) for _ in range(THREADS)]
        asking = [partial(load.ask, stack.enter_context(client), number) for number, client in enumerate(clients)]
        with going_on(*asking):
            load.wait_for_more()
            yield load
    assert not load.wrong
    assert_all_is_there(service, load)


def assert_all_is_there(service: ServiceProcess, load: Load) -> None:
    assert catalog_of(service, LOADED).hashes.items() >= load.acknowledged.items()

    def is_indexed() -> bool:
        catalog = catalog_of(service, LOADED)
        return catalog.indexed == catalog.versions and not catalog.odd

    until(is_indexed)


def files_of_counts(service: ServiceProcess) -> list[Path]:
    opened = [Path(file.path) for worker in service.parts("worker") for file in worker.open_files()]
    [folder] = {path.parent for path in opened if path.parent.name.startswith("carrel-metrics-")}
    return list(folder.glob("counter_*.db"))


@pytest.mark.parametrize("killed", ["worker-1", pytest.param("embedding", marks=pytest.mark.slow)])
def test_a_process_that_is_killed_costs_little(service_process: Callable[..., ServiceProcess], killed: str) -> None:
    service = service_process(**UNDER_LOAD)
    assert len(service.parts("worker")) == 2
    with load_on(service) as load:
        [before] = service.parts(killed)
        before.kill()
        until(lambda: bool(service.parts(killed)) and service.parts(killed) != [before])
        load.wait_for_more()
    assert load.statuses.keys() == {200}
    assert len(load.broken) <= (2 * THREADS if killed == "worker-1" else 0), load.broken
    [told] = service.events("process_ended")
    assert (told["process"], told["status"], told["again_in"]) == (killed, -signal.SIGKILL, 0)
    supervisor = psutil.Process(service.process.pid)  # type: ignore[union-attr]
    family, threads = supervisor.children(recursive=True), supervisor.num_threads()
    service.kill()
    _, alive = psutil.wait_procs(family, timeout=20)
    assert not alive
    service.start()
    # The first start has hashed a password, this one hasn't: whoever forks has no threads.
    assert psutil.Process(service.process.pid).num_threads() == threads  # type: ignore[union-attr]
    assert_all_is_there(service, load)


def a_connection(service: ServiceProcess) -> psutil.Process:
    server = service.database_server().process()
    assert server is not None
    return next(child for child in server.children() if f" {DATABASE} " in " ".join(child.cmdline()))


def a_reader(service: ServiceProcess) -> psutil.Process | None:
    return next(iter(service.parts("readers")[0].children()), None)


KILLED: tuple[Callable[[ServiceProcess], psutil.Process | None], ...] = (
    a_reader,
    lambda service: service.parts("readers")[0],
    a_connection,
    lambda service: service.database_server().process(),
)


def test_what_workers_need_is_brought_back(service_process: Callable[..., ServiceProcess]) -> None:
    service = service_process(**UNDER_LOAD)
    until(lambda: a_reader(service))
    with load_on(service) as load:
        for find in KILLED:
            process = find(service)
            assert process is not None
            process.kill()
            load.wait_for_more()
    assert load.statuses.keys() <= {200, 400, 503}
    assert load.statuses[400] <= len(KILLED)
    assert not load.broken
    assert [event["process"] for event in service.events("process_ended")] == ["readers"]


@pytest.mark.slow
def test_workers_are_replaced_while_they_serve(service_process: Callable[..., ServiceProcess]) -> None:
    service = service_process(**UNDER_LOAD)
    before = {worker.pid for worker in service.parts("worker")}
    with load_on(service) as load:
        service.signal(signal.SIGHUP)
        until(lambda: not before & {worker.pid for worker in service.parts("worker")}, 60)
        load.wait_for_more()
    assert (load.statuses.keys(), load.broken) == ({200}, [])
    uploads = f'carrel_requests_total{{method="POST",route="{UPLOAD}",status="200"}}'
    until(lambda: metric(service, uploads) == len(load.acknowledged))
    assert metric(service, "carrel_texts_embedded") >= len(load.acknowledged)
    assert service.stop() == 0
    assert not service.events("process_ended")


@pytest.fixture
def flag(tmp_path: Path) -> Path:
    return tmp_path / "deadly"


@pytest.fixture
def replaceable(flag: Path) -> Iterator[ServiceProcess]:
    with closing(ServiceProcess()) as service:
        service.program = ("-c", SERVICE_WITH_DEADLY_START, str(flag))
        service.start()
        yield service


@pytest.mark.slow
def test_a_signal_while_workers_are_replaced_replaces_them_once_more(replaceable: ServiceProcess) -> None:
    service = replaceable
    before = {worker.pid for worker in service.parts("worker")}
    service.signal(signal.SIGHUP)
    until(lambda: len(service.parts("worker-1")) == 2)
    service.signal(signal.SIGHUP)
    until(lambda: len(service.events("process_started")) == 1 + 3 * len(before))
    until(lambda: len(service.parts("worker")) == len(before))
    assert not before & {worker.pid for worker in service.parts("worker")}
    assert len(files_of_counts(service)) <= 1 + len(before)  # six workers have counted
    assert service.http.post(ORGANIZATION, json={}).status_code == 200
    assert service.stop() == 0


@pytest.mark.slow
def test_workers_count_and_tell_together(service_process: Callable[..., ServiceProcess]) -> None:
    service = service_process(CARREL_RATE_LIMIT_REQUESTS=str(LIMIT), CARREL_MAX_CONNECTIONS="101")
    clients = [httpx.Client(base_url=service.base_url, headers=HEADERS, timeout=60) for _ in range(6)]
    try:
        for client in clients:
            assert client.get("/healthz").status_code == 200
        state = service.call("admin/status/get").json()["connections"]
        assert (state["open"], state["most"]) == (len(clients) + 1, 102)
        until(lambda: metric(service, "carrel_connections_open") == len(clients) + 1)
        answers = [clients[turn % len(clients)].post(ORGANIZATION, json={}).status_code for turn in range(2 * LIMIT)]
        assert answers.count(200) == LIMIT - 1
        assert set(answers) == {200, 429}
    finally:
        for client in clients:
            client.close()


def test_a_process_that_keeps_dying_rests(service_process: Callable[..., ServiceProcess]) -> None:
    service = service_process()
    for times in (1, 2, 3):
        until(lambda: len(service.parts("worker-0")) == 1)
        os.kill(service.parts("worker-0")[0].pid, signal.SIGKILL)
        until(lambda times=times: len(service.events("process_ended")) == times)
        assert service.http.post(ORGANIZATION, json={}).status_code == 200
    assert [event["again_in"] for event in service.events("process_ended")] == [0.0, 1.0, 2.0]


@pytest.mark.slow
def test_a_worker_that_can_not_be_replaced_stays(replaceable: ServiceProcess, flag: Path) -> None:
    service = replaceable
    before = service.parts("worker")
    flag.touch()
    service.signal(signal.SIGHUP)
    until(lambda: service.events("process_ended"))
    flag.unlink()
    time.sleep(2 * LOOK_SECONDS)
    assert service.parts("worker") == before
    [told] = service.events("process_ended")
    assert (told["status"], told["again_in"]) == (3, None)
    service.signal(signal.SIGHUP)
    until(lambda: len(service.parts("worker")) == 2 and not set(before) & set(service.parts("worker")))
    assert service.stop() == 0


@pytest.mark.slow
def test_a_stopped_process_keeps_no_folder(service_process: Callable[..., ServiceProcess]) -> None:
    service = service_process()
    stopped = [service.parts("worker-1")[0], service.parts("embedding")[0]]
    for process in stopped:
        process.suspend()
    service.kill()
    service.start()
    assert all(has_ended(process) for process in stopped)
    assert service.http.post(ORGANIZATION, json={}).status_code == 200


def has_ended(process: psutil.Process) -> bool:
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_a_database_that_does_not_start_holds_up_nothing_else(service_process: Callable[..., ServiceProcess]) -> None:
    service = service_process()
    control = service.data_dir / CLUSTER / "global" / "pg_control"
    control.rename(control.with_suffix(".away"))
    service.kill_database()
    until(lambda: service.events("background_work_failed"))
    [before] = service.parts("worker-1")
    before.kill()
    until(lambda: bool(service.parts("worker-1")) and service.parts("worker-1") != [before])
    until(lambda: service.http.get("/healthz").status_code == 200)
    control.with_suffix(".away").rename(control)
    service.wait_ready()
    control.rename(control.with_suffix(".away"))
    service.kill_database()
    until(lambda: service.http.get("/readyz").status_code == 503)
    assert service.stop() == 0
    control.with_suffix(".away").rename(control)


def test_a_process_that_can_not_be_started_is_tried_again(service_process: Callable[..., ServiceProcess]) -> None:
    service = service_process()
    [before] = service.parts("worker-1")
    with without_descriptors(service.process.pid):  # type: ignore[union-attr]
        before.kill()
        until(lambda: service.events("process_not_started"))
        assert service.http.post(ORGANIZATION, json={}).status_code == 200
    until(lambda: bool(service.parts("worker-1")) and service.parts("worker-1") != [before])
