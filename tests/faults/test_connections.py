"""More connections than there are descriptors for: half-sent requests and slow uploads that outnumber the callers."""

import json
import resource
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

import httpx
import psutil
import pytest

from tests.harness.processes import ServiceProcess
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
    """A service process that may open only so many files."""

    def __init__(self, limits: tuple[int, int], **environment: str) -> None:
        super().__init__(**environment)
        self.program = ("-c", LIMITED, *map(str, limits))

    def descriptors(self) -> int:
        """Return how many descriptors the process has open."""
        assert self.process is not None
        return psutil.Process(self.process.pid).num_fds()

    def events(self, name: str) -> list[dict[str, object]]:
        """Return the lines of the log that tell of an event."""
        lines = [line for line in self.log.read_text().splitlines() if line.startswith("{")]
        return [event for event in map(json.loads, lines) if event.get("event") == name]


@pytest.fixture(autouse=True)
def own_descriptors() -> Iterator[None]:
    """Let the test itself open the other ends of the connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < OWN_DESCRIPTORS:
        pytest.skip(f"the test needs {OWN_DESCRIPTORS} open files; raise the hard limit")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, OWN_DESCRIPTORS), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def limited() -> Iterator[Callable[..., LimitedService]]:
    """Start a service under limits of open files: `limited((1024, 1024))`; ends after the test."""
    with ExitStack() as stack:

        def make(limits: tuple[int, int], **environment: str) -> LimitedService:
            service = LimitedService(limits, **environment)
            stack.callback(service.close)
            service.start()
            return service

        yield make


@contextmanager
def crowd(service: ServiceProcess, count: int, *, head: bytes, drip_seconds: float = 1.0) -> Iterator[None]:
    """Keep so many connections busy that begin with `head` and go on by a byte at a time, renewing what is closed."""
    ending = threading.Event()
    connections = [_begun(service, head) for _ in range(count)]

    def drip() -> None:
        while not ending.wait(drip_seconds):
            for index, connection in enumerate(connections):
                try:
                    connection.send(b"x")
                except OSError:
                    connection.close()
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


def statuses(service: ServiceProcess, *, seconds: float) -> set[int | str]:
    """Ask for readiness and search, each by a new connection, for a while; 0 is a connection that came to nothing."""
    found: set[int | str] = set()
    deadline = time.monotonic() + seconds
    headers = {"Authorization": f"Bearer {API_KEY}"}
    while time.monotonic() < deadline:
        with httpx.Client(base_url=service.base_url, headers=headers, timeout=20, verify=False) as client:  # noqa: S501 - plain HTTP
            try:
                found.add(client.get("/readyz").status_code)
                found.add(client.post(f"/api/v0/{SEARCH}", json={"searchQuery": "pier"}).status_code)
            except httpx.TransportError as error:
                found.add(type(error).__name__)
        time.sleep(0.1)
    return found


def test_half_sent_requests_leave_descriptors_for_the_service(limited: Callable[..., LimitedService]) -> None:
    """With 1,024 descriptors and 1,400 half-sent requests, callers at that address are served and PostgreSQL runs on.

    When the crowd has gone, nothing of it is left.
    """
    service = limited(SMALL)
    server = service.database_server().process()
    with crowd(service, 1400, head=HALF_SENT_HEAD):
        assert statuses(service, seconds=8) == {200}
        assert service.descriptors() < SMALL[1] - 100
    assert statuses(service, seconds=1) == {200}
    assert service.database_server().process() == server
