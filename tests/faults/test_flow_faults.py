"""Loading over a bad network and a bad service: runs finish correctly, and report the problems."""

from collections import deque
from collections.abc import Iterator

import pytest

from tests.faults.loading import BATCH, Loader, cheap_service, is_the_source
from tests.harness.processes import ServiceProcess
from tests.harness.proxy import UPLOAD, Fault, Proxy, faulty

pytestmark = pytest.mark.slow

DOCUMENTS = 75
NOBODY_LISTENS = "http://127.0.0.1:9"
# The first uploads meet all of these; later requests of every kind meet them at random.
EACH = [Fault.LATENCY, Fault.RESET, Fault.LOST_ANSWER, Fault.TRUNCATED, Fault.SLOW_LORIS, Fault.TOO_MANY]
RATES = {
    Fault.LATENCY: 0.05,
    Fault.RESET: 0.03,
    Fault.LOST_ANSWER: 0.03,
    Fault.TRUNCATED: 0.03,
    Fault.SLOW_LORIS: 0.02,
    Fault.TOO_MANY: 0.02,
    Fault.UNAVAILABLE: 0.02,
}


@pytest.fixture(scope="module")
def service() -> Iterator[ServiceProcess]:
    with cheap_service() as process:
        yield process


@pytest.fixture
def proxy(service: ServiceProcess) -> Iterator[Proxy]:
    with faulty(service.base_url, seed=7) as proxy:
        yield proxy


def test_a_network_that_breaks_costs_time_alone(service: ServiceProcess, proxy: Proxy, tmp_path) -> None:
    loader = Loader(tmp_path, proxy.base_url, name="storm")
    loader.write(DOCUMENTS)
    proxy.script, proxy.rates = deque([*EACH, Fault.UNAVAILABLE, *EACH]), RATES
    ended = loader.run("--direct")
    assert ended.code == 0, ended
    assert (ended.said["outcome"], ended.said["created"], ended.said["quarantined"]) == ("completed", DOCUMENTS, 0)
    assert set(proxy.happened) >= {*EACH, Fault.UNAVAILABLE}
    is_the_source(service, loader)
    assert proxy.count(UPLOAD) <= DOCUMENTS + BATCH
    proxy.rates = {}
    again = loader.run("--direct")
    assert (again.code, again.said["unchanged"], again.said["sent_bytes"]) == (0, DOCUMENTS, 0)


def test_one_document_that_never_arrives_costs_itself(service: ServiceProcess, proxy: Proxy, tmp_path) -> None:
    loader = Loader(tmp_path, proxy.base_url, name="poison")
    loader.write(20)
    proxy.poison = b"ferry 13 leaves"
    ended = loader.run("--direct")
    assert ended.code == 1, ended
    assert (ended.said["created"], ended.said["failed"], ended.said["quarantined"]) == (19, 1, 1)
    (failure,) = ended.said["failures"]
    assert (failure["document"], failure["code"]) == ("poison/000/00013.txt", "connection_lost")
    proxy.poison = None
    again = loader.run("--direct")
    assert (again.code, again.said["unchanged"], again.said["quarantined"]) == (0, 19, 0)
    is_the_source(service, loader)


def test_an_address_where_nobody_is_is_said_while_the_run_waits(tmp_path) -> None:
    """A wrong address looks like an outage, so the run names it long before giving up."""
    loader = Loader(tmp_path, NOBODY_LISTENS, name="nobody", outage_seconds=6)
    loader.write(1)
    ended = loader.end(loader.start("--direct", machine=False))
    assert ended.code == 4, ended
    assert f"waiting for the service: No whole answer from {NOBODY_LISTENS} " in ended.errors
