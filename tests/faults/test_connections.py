"""More connections than descriptors: half-sent requests and slow uploads."""

import asyncio
import resource
import socket
import statistics
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from service.web.connections import PAUSE_SECONDS, Connections, Listener
from tests.harness.jobs import until
from tests.harness.processes import ServiceProcess, limiting
from tests.harness.services import API_KEY

SEARCH = "search/searchDocumentCatalog"
HALF_SENT_HEAD = b"POST /api/v0/catalog/uploadFile HTTP/1.1\r\nHost: x\r\nX-Slow: "
HALF_SENT_UPLOAD = (
    b"POST /api/v0/catalog/uploadFile HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + API_KEY.encode() + b"\r\n"
    b"Content-Type: multipart/form-data; boundary=B\r\nContent-Length: 50000000\r\n\r\n"
    b'--B\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
)
# Runs the service under limits of open files, soft and hard, which are its first two arguments.
LIMITED = """
import resource, sys
limits = int(sys.argv.pop(1)), int(sys.argv.pop(1))
resource.setrlimit(resource.RLIMIT_NOFILE, limits)
from service.__main__ import main
sys.exit(main())
"""
OWN_DESCRIPTORS = 4096
SMALL, LARGE = (1024, 1024), (1024, 20_000)


class LimitedService(ServiceProcess):
    """A service process with a limit of open files."""

    def __init__(self, limits: tuple[int, int], **environment: str) -> None:
        super().__init__(CARREL_WORKERS="1", **environment)
        self.program = ("-c", LIMITED, *map(str, limits))

    def descriptors(self) -> int:
        return self.parts("worker")[0].num_fds()


@pytest.fixture(autouse=True)
def own_descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < OWN_DESCRIPTORS:
        pytest.skip(f"the test needs {OWN_DESCRIPTORS} open files; raise the hard limit")
    with limiting(resource.RLIMIT_NOFILE, max(soft, OWN_DESCRIPTORS)):
        yield


@pytest.fixture
def limited() -> Iterator[Callable[..., LimitedService]]:
    """Start a service under limits of open files: `limited((1024, 1024))`; it ends after the test."""
    with ExitStack() as stack:

        def make(limits: tuple[int, int], **environment: str) -> LimitedService:
            service = LimitedService(limits, **environment)
            stack.callback(service.close)
            service.start()
            return service

        yield make


@contextmanager
def crowd(service: ServiceProcess, count: int, *, head: bytes, renewed: int = 100) -> Iterator[None]:
    """Keep `count` connections with `head` and then a byte a second; renew `renewed` of them each second."""
    ending = threading.Event()
    connections = [_begun(service, head) for _ in range(count)]

    def drip() -> None:
        while not ending.wait(1):
            closed = [index for index, connection in enumerate(connections) if not _takes_a_byte(connection)]
            for index in closed[:renewed]:
                connections[index].close()
                connections[index] = _begun(service, head)

    thread = threading.Thread(target=drip)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()
        for connection in connections:
            connection.close()


def _begun(service: ServiceProcess, head: bytes) -> socket.socket:
    connection = socket.socket()
    connection.settimeout(5)
    with suppress(OSError):
        connection.connect(("127.0.0.1", service.port))
        connection.sendall(head)
    connection.setblocking(False)
    return connection


def _takes_a_byte(connection: socket.socket) -> bool:
    try:
        connection.send(b"x")
    except OSError:
        return False
    return True


def new_client(service: ServiceProcess, *, timeout: float) -> httpx.Client:
    headers = {"Authorization": f"Bearer {API_KEY}"}
    return httpx.Client(base_url=service.base_url, headers=headers, timeout=timeout, verify=False)  # noqa: S501 - plain HTTP


def statuses(service: ServiceProcess, *, seconds: float) -> set[int | str]:
    found: set[int | str] = set()
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with new_client(service, timeout=20) as client:
            try:
                found.add(client.get("/readyz").status_code)
                found.add(client.post(f"/api/v0/{SEARCH}", json={"searchQuery": "pier"}).status_code)
            except httpx.TransportError as error:
                found.add(type(error).__name__)
        time.sleep(0.1)
    return found


def search_seconds(service: ServiceProcess, count: int = 15) -> list[float]:
    took: list[float] = []
    for _ in range(count):
        with new_client(service, timeout=60) as client:
            began = time.monotonic()
            client.post(f"/api/v0/{SEARCH}", json={"searchQuery": "pier"}).raise_for_status()
            took.append(time.monotonic() - began)
    return took


