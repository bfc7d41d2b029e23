"""Loading a folder of small documents by `carrel upload`, and comparing the catalog with it afterwards."""

import atexit
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Event

from service.platform.postgres.server import SUPERUSER
from tests.harness.cases import statement
from tests.harness.databases import connect
from tests.harness.embeddings_server import embeddings_server
from tests.harness.forking import ForkServer
from tests.harness.processes import ServiceProcess, environment_without_settings
from tests.harness.services import API_KEY, RunningService

BATCH = 50
_RUN_SECONDS = 1800

# Of the stand-in for a model, whose vectors have 384 dimensions: chunks lie in a table for each size.
_CATALOG = statement("loaded_documents")


@cache
def carrel_server() -> ForkServer:
    server = ForkServer("tests.cli.preloaded", environment={})
    atexit.register(server.close)
    return server


class Run:
    """A run of `carrel` with short pauses (tests.cli.preloaded), with the interface of `subprocess.Popen`."""

    def __init__(self, *arguments: str, environment: dict[str, str]) -> None:
        self._out = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the end
        reading, writing = os.pipe()
        self.stderr = os.fdopen(reading)
        with Path(os.devnull).open() as nothing:
            streams = [nothing.fileno(), self._out.fileno(), writing]
            command = "from tests.cli.preloaded import main; main()"
            self._program = carrel_server().start("-c", command, *arguments, environment=environment, streams=streams)
        os.close(writing)
        self.poll, self.send_signal = self._program.poll, self._program.send_signal
        self.kill, self.terminate = self._program.kill, self._program.terminate

    @property
    def returncode(self) -> int | None:
        return self._program.returncode

    def communicate(self, timeout: float = _RUN_SECONDS) -> tuple[str, str]:
        with self.stderr, self._out:
            errors = self.stderr.read()
            self._program.wait(timeout)
            self._out.seek(0)
            return self._out.read(), errors


@dataclass(frozen=True)
class Ended:
    """The end of a run; `said` is the JSON, `errors` the standard error."""

    code: int
    said: dict
    errors: str


class Loader:
    """A folder, and the runs over it against the service at `base_url`; all external ids begin with `name`."""

    def __init__(
        self, folder: Path, base_url: str, *, name: str, outage_seconds: int = 120, **environment: str
    ) -> None:
        self.name = name
        self.source = folder / "source"
        self.source.mkdir(parents=True)
        self._environment = environment_without_settings() | {
            "CARREL_BASE_URL": base_url,
            "CARREL_API_KEY": API_KEY,
            "CARREL_DATA_DIR": str(folder / "state"),
            "CARREL_FLOWS_BATCH_SIZE": str(BATCH),
            "CARREL_FLOWS_OUTAGE_SECONDS": str(outage_seconds),
            **environment,
        }

    def write(self, number: int, *, edition: int = 1) -> None:
        for index in range(number):
            path = self.source / self.name / f"{index // 100:03}" / f"{index:05}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"Edition {edition}: ferry {index} leaves pier {index % 97}.\n")

    def hashes(self) -> dict[str, str]:
        files = (path for path in self.source.rglob("*") if path.is_file())
        return {str(path.relative_to(self.source)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}

    def start(self, *options: str, machine: bool = True) -> "Run | subprocess.Popen[str]":
        arguments = ["upload", str(self.source), *options, *(["--json"] if machine else [])]
        if "--direct" in options:
            return Run(*arguments, environment=self._environment)
        command, pipe = [str(Path(sys.executable).with_name("carrel")), *arguments], subprocess.PIPE
        return subprocess.Popen(command, env=self._environment, stdout=pipe, stderr=pipe, text=True)

    def end(self, process: "Run | subprocess.Popen[str]") -> Ended:
        out, errors = process.communicate(timeout=_RUN_SECONDS)
        assert process.returncode is not None
        return Ended(process.returncode, json.loads(out) if out.strip() else {}, errors)

    def run(self, *options: str) -> Ended:
        return self.end(self.start(*options))


@dataclass(frozen=True)
class Catalog:
    """The service's database: bytes, version and searchable version of each document."""

    hashes: dict[str, str]
    versions: dict[str, int]
    indexed: dict[str, int | None]
    rows: int
    odd: list[str]


def catalog_of(service: ServiceProcess, name: str) -> Catalog:
    with connect(service.database_server().url(user=SUPERUSER)) as connection:
        rows = connection.execute(_CATALOG, [f"{name}/"]).fetchall()
    return Catalog(
        hashes={row[0]: row[1] for row in rows},
        versions={row[0]: row[2] for row in rows},
        indexed={row[0]: row[3] for row in rows},
        rows=len(rows),
        odd=[row[0] for row in rows if row[4] != row[5] or not row[5]],
    )


def metric(service: ServiceProcess | RunningService, name: str) -> float:
    lines = service.http.get("/metrics").text.splitlines()
    return next(float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{name} "))


def is_the_source(service: ServiceProcess, loader: Loader) -> None:
    source, catalog = loader.hashes(), catalog_of(service, loader.name)
    assert catalog.hashes == source
    assert (catalog.rows, catalog.odd) == (len(source), [])
    assert set(catalog.versions.values()) == {1}
    assert catalog.indexed == catalog.versions


@contextmanager
def cheap_service(
    released: Event | None = None, program: tuple[str, ...] = ServiceProcess.program, **environment: str
) -> Iterator[ServiceProcess]:
    """Run a service with its own database, free embedding, no rate limits; SLOW texts wait until `released`."""
    with embeddings_server(released) as embeddings:
        settings = {**embeddings, "CARREL_RATE_LIMIT_REQUESTS": "0", "CARREL_SWEEP_SECONDS": "1", **environment}
        with closing(ServiceProcess(**settings)) as process:
            process.program = program
            process.start()
            yield process
