"""What every first start of a service makes anew, made once a session: the model's graph, and an empty database."""

import atexit
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from service import migrations
from service.platform.postgres.server import SUPERUSER, EmbeddedPostgres
from service.platform.settings import default_precision
from service.text.embedding import MODEL_FOLDER
from service.text.embedding.prepared import prepare
from service.text.embedding.weights import locate
from tests.harness.databases import PREFIX

CLUSTER = "postgres"


def bring_model(data_dir: Path) -> None:
    """Put the model's graph into a data folder, as one more name of the same file."""
    folder = data_dir / MODEL_FOLDER
    folder.mkdir(exist_ok=True)
    for graph in _models().glob("*.onnx"):
        if not (folder / graph.name).exists():
            os.link(graph, folder / graph.name)


def bring_database(data_dir: Path) -> None:
    """Put a cluster into a data folder: stopped, migrated, nothing in it. What is killed there keeps what it had.

    It doesn't wait for the disk, which matters to power cuts alone.
    """
    # cp keeps the cluster's owner, who may be another user than this one.
    subprocess.run(["/bin/cp", "-a", str(_cluster()), str(data_dir / CLUSTER)], check=True)


@cache
def _models() -> Path:
    return prepare(folder_of_session() / MODEL_FOLDER, default_precision(), files=locate()).parent


@cache
def _cluster() -> Path:
    server = EmbeddedPostgres(folder_of_session())
    server.start()
    try:
        migrations.upgrade(server.url(user=SUPERUSER))
    finally:
        server.stop()
    cluster = (folder_of_session() / CLUSTER).resolve()
    with (cluster / "postgresql.conf").open("a") as configuration:
        configuration.write("fsync = off\n")
    return cluster


@cache
def folder_of_session() -> Path:
    """Return a folder for what the session makes once; it goes with the session, or with the next one's begin."""
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    folder.chmod(0o711)
    (folder / "owner").write_text(str(os.getpid()))  # by which the next session knows whether this one is over
    return folder
