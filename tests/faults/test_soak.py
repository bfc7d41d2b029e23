"""Mixed load: no lost or stale documents, no 5xx, and no growth of the service's resources. `make test-long
ARGS=tests/faults/test_soak.py` takes ten minutes; SOAK_SECONDS changes that (an hour: 3600), and SOAK_JSON names a file
for the printed figures."""

import hashlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.load import Asker, Breaker, Granter, Load, Reader, Syncer, Uploader
from tests.faults.loading import catalog_of, cheap_service
from tests.harness.figures import Figures, count_tasks_in, find_growth, table_row, take_figures, write_json
from tests.harness.processes import ServiceProcess
from tests.service.conversations import a_desk
from tests.service.directory import a_key, a_user

SECONDS = float(os.environ.get("SOAK_SECONDS", "600"))
SEED = 12
MOST_SAMPLES = 240
ENDING_SECONDS = 180
READERS = tuple(f"reader{number}@example.test" for number in range(3))


@pytest.fixture
def service(tmp_path: Path) -> Iterator[ServiceProcess]:
    with cheap_service(
        program=count_tasks_in(tmp_path / "tasks"),
        CARREL_EXTRACTION_WORKERS="2",
        CARREL_DOCSTORE_ALLOWED_HOSTS="127.0.0.1",
    ) as process:
        yield process


def judges_of(load: Load, service: ServiceProcess) -> list[Reader | Granter]:
    keys: list[str] = []
    for email in READERS:
        a_user(service, email)
        keys.append(a_key(service, ownerEmail=email)["apiKey"])
    readers = [Reader(load, name=email, api_key=key) for email, key in zip(READERS, keys, strict=True)]
    granters = [
        Granter(load, name=f"granter-{number}", reader=READERS[number], reader_key=keys[number]) for number in range(2)
    ]
    return [*readers, *granters]


@pytest.mark.long
@pytest.mark.timeout(int(SECONDS) + 1200)
def test_nothing_grows_under_a_mixed_load(service, mongo, tmp_path, capsys) -> None:
    load = Load(service.base_url, service.port, seed=SEED)
    uploaders = [Uploader(load, name=f"uploader-{number}") for number in range(2)]
    others = [
        Asker(load, name="asker", agent_id=a_desk(service).agent_id),
        Syncer(load, name="syncer", mongo=mongo),
        Breaker(load, name="breaker"),
    ]
    actors = [*uploaders, *judges_of(load, service), *others]
    for actor in actors:
        actor.thread.start()
    samples = watch(load, service, tasks=tmp_path / "tasks", capsys=capsys)
    load.stop.set()
    for actor in actors:
        actor.thread.join(ENDING_SECONDS)
    lost = [problem for uploader in uploaders for problem in missing(service, uploader)]
    left = take_last(load, service, tasks=tmp_path / "tasks", seconds=samples[-1].seconds)
    growth = find_growth(samples) if not load.problems else []
    if target := os.environ.get("SOAK_JSON"):
        told = {"problems": load.problems, "growth": growth, "lost": lost, "asked": dict(load.asked)}
        write_json(Path(target), [*samples, left], seed=SEED, **told)
    assert not load.problems, load.problems
    assert not any(actor.thread.is_alive() for actor in actors)
    assert not lost, lost[:20]
    assert not growth, growth
    assert left.temporary == 0, "uploads have left files behind"


def watch(load: Load, service: ServiceProcess, *, tasks: Path, capsys: pytest.CaptureFixture[str]) -> list[Figures]:
    every, row_every = max(SECONDS / MOST_SAMPLES, 1.0), min(60.0, SECONDS / 10)
    began, next_row = time.monotonic(), 0.0
    samples: list[Figures] = []
    with capsys.disabled():
        print(f"\n{table_row(None)}")  # noqa: T201 - the table is what the test is for
        while (seconds := time.monotonic() - began) < SECONDS and not load.stop.is_set():
            samples.append(take_figures(service, tasks=tasks, seconds=seconds, requests=load.requests))
            if seconds >= next_row:
                next_row += row_every
                print(table_row(samples[-1]), flush=True)  # noqa: T201 - see above
            load.stop.wait(every)
        print(f"asked: {dict(load.asked)}", flush=True)  # noqa: T201 - see above
    return samples


def take_last(load: Load, service: ServiceProcess, *, tasks: Path, seconds: float) -> Figures:
    deadline = time.monotonic() + ENDING_SECONDS
    while True:
        left = take_figures(service, tasks=tasks, seconds=seconds, requests=load.requests)
        if left.temporary == 0 or time.monotonic() > deadline:
            return left
        time.sleep(1)


def missing(service: ServiceProcess, uploader: Uploader) -> list[str]:
    wanted = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in uploader.texts.items()}
    deadline = time.monotonic() + ENDING_SECONDS
    while True:
        catalog = catalog_of(service, uploader.name)
        lost = [f"{name} is lost or another" for name in wanted if catalog.hashes.get(name) != wanted[name]]
        lost += [f"{name} was deleted, and is there" for name in catalog.hashes.keys() - wanted.keys()]
        stale = [name for name, version in catalog.versions.items() if catalog.indexed[name] != version]
        if lost or not (stale or catalog.odd) or time.monotonic() > deadline:
            return [*lost, *(f"{name} is not indexed" for name in {*stale, *catalog.odd})]
        time.sleep(1)
