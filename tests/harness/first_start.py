"""The work of a service's first start, done once per test run: the model's graph, and a migrated database."""

import fcntl
import os
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from service import migrations
from service.platform.postgres.server import SUPERUSER, EmbeddedPostgres
from service.text.embedding import MODEL_FOLDER
from service.text.embedding.prepared import prepare
from service.text.embedding.weights import locate
from tests.harness.reaper import RUN, begin_run

CLUSTER = "postgres"


def bring_model(data_dir: Path) -> None:
    folder = data_dir / MODEL_FOLDER
    folder.mkdir(exist_ok=True)
    for file in _models().glob("*.v*"):
        if not (folder / file.name).exists():
            os.link(file, folder / file.name)


def bring_database(data_dir: Path) -> None:
    # cp keeps the cluster's owner, who may be another user than this one.
    subprocess.run(["/bin/cp", "-a", str(_cluster()), str(data_dir / CLUSTER)], check=True)


@cache
def _models() -> Path:
    return prepare(folder_of_run() / MODEL_FOLDER, "int8", files=locate()).parent


@cache
def _cluster() -> Path:
    """Return the cluster made by the run's first process in need; later processes wait."""
    made = folder_of_run() / "cluster-made"
    with (folder_of_run() / "cluster.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            server = EmbeddedPostgres(folder_of_run())
            server.start()
            try:
                migrations.upgrade(server.url(user=SUPERUSER))
            finally:
                server.stop()
            with (folder_of_run() / CLUSTER / "postgresql.conf").open("a") as configuration:
                configuration.write("fsync = off\n")
            made.touch()
    return (folder_of_run() / CLUSTER).resolve()


@cache
def folder_of_run() -> Path:
    if RUN in os.environ:
        return Path(os.environ[RUN])
    begin_run(Path(tempfile.gettempdir()))
    return Path(os.environ[RUN])
