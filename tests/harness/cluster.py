"""Databases on a Citus coordinator and its workers, in place of the session's PostgreSQL. Citus is in no registry:
`CARREL_TEST_CLUSTER` names running servers, the coordinator first
(`postgresql://postgres@host:port/postgres,postgresql://…`). Without it, cluster tests are skipped; with it, service
tests can run on a cluster."""

import asyncio
import os
import shutil
import tempfile
from itertools import count
from pathlib import Path

import psycopg
from sqlalchemy.engine import URL

from service import migrations
from service.operate.distribution import distribute_index
from service.platform.database import SERVICE_ROLE, driver_url
from service.platform.postgres.server import DATABASE
from tests.harness.databases import TestDatabases, connect

VARIABLE = "CARREL_TEST_CLUSTER"
SHARDS = 4


class ClusterDatabases(TestDatabases):
    """Databases with their index tables on the workers of a cluster."""

    def __init__(self, addresses: str) -> None:
        self._servers = [driver_url(address, setting=VARIABLE) for address in addresses.split(",")]
        self.folder = Path(tempfile.mkdtemp(prefix="cluster-"))
        self.folder.chmod(0o711)
        self._numbers = count(1)
        self._prefix = f"t{os.getpid()}"
        self._make(self._name(DATABASE))
        migrations.upgrade(self.owner_url(DATABASE))
        with self.connect(DATABASE) as coordinator:
            for number, server in enumerate(self._servers):
                function = "citus_add_node" if number else "citus_set_coordinator_host"
                coordinator.execute(f"SELECT {function}(%s, %s)", [server.host, server.port])
        asyncio.run(distribute_index(self.owner_url(DATABASE), shards=SHARDS))

    def owner_url(self, database: str) -> URL:
        return self._servers[0].set(database=self._name(database))

    def service_url(self, database: str) -> URL:
        return self.owner_url(database).set(username=SERVICE_ROLE)

    def clone(self) -> str:
        name, template = self._next(), self._name(DATABASE)
        leave = f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '{template}'"  # noqa: S608
        for server in self._servers:
            _run(server, leave, f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
        return name

    def empty(self) -> str:
        name = self._next()
        self._make(name)
        return name

    def drop(self, name: str) -> None:
        for server in self._servers:
            _run(server, f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def close(self) -> None:
        self.drop(self._name(DATABASE))
        shutil.rmtree(self.folder)

    def worker_connections(self, database: str) -> list[psycopg.Connection]:
        return [connect(server.set(database=database)) for server in self._servers[1:]]

    def _name(self, database: str) -> str:
        return f"{self._prefix}_{DATABASE}" if database == DATABASE else database

    def _next(self) -> str:
        return f"{self._prefix}_{next(self._numbers)}"

    def _make(self, name: str) -> None:
        for server in self._servers:
            _run(server, f"CREATE DATABASE {name}")
            _run(server.set(database=name), "CREATE EXTENSION citus", "CREATE EXTENSION vector")


def _run(server: URL, *statements: str) -> None:
    with connect(server) as connection:
        for statement in statements:
            connection.execute(statement.encode())
