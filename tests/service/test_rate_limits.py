"""Rate limits: of a credential's requests, and of an address's failed authentications."""

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from limits import RateLimitItemPerSecond
from pydantic import SecretStr, ValidationError

from carrel import AsyncCarrel, Carrel
from service.platform import shared_store as shared_store_module
from service.platform.counters import Counter
from service.platform.rate_limits import RateLimits, network_of
from service.platform.settings import Settings
from service.platform.sharing import Counts
from tests.harness.processes import free_port
from tests.harness.services import RunningService
from tests.harness.stores import shared_store
from tests.service.directory import a_key, code, done
from tests.service.service_accounts import a_token, an_account, enable_service_accounts

MakeService = Callable[..., RunningService]
WRONG = "svc_key_" + "wrong" * 10


def ask(service: RunningService, api_key: str | None = None, **headers: str) -> httpx.Response:
    """Send the cheapest request there is."""
    return service.call("admin/organization/get", api_key=api_key, headers=headers)


def refused(response: httpx.Response) -> tuple[int, str]:
    """The status and code of a refusal that says when to come back."""
    assert 1 <= int(response.headers["Retry-After"]) <= 60
    assert response.json()["error"]["requestId"] == response.headers["X-Request-Id"]
    return code(response)


def codes(service: RunningService, times: int, **headers: str) -> list[str]:
    """The codes of so many failed authentications."""
    return [code(ask(service, WRONG, **headers))[1] for _ in range(times)]


FAILED, TOO_MANY = "invalid_credential", "too_many_failures"


def test_a_credential_beyond_its_limit_is_told_when_to_come_back(make_service: MakeService) -> None:
    """429 `rate_limited` with Retry-After for this credential; another one is served on."""
    service = make_service(rate_limit_requests=5)
    other = a_key(service)["apiKey"]
    assert [ask(service).status_code for _ in range(5)] == [200] * 4 + [429]
    beyond = ask(service)
    assert refused(beyond) == (429, "rate_limited")
    assert int(beyond.headers["Retry-After"]) > 30, "the window has only just begun"
    assert ask(service, other).status_code == 200


def test_the_limit_comes_before_the_body(make_service: MakeService) -> None:
    """A request beyond the limit is answered though its body never comes."""
    service = make_service(rate_limit_requests=1)
    done(ask(service))
    url = httpx.URL(service.base_url)
    head = (
        "POST /api/v0/admin/users/upsert HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {service.api_key}\r\nContent-Length: 1000000\r\n\r\n"
    )
    with socket.create_connection((url.host, url.port or 0), timeout=20) as connection:
        connection.sendall(head.encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 429 ")


def test_failures_beyond_the_limit_are_429_and_valid_credentials_are_served(make_service: MakeService) -> None:
    """An address's failures turn its further failures into 429, whatever their kind, and nothing else."""
    service = make_service(rate_limit_failures=3)
    assert codes(service, 3) == [FAILED] * 3
    for header in (f"Bearer {WRONG}", "Basic YTpi", ""):
        assert refused(ask(service, Authorization=header)) == (429, TOO_MANY)
    for _ in range(5):
        assert ask(service).status_code == 200
    assert refused(ask(service, WRONG)) == (429, TOO_MANY)


def test_valid_requests_are_no_failures(make_service: MakeService) -> None:
    """A 403, a 404 or a 400 of a known caller counts as nothing."""
    service = make_service(rate_limit_failures=1)
    member = service.new_user("member@example.test")
    assert [ask(service, member).status_code for _ in range(3)] == [403] * 3
    assert [service.call("admin/users/upsert", {"x": 1}).status_code for _ in range(3)] == [400] * 3
    assert codes(service, 2) == [FAILED, TOO_MANY]


def test_a_credential_that_counts_for_nothing_is_a_failure(make_service: MakeService) -> None:
    """A token of an organization that has no service accounts any more is no credential, though its 403 says why."""
    service = make_service(rate_limit_failures=2)
    enable_service_accounts(service)
    token = a_token(service, an_account(service), "catalog:read")["token"]
    enable_service_accounts(service, enabled=False)
    assert [ask(service, token).status_code for _ in range(3)] == [403, 403, 429]


def test_nought_is_no_limit(make_service: MakeService) -> None:
    """A limit of 0 refuses nobody."""
    service = make_service(rate_limit_requests=0, rate_limit_failures=0)
    assert {ask(service).status_code for _ in range(20)} == {200}
    assert set(codes(service, 70)) == {FAILED}


def test_a_forwarded_address_counts_only_from_a_trusted_proxy(make_service: MakeService) -> None:
    """Whoever makes up X-Forwarded-For is still counted as the address it comes from."""
    service = make_service(rate_limit_failures=3)
    spoofed = [codes(service, 1, **{"X-Forwarded-For": f"203.0.113.{number}"})[0] for number in range(5)]
    assert spoofed == [FAILED] * 3 + [TOO_MANY] * 2


def test_behind_a_trusted_proxy_the_address_it_saw_counts(make_service: MakeService) -> None:
    """Clients behind the proxy are told apart, by what the proxy added and not by what they wrote before it."""
    service = make_service(rate_limit_failures=2, trusted_proxies=("127.0.0.1",))
    for written in ("", "198.51.100.7, ", "127.0.0.2, ::1, "):
        assert codes(service, 1, **{"X-Forwarded-For": f"{written}203.0.113.1"}) == [
            TOO_MANY if "::1" in written else FAILED
        ]
    assert codes(service, 1, **{"X-Forwarded-For": "203.0.113.1:50000"}) == [TOO_MANY]
    assert codes(service, 1, **{"X-Forwarded-For": "203.0.113.2"}) == [FAILED]


def test_an_ipv6_network_counts_as_one_address(make_service: MakeService) -> None:
    """A subscriber has a /64 at least, and could fail from another address every time."""
    service = make_service(rate_limit_failures=2, trusted_proxies=("127.0.0.1",))
    found = [codes(service, 1, **{"X-Forwarded-For": f"2001:db8:0:1::{number}"})[0] for number in range(1, 4)]
    assert found == [FAILED, FAILED, TOO_MANY]
    assert codes(service, 1, **{"X-Forwarded-For": "2001:db8:0:2::1"}) == [FAILED]


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
        ("x" * 1000, "x" * 64),
    ],
)
def test_what_an_address_is_counted_as(address: str, network: str) -> None:
    """An IPv4 address in either spelling as itself, IPv6 as its /64, anything else in bounded length."""
    assert network_of(address) == network


