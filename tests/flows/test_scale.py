"""Very many tiny documents through the flow: memory stays flat, each is found, and Prefect's pages stay usable. `make
test-long ARGS=tests/flows/test_scale.py` loads 10,000, then 100,000, and prints the rate; FLOW_DOCUMENTS changes the
number, of which a tenth is loaded before."""

import contextlib
import hashlib
import json
import math
import os
import random
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.faults.loading import catalog_of
from tests.flows.processes import prefect_server
from tests.harness.embeddings_server import embeddings_server
from tests.harness.processes import ServiceProcess
from tests.harness.services import API_KEY

LARGE = int(os.environ.get("FLOW_DOCUMENTS", "100000"))
SMALL = LARGE // 10
SEARCHES = 50
BATCH = 750


@dataclass(frozen=True)
class Measured:
    """The costs of a run of the flow; `peak` is its process's largest resident set, in MiB."""

    documents: int
    peak: float
    seconds: float
    counts: dict
    code: int


@pytest.mark.long
@pytest.mark.timeout(4 * 3600)
def test_memory_does_not_grow_with_the_number_of_documents(tmp_path, service_process, capsys) -> None:
    """Ten times as many take at most 1.2 times the memory."""
    with embeddings_server() as embeddings, prefect_server(tmp_path) as prefect:
        service = service_process(**embeddings, CARREL_RATE_LIMIT_REQUESTS="0")
        with capsys.disabled():
            small, large = (measure(number, tmp_path, service, prefect=prefect) for number in (SMALL, LARGE))
        assert (large.code, large.counts["created"], large.counts["quarantined"]) == (0, LARGE, 0)
        assert large.peak <= 1.2 * small.peak
        for number in (SMALL, LARGE):
            are_all_found(service, number)
        assert task_runs(prefect) == math.ceil(SMALL / BATCH) + math.ceil(LARGE / BATCH)
        assert len(post(prefect, "artifacts/filter")) <= 10
        assert post(prefect, "flow_runs/filter")[0]["state_type"] == "COMPLETED"


def measure(number: int, folder: Path, service: ServiceProcess, *, prefect: str) -> Measured:
    source = folder / f"source-{number}"
    write_documents(source, number=number)
    environment = {
        "CARREL_BASE_URL": service.base_url,
        "CARREL_API_KEY": API_KEY,
        "CARREL_DATA_DIR": str(folder / "flows"),
        "CARREL_FLOWS_BATCH_SIZE": str(BATCH),
        "PREFECT_API_URL": prefect,
    }
    command = [str(Path(sys.executable).with_name("carrel")), "upload", str(source), "--internal-public", "--json"]
    began = time.monotonic()
    with (folder / "answer.json").open("w+") as output:
        process = subprocess.Popen(command, env=os.environ | environment, stdout=output)
        peak = followed(process)
        output.seek(0)
        counts = json.load(output)
    measured = Measured(number, peak, time.monotonic() - began, counts, process.returncode)
    rate = number / measured.seconds
    figures = f"{number} documents: {measured.peak:.0f} MiB, {measured.seconds:.0f} s, {rate:.0f} a second"
    print(f"\n{figures}", flush=True)  # noqa: T201 - the profile's figures
    return measured


def are_all_found(service: ServiceProcess, number: int) -> None:
    catalog = catalog_of(service, str(number))
    assert (catalog.rows, len(catalog.hashes), catalog.odd) == (number, number, [])
    assert set(catalog.versions.values()) == {1}
    assert catalog.indexed == catalog.versions
    texts = {hashlib.sha256(text_of(index).encode()).hexdigest() for index in range(number)}
    assert set(catalog.hashes.values()) == texts
    for index in random.Random(number).sample(range(number), min(SEARCHES, number)):  # noqa: S311 - no secret
        body = {"searchQuery": name_of(index), "searchOptions": {"mode": "LEXICAL"}}
        found = service.call("search/searchDocumentCatalog", body).raise_for_status().json()["results"]
        assert file_name(index) in {each["documentName"] for each in found}, (name_of(index), found)


def followed(process: "subprocess.Popen[bytes]") -> float:
    peak = 0
    while process.poll() is None:
        with contextlib.suppress(OSError, StopIteration):
            status = Path(f"/proc/{process.pid}/status").read_text().splitlines()
            peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))
        time.sleep(0.1)
    return peak / 1024


def write_documents(folder: Path, *, number: int) -> None:
    for index in range(number):
        path = folder / str(number) / f"{index // 1000:03}" / file_name(index)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text_of(index))


def file_name(index: int) -> str:
    return f"{index:06}.txt"


def text_of(index: int) -> str:
    return f"Ferry {name_of(index)} leaves pier {index % 97}.\n"


def name_of(index: int) -> str:
    return "q" + "".join("abcdefghij"[int(digit)] for digit in f"{index:06}")


def post(prefect: str, path: str, body: object = None):
    return httpx.post(f"{prefect}/{path}", json=body or {"limit": 200}, timeout=60).raise_for_status().json()


def task_runs(prefect: str) -> int:
    return int(post(prefect, "task_runs/count", {"task_runs": {"state": {"type": {"any_": ["COMPLETED"]}}}}))