@pytest.mark.slow
def test_half_sent_requests_leave_descriptors_for_the_service(limited: Callable[..., LimitedService]) -> None:
    service = limited(SMALL)
    server = service.database_server().process()
    assert statuses(service, seconds=1) == {200}
    calm = connections_of(service)
    assert ("pressedAt" in calm, calm["refused"], calm["evicted"]) == (False, 0, 0)
    before = service.descriptors()
    with crowd(service, 1400, head=HALF_SENT_HEAD):
        assert statuses(service, seconds=6) == {200}
        assert service.descriptors() < SMALL[1] - 100
    assert statuses(service, seconds=1) == {200}
    # Beside the crowd's, there are at most connections of the database that were opened for the callers.
    until(lambda: service.descriptors() < before + 20, 20)
    until(lambda: "carrel_connections_open 1.0" in service.http.get("/metrics").text, 20)
    assert service.database_server().process() == server
    pressure = service.events("too_many_connections")
    assert 1 <= len(pressure) < 10
    assert sum(int(str(event["evicted"])) for event in pressure) > 500
    assert "carrel_connections_evicted_total 0" not in service.http.get("/metrics").text
    found = connections_of(service)
    assert 1 <= found["open"] <= found["most"] < SMALL[1] // 2
    assert found["evicted"] > 500
    assert datetime.now(UTC) - timedelta(minutes=2) < datetime.fromisoformat(found["pressedAt"]) < datetime.now(UTC)


def connections_of(service: LimitedService) -> dict:
    status: dict = service.call("admin/status/get").raise_for_status().json()
    return dict(status["connections"])


@pytest.mark.long
@pytest.mark.parametrize("limits", [SMALL, LARGE])
def test_a_caller_notices_little_of_half_open_connections_and_slow_uploads(limited, limits) -> None:
    service = limited(limits, CARREL_RATE_LIMIT_REQUESTS="0")
    usual = search_seconds(service)
    with crowd(service, 2000, head=HALF_SENT_HEAD), crowd(service, 500, head=HALF_SENT_UPLOAD, renewed=20):
        time.sleep(5)  # until the uploads have been authenticated
        under_pressure = search_seconds(service)
        assert statuses(service, seconds=3) == {200}
        evicted = service.http.get("/metrics").text
        assert service.descriptors() < limits[1] - 100
    usual += search_seconds(service)
    assert statistics.median(under_pressure) < 5 * statistics.median(usual) + 0.5
    assert ("carrel_connections_evicted_total 0.0" in evicted) == (limits == LARGE)


async def test_a_listener_survives_that_descriptors_are_used_up() -> None:
    greeted = asyncio.Event()

    class Greeting(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            greeted.set()
            transport.close()

    connections = CountedFailures(10)
    async with connected(connections, lambda _: Greeting()) as listener:
        with no_more_descriptors():
            listener.listen(10)
            await asyncio.sleep(0.5)
            assert connections.failed is not None
            assert not greeted.is_set()
        # Five a second; without a pause there would be thousands, and no time for anybody else.
        assert 1 <= connections.failures < 10
        await asyncio.wait_for(greeted.wait(), 20)


async def test_a_connection_that_can_not_be_taken_counts_no_more() -> None:
    tried = asyncio.Event()

    def make_protocol(_: str) -> asyncio.Protocol:
        tried.set()
        raise ValueError("no protocol")

    connections = Connections(10)
    async with connected(connections, make_protocol) as listener:
        listener.listen(10)
        await asyncio.wait_for(tried.wait(), 20)
        await asyncio.sleep(0.1)
        assert connections.open == 0


async def test_a_listener_that_is_closed_while_it_pauses_accepts_no_more() -> None:
    connections = CountedFailures(10)
    async with connected(connections, lambda _: asyncio.Protocol()) as listener:
        with no_more_descriptors():
            listener.listen(10)
            await asyncio.wait_for(connections.noticed.wait(), 20)
            listener.close()
        await asyncio.sleep(2 * PAUSE_SECONDS)
        assert connections.open == 0


@asynccontextmanager
async def connected(
    connections: Connections, make_protocol: Callable[[str], asyncio.Protocol]
) -> AsyncIterator[Listener]:
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.socket() as client:
        client.connect(listening.getsockname())
        listener = Listener(listening, connections, make_protocol=make_protocol)
        yield listener
        listener.close()
        await listener.wait_closed()
    connections.close()


class CountedFailures(Connections):
    """Connections that count and report failures to accept."""

    def __init__(self, most: int) -> None:
        super().__init__(most)
        self.failures = 0
        self.noticed = asyncio.Event()

    def note_failure(self, error: OSError) -> None:
        self.failures += 1
        self.noticed.set()
        super().note_failure(error)


@contextmanager
def no_more_descriptors() -> Iterator[None]:
    with socket.socket() as lowest_free, limiting(resource.RLIMIT_NOFILE, lowest_free.fileno() + 1):
        yield
