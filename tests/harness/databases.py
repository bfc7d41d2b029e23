"""A throwaway PostgreSQL for each test process, and clones of the bootstrapped database."""

import shutil
import tempfile
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy.engine import URL

from service.platform.postgres.server import DATABASE, SUPERUSER, EmbeddedPostgres
from tests.harness.first_start import bring_database

# Nothing here has to outlive a crash, so nothing waits for the disk.
PARAMETERS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "shared_buffers": "128MB",
    "io_method": "sync",
    "jit": "off",
    "max_parallel_workers_per_gather": "0",
    "max_connections": "200",
    "autovacuum_naptime": "1min",
    "random_page_cost": "1.1",
}


class TestDatabases:
    __test__ = False

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="databases-"))
        self.folder.chmod(0o711)
        bring_database(self.folder)
        self._server = EmbeddedPostgres(self.folder, parameters=PARAMETERS)
        self._server.start()
        self._numbers = count(1)

    def owner_url(self, database: str) -> URL:
        return self._server.url(user=SUPERUSER, database=database)

    def service_url(self, database: str) -> URL:
        return self._server.url(database=database)

    def clone(self) -> str:
        name = f"test_{next(self._numbers)}"
        self._administer(f"CREATE DATABASE {name} TEMPLATE {DATABASE} STRATEGY file_copy")
        return name

    def empty(self) -> str:
        name = f"test_{next(self._numbers)}"
        self._administer(f"CREATE DATABASE {name}")
        return name

    def drop(self, name: str) -> None:
        self._administer(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def connect(self, database: str) -> psycopg.Connection[Any]:
        return connect(self.owner_url(database))

    def close(self) -> None:
        self._server.stop()
        shutil.rmtree(self.folder)

    def _administer(self, statement: str) -> None:
        with self.connect(SUPERUSER) as connection:
            connection.execute(statement)


def connect(url: URL) -> psycopg.Connection[Any]:
    """Connect to a SQLAlchemy address with the plain driver, in autocommit mode."""
    return psycopg.connect(url.set(drivername="postgresql").render_as_string(hide_password=False), autocommit=True)