def test_memory_is_bounded_under_any_number_of_addresses() -> None:
    """The counts of those that come last are right, whoever was pushed out for them."""
    counts = Counts(1, capacity=1000)
    for number in range(20_000):
        counts.add(0, f"address-{number}", 1, now=number, seconds=1e6)
    kept = [counts.read(f"address-{number}", now=20_000)[0] for number in range(20_000)]
    assert sum(kept) == 1000
    assert all(kept[-100:])
    assert counts.add(0, "address-19999", 1, now=20_000, seconds=1e6) == 2


def test_windows_end_and_make_room() -> None:
    """A count begins anew when its window is over, and takes the place of one that has ended."""
    counts = Counts(1, capacity=8)
    for number in range(8):
        counts.add(0, f"address-{number}", 1, now=0, seconds=10 + number)
    assert counts.add(0, "address-0", 1, now=9, seconds=10) == 2
    assert counts.read("address-0", now=11) == (0, 11)
    assert counts.add(0, "address-9", 1, now=11, seconds=10) == 1
    assert counts.read("address-7", now=11) == (1, 17)
    assert counts.add(0, "address-0", 1, now=17, seconds=10) == 1


def test_processes_count_together() -> None:
    """What several processes add at the same time is all there, each having added to cells of its own."""
    counts = Counts(3, capacity=1000)
    assert counts.add(0, "address", 1, now=0, seconds=10) == 1
    children = [fork(lambda worker=worker: add_many(counts, worker)) for worker in range(3)]
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]
    assert counts.read("address", now=1) == (3001, 10)


def add_many(counts: Counts, worker: int) -> None:
    """Add a thousand times to one count."""
    for _ in range(1000):
        counts.add(worker, "address", 1, now=1, seconds=10)


def fork(work: Callable[[], None]) -> int:
    """Run something in a child of this process, and return its process id."""
    child = os.fork()
    if not child:
        work()
        os._exit(0)
    return child


@pytest.mark.parametrize("kind", [Carrel, AsyncCarrel])
async def test_a_burst_beyond_the_limit_finishes(make_service: MakeService, kind: type[Carrel | AsyncCarrel]) -> None:
    """The client waits as long as it is told to, so that two and a half times the limit at once all get through."""
    counter = Counter(RateLimitItemPerSecond(20, 1), kind="requests", shared=None)
    service = make_service(rate_limits=RateLimits(requests=counter, failures=None))
    began = time.monotonic()
    if kind is AsyncCarrel:
        async with AsyncCarrel(service.api_key, service.base_url) as client:
            answers = await asyncio.gather(*(client.admin.organization.get() for _ in range(50)))
    else:
        with Carrel(service.api_key, service.base_url) as sync, ThreadPoolExecutor(50) as pool:
            answers = await asyncio.to_thread(
                lambda: list(pool.map(lambda _: sync.admin.organization.get(), range(50)))
            )
    assert {answer.domain for answer in answers} == {"example.test"}
    assert time.monotonic() - began > 1, "nobody had to wait"


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that answers is waited for however busy the machine is."""
    monkeypatch.setattr(shared_store_module, "STORE_SECONDS", 60.0)


@pytest.fixture
def quick_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that failed is asked again soon."""
    monkeypatch.setattr(shared_store_module, "STORE_REST_SECONDS", 0.2)


