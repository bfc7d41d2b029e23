"""Rate limits of a credential's requests, and of an address's failed authentications."""

import asyncio
import socket
import time
from collections.abc import Callable, Iterator
from multiprocessing import get_context
from unittest.mock import Mock, call

import httpx
import pytest
from limits import RateLimitItemPerSecond
from pydantic import SecretStr, ValidationError

from carrel import AsyncCarrel
from service.platform import shared_store as shared_store_module
from service.platform.rate_limits import Counter, RateLimits, network_of
from service.platform.settings import Settings
from service.platform.sharing import Counts
from tests.harness.cases import cases
from tests.harness.processes import free_port
from tests.harness.services import RunningService, ServiceHarness
from tests.harness.stores import shared_store
from tests.service.directory import a_key, code
from tests.service.service_accounts import a_token, an_account, enable_service_accounts

MakeService = Callable[..., RunningService]
WRONG = "svc_key_" + "wrong" * 10
ADDRESSES = (f"198.51.100.{number}" for number in range(1, 255))  # failures of each count for a minute


def ask(service: RunningService, api_key: str | None = None, **headers: str) -> httpx.Response:
    return service.call("admin/organization/get", api_key=api_key, headers=headers)


def refused(response: httpx.Response) -> tuple[int, str]:
    assert 1 <= int(response.headers["Retry-After"]) <= 60
    assert response.json()["error"]["requestId"] == response.headers["X-Request-Id"]
    return code(response)


def fail(service: RunningService, *addresses: str) -> list[str]:
    return [code(ask(service, WRONG, **{"X-Forwarded-For": address}))[1] for address in addresses]


FAILED, TOO_MANY = "invalid_credential", "too_many_failures"
FAILURES = {"rate_limit_failures": 3}


@pytest.fixture(scope="module")
def behind_proxy(service_harness: ServiceHarness) -> Iterator[RunningService]:
    with service_harness.running(rate_limit_requests=8, trusted_proxies=("127.0.0.1",), **FAILURES) as service:
        yield service


@pytest.fixture
def limited(behind_proxy: RunningService) -> Iterator[RunningService]:
    with behind_proxy.new_organization() as organization:
        yield organization


