"""MongoDB protocol servers, each a separate process, and the server of MONGO_TEST_URI."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from pymongo import MongoClient
from pymongo.errors import PyMongoError

from tests.harness.processes import free_port

REAL_URI = "MONGO_TEST_URI"
STARTING_SECONDS = 30
Collection = Any


@dataclass
class MongoServer:
    """A server with an address, and a collection for a single test."""

    uri: str
    client: Any
    collection_name: str

    @property
    def collection(self) -> Collection:
        return self.client.get_default_database()[self.collection_name]

    def with_collection(self) -> "MongoServer":
        return replace(self, collection_name=f"things_{uuid4().hex}")

    def misbehave(self, **faults: Any) -> None:
        """Let the server over mongomock misbehave; without faults, reset the behaviour."""
        self.client.admin.command({"testFaults": 1, **faults})


@contextmanager
def server_over_mongomock(*others: str) -> Iterator[MongoServer]:
    """Start the server over mongomock, with these hosts as further members of the replica set."""
    command = [sys.executable, "-m", "tests.harness.mongo.server", *others]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        with _connected(f"mongodb://127.0.0.1:{port}/shop") as server:
            yield server
    finally:
        _stop(process)


@contextmanager
def server_nx(folder: Path) -> Iterator[MongoServer]:
    """Start nx-27017, a server with documents in SQLite."""
    port = free_port()
    command = [str(Path(sys.executable).with_name("nx-27017")), "--db", "memory", "-p", str(port)]
    files = ["--log-file", str(folder / "nx.log"), "--pid-file", str(folder / "nx.pid")]
    process = subprocess.Popen([*command, *files], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with _connected(f"mongodb://127.0.0.1:{port}/shop") as server:
            yield server
    finally:
        _stop(process)


@contextmanager
def server_real(folder: Path) -> Iterator[MongoServer]:
    """Use the server and database of MONGO_TEST_URI; the collection is dropped afterwards."""
    del folder
    with _connected(os.environ[REAL_URI]) as server:
        try:
            yield server
        finally:
            server.collection.drop()


def is_real_one_given() -> bool:
    return REAL_URI in os.environ


def _stop(process: "subprocess.Popen[Any]") -> None:
    process.send_signal(signal.SIGKILL)
    process.wait(STARTING_SECONDS)
    if process.stdout is not None:
        process.stdout.close()


@contextmanager
def _connected(uri: str) -> Iterator[MongoServer]:
    client: MongoClient[Any] = MongoClient(uri, directConnection=True, serverSelectionTimeoutMS=1000)
    try:
        _wait_until(lambda: client.admin.command("ping"))
        yield MongoServer(uri, client, f"things_{uuid4().hex}")
    finally:
        client.close()


def _wait_until(ask: Callable[[], Any]) -> None:
    deadline = time.monotonic() + STARTING_SECONDS
    while time.monotonic() < deadline:
        with suppress(PyMongoError):
            ask()
            return
        time.sleep(0.05)
    ask()