@pytest.fixture
def store() -> Iterator[str]:
    """The address of a running store."""
    with shared_store() as port:
        yield f"redis://127.0.0.1:{port}/1"


@pytest.mark.usefixtures("patience")
def test_replicas_share_their_counts(make_service: MakeService, store: str) -> None:
    """Two services with one store allow together what one allows: of a credential, and of an address."""
    limits = {"rate_limit_requests": 10, "rate_limit_failures": 4, "rate_limit_store": SecretStr(store)}
    one, other = make_service(**limits), make_service(**limits)
    assert [ask(one if turn % 2 else other).status_code for turn in range(12)] == [200] * 10 + [429] * 2
    found = [codes(one if turn % 2 else other, 1)[0] for turn in range(6)]
    assert found == [FAILED] * 4 + [TOO_MANY] * 2
    assert refused(ask(one)) == (429, "rate_limited")


@pytest.mark.usefixtures("quick_rest")
def test_without_its_store_each_replica_counts_for_itself(
    make_service: MakeService, capsys: pytest.CaptureFixture[str]
) -> None:
    """Requests go on, within the limit; the service is ready; the log tells it now and then, without the password."""
    address = f"redis://:hunter2@127.0.0.1:{free_port()}"
    service = make_service(rate_limit_requests=8, rate_limit_store=SecretStr(address))
    found: list[int] = []
    for _ in range(10):
        found.append(ask(service).status_code)
        time.sleep(0.06)
    assert found == [200] * 8 + [429] * 2
    assert service.http.get("/readyz").status_code == 200
    log = capsys.readouterr().out
    assert log.count("rate_limit_store_away") == 1
    assert "hunter2" not in log


@pytest.mark.usefixtures("patience", "quick_rest")
def test_a_store_that_comes_back_counts_again(make_service: MakeService) -> None:
    """A restarted store has forgotten, and is used from then on."""
    with shared_store() as port:
        service = make_service(rate_limit_requests=3, rate_limit_store=SecretStr(f"redis://127.0.0.1:{port}"))
        assert [ask(service).status_code for _ in range(4)] == [200] * 3 + [429]
    assert [ask(service).status_code for _ in range(4)] == [200] * 3 + [429]
    with shared_store(port):
        time.sleep(0.3)
        assert [ask(service).status_code for _ in range(4)] == [200] * 3 + [429]


def test_a_store_that_hangs_holds_up_one_request_for_a_moment(make_service: MakeService) -> None:
    """It is waited for half a second, and then left alone."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"redis://127.0.0.1:{silent.getsockname()[1]}"
        service = make_service(rate_limit_requests=3, rate_limit_store=SecretStr(address))
        began = time.monotonic()
        assert [ask(service).status_code for _ in range(10)] == [200] * 3 + [429] * 7
        assert time.monotonic() - began < 3


@pytest.mark.parametrize(
    "address",
    [
        "Memory",
        "localhost:6379",
        "http://hunter2@host",
        "redis://",
        "redis://:hunter2@host:port",
        "redis://:hunter2#@host",
        "redis://host/hunter2",
        "redis://:hunter2@host?timeout=1",
        "redis://[::1",
    ],
)
def test_an_address_that_is_no_stores_is_refused(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says what is one, and repeats nothing of what may be a password."""
    monkeypatch.setenv("CARREL_RATE_LIMIT_STORE", address)
    with pytest.raises(ValidationError, match="must be memory, or an address such as redis://") as caught:
        Settings()
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("address", ["memory", "redis://host", "rediss://u:p@host:1/", "redis://:p%23@[::1]:6379/15"])
def test_an_address_that_is_a_stores_is_taken(address: str) -> None:
    """With and without user, password, port and number of a database."""
    assert Settings(rate_limit_store=SecretStr(address)).rate_limit_store.get_secret_value() == address


def test_a_bad_address_ends_the_start_with_its_reason() -> None:
    """`python -m service` says which variable is wrong, and doesn't repeat it."""
    environment: dict[str, Any] = {name: value for name, value in os.environ.items() if not name.startswith("CARREL_")}
    environment["CARREL_RATE_LIMIT_STORE"] = "redis://:hunter2@host:port"
    ended = subprocess.run(
        [sys.executable, "-m", "service"], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 1
    assert "CARREL_RATE_LIMIT_STORE: must be memory, or an address such as redis://" in ended.stderr
    assert "hunter2" not in ended.stderr