def test_a_credential_beyond_its_limit_is_told_when_to_come_back(limited: RunningService) -> None:
    other = a_key(limited)["apiKey"]
    assert [ask(limited).status_code for _ in range(8)] == [200] * 7 + [429]
    beyond = ask(limited)
    assert refused(beyond) == (429, "rate_limited")
    assert int(beyond.headers["Retry-After"]) > 30, "the window has only just begun"
    assert ask(limited, other).status_code == 200
    url = httpx.URL(limited.base_url)
    head = (
        "POST /api/v0/admin/users/upsert HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {limited.api_key}\r\nContent-Length: 1000000\r\n\r\n"
    )
    with socket.create_connection((url.host, url.port or 0), timeout=20) as connection:
        connection.sendall(head.encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 429 ")


def test_failures_beyond_the_limit_are_429_and_valid_credentials_are_served(limited: RunningService) -> None:
    address = {"X-Forwarded-For": next(ADDRESSES)}
    assert fail(limited, *[*address.values()] * 3) == [FAILED] * 3
    for header in (f"Bearer {WRONG}", "Basic YTpi", ""):
        assert refused(ask(limited, Authorization=header, **address)) == (429, TOO_MANY)
    for _ in range(5):
        assert ask(limited, **address).status_code == 200
    assert refused(ask(limited, WRONG, **address)) == (429, TOO_MANY)


def test_valid_requests_are_no_failures(limited: RunningService) -> None:
    member, address = limited.new_user("member@example.test"), {"X-Forwarded-For": next(ADDRESSES)}
    assert [ask(limited, member, **address).status_code for _ in range(3)] == [403] * 3
    assert [limited.call("admin/users/upsert", {"x": 1}, headers=address).status_code for _ in range(3)] == [400] * 3
    assert fail(limited, *[*address.values()] * 4) == [FAILED] * 3 + [TOO_MANY]


def test_a_credential_that_counts_for_nothing_is_a_failure(limited: RunningService) -> None:
    """A token of an organization without service accounts, although the 403 gives the reason."""
    enable_service_accounts(limited)
    token = a_token(limited, an_account(limited), "catalog:read")["token"]
    enable_service_accounts(limited, enabled=False)
    address = {"X-Forwarded-For": next(ADDRESSES)}
    answers = [ask(limited, token, **address) for _ in range(4)]
    assert [answer.status_code for answer in answers] == [403, 403, 403, 429]


def test_nought_is_no_limit(make_service: MakeService) -> None:
    service = make_service(rate_limit_requests=0, rate_limit_failures=0)
    assert {ask(service).status_code for _ in range(20)} == {200}
    assert set(fail(service, *["203.0.113.1"] * 70)) == {FAILED}


def test_a_forwarded_address_counts_only_from_a_trusted_proxy(make_service: MakeService) -> None:
    service = make_service(**FAILURES)
    assert fail(service, *(f"203.0.113.{number}" for number in range(5))) == [FAILED] * 3 + [TOO_MANY] * 2


def test_behind_a_trusted_proxy_the_address_it_saw_counts(limited: RunningService) -> None:
    written = ("", "198.51.100.7, ", "127.0.0.2, ::1, ", "198.51.100.8, ")
    assert fail(limited, *(f"{each}203.0.113.4" for each in written)) == [FAILED] * 3 + [TOO_MANY]
    assert fail(limited, "203.0.113.4:50000", "203.0.113.5") == [TOO_MANY, FAILED]

    found = fail(limited, *(f"2001:db8:0:1::{number}" for number in range(1, 5)), "2001:db8:0:2::1")
    assert found == [FAILED] * 3 + [TOO_MANY, FAILED]


@pytest.mark.parametrize(("address", "network"), cases("what_an_address_is_counted_as"))
def test_what_an_address_is_counted_as(address: str, network: str) -> None:
    assert network_of(address) == network


def test_memory_is_bounded_under_any_number_of_addresses() -> None:
    counts = Counts(1, capacity=1000)
    for number in range(20_000):
        counts.add(0, f"address-{number}", 1, now=number, seconds=1e6)
    kept = [counts.read(f"address-{number}", now=20_000)[0] for number in range(20_000)]
    assert sum(kept) == 1000
    assert all(kept[-100:])
    assert counts.add(0, "address-19999", 1, now=20_000, seconds=1e6) == 2


def test_windows_end_and_make_room() -> None:
    counts = Counts(1, capacity=8)
    for number in range(8):
        counts.add(0, f"address-{number}", 1, now=0, seconds=10 + number)
    assert counts.add(0, "address-0", 1, now=9, seconds=10) == 2
    assert counts.read("address-0", now=11) == (0, 11)
    assert counts.add(0, "address-9", 1, now=11, seconds=10) == 1
    assert counts.read("address-7", now=11) == (1, 17)
    assert counts.add(0, "address-0", 1, now=17, seconds=10) == 1


def test_processes_count_together() -> None:
    counts = Counts(3, capacity=1000)
    assert counts.add(0, "address", 1, now=0, seconds=10) == 1

    def add_many(worker: int) -> None:
        for _ in range(1000):
            counts.add(worker, "address", 1, now=1, seconds=10)

    children = [get_context("fork").Process(target=add_many, args=(worker,)) for worker in range(3)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    assert counts.read("address", now=1) == (3001, 10)


async def test_a_burst_beyond_the_limit_finishes(make_service: MakeService) -> None:
    """The client waits as requested, so that two and a half times the limit at once succeed."""
    counter = Counter(RateLimitItemPerSecond(20, 1), kind="requests", shared=None)
    service = make_service(rate_limits=RateLimits(requests=counter, failures=None))
    began = time.monotonic()
    async with AsyncCarrel(service.api_key, service.base_url) as client:
        answers = await asyncio.gather(*(client.admin.organization.get() for _ in range(50)))
    assert {answer.domain for answer in answers} == {"example.test"}
    assert time.monotonic() - began > 1, "nobody had to wait"


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for a working store on busy machines; ask a failed store again soon."""
    monkeypatch.setattr(shared_store_module, "STORE_SECONDS", 60.0)
    monkeypatch.setattr(shared_store_module, "STORE_REST_SECONDS", 0.2)


@pytest.mark.usefixtures("patience")
def test_replicas_share_their_counts(make_service: MakeService) -> None:
    with shared_store() as port:
        store = {"rate_limit_store": SecretStr(f"redis://127.0.0.1:{port}/1")}
        one, other = (make_service(rate_limit_requests=10, rate_limit_failures=4, **store) for _ in range(2))
        assert [ask(one if turn % 2 else other).status_code for turn in range(12)] == [200] * 10 + [429] * 2
        assert [fail(one if turn % 2 else other, "")[0] for turn in range(6)] == [FAILED] * 4 + [TOO_MANY] * 2
        assert refused(ask(one)) == (429, "rate_limited")


@pytest.mark.usefixtures("patience")
def test_without_its_store_each_replica_counts_for_itself(make_service, monkeypatch) -> None:
    logger = Mock()
    monkeypatch.setattr(shared_store_module, "logger", logger)
    address = f"redis://:hunter2@127.0.0.1:{free_port()}"
    service = make_service(rate_limit_requests=8, rate_limit_store=SecretStr(address))
    found: list[int] = []
    for _ in range(10):
        found.append(ask(service).status_code)
        time.sleep(0.06)
    assert found == [200] * 8 + [429] * 2
    assert service.http.get("/readyz").status_code == 200
    assert logger.mock_calls == [call.warning("rate_limit_store_away", kind="ConnectionError")]


@pytest.mark.usefixtures("patience")
def test_a_store_that_comes_back_counts_again(make_service: MakeService) -> None:
    with shared_store() as port:
        service = make_service(rate_limit_requests=3, rate_limit_store=SecretStr(f"redis://127.0.0.1:{port}"))
        assert [ask(service).status_code for _ in range(4)] == [200] * 3 + [429]
    assert [ask(service).status_code for _ in range(4)] == [200] * 3 + [429]
    with shared_store(port):
        time.sleep(0.3)
        assert [ask(service).status_code for _ in range(4)] == [200] * 3 + [429]


def test_a_store_that_hangs_holds_up_one_request_for_a_moment(make_service: MakeService) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"redis://127.0.0.1:{silent.getsockname()[1]}"
        service = make_service(rate_limit_requests=3, rate_limit_store=SecretStr(address))
        began = time.monotonic()
        assert [ask(service).status_code for _ in range(10)] == [200] * 3 + [429] * 7
        assert time.monotonic() - began < 3


@pytest.mark.parametrize("address", cases("an_address_that_is_no_stores_is_refused"))
def test_an_address_that_is_no_stores_is_refused(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message repeats no possible password."""
    monkeypatch.setenv("CARREL_RATE_LIMIT_STORE", address)
    with pytest.raises(ValidationError, match="must be memory, or an address such as redis://") as caught:
        Settings()
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("address", ["memory", "redis://host", "rediss://u:p@host:1/", "redis://:p%23@[::1]:6379/15"])
def test_an_address_that_is_a_stores_is_taken(address: str) -> None:
    assert Settings(rate_limit_store=SecretStr(address)).rate_limit_store.get_secret_value() == address
