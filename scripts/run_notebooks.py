"""`make notebooks`: run the notebooks from top to bottom, and keep what they show in them.

They run one after the other against a service of their own with the sample organization in it, so that what they show
is the same wherever and whenever it is made, but for ids and times. Name some of them to run these alone.
"""

import asyncio
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

from carrel import Carrel, evaluation, judgements
from sample.organization import MANIFEST, NAME, set_up

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "notebooks"
STARTING_SECONDS, STOPPING_SECONDS, CELL_SECONDS = 240, 60, 240


# What people of the sample search for on a morning, and what they think of it.
_SEARCHES = [
    ("sade.oyelaran", "what happens to lost things", "HYBRID", "THUMBS_UP"),
    ("tove.lindqvist", "how many sheep may we carry", "HYBRID", "THUMBS_UP"),
    ("freya.stroud", "kayak rental", "LEXICAL", None),
    ("jonas.abara", "pay bands", "HYBRID", "THUMBS_DOWN"),
    ("jonas.abara", "gearbox", "LEXICAL", None),
    ("bram.tulloch", "Fahrplan Sonntag", "LEXICAL", None),
    ("freya.stroud", "kayak rental", "LEXICAL", None),
    ("sigrid.holm", "minutes of the extraordinary meeting", "HYBRID", "THUMBS_UP"),
    ("freya.stroud", "where do I find an umbrella I left on board", "SEMANTIC", "THUMBS_DOWN"),
    ("mei.tanaka", "pier dues", "HYBRID", "THUMBS_UP"),
]
QUESTIONS = ROOT / "sample" / "questions.csv"


def main(names: list[str]) -> None:
    """Run and keep the notebooks of these names, all of them without any."""
    chosen = [FOLDER / name for name in names] or notebooks()
    with sample_organization() as environment:
        for path in chosen:
            began = time.monotonic()
            nbformat.write(run(nbformat.read(path, as_version=4), environment), path)
            print(f"{path.name}: {time.monotonic() - began:.1f} s")  # noqa: T201 - whoever waits for it sees how it goes


def notebooks() -> list[Path]:
    """Return all notebooks, in the order of their names."""
    return sorted(FOLDER.glob("*.ipynb"))


def run(notebook: NotebookNode, environment: Mapping[str, str]) -> NotebookNode:
    """Run a notebook's cells in a kernel of its own, and return it with what they show.

    Raises CellExecutionError when one fails.
    """
    client = NotebookClient(
        notebook,
        kernel_name="python3",
        timeout=CELL_SECONDS,
        record_timing=False,
        coalesce_streams=True,  # what is printed comes in as many parts as it may
        resources={"metadata": {"path": str(FOLDER)}},
    )
    # `execute` would leave its event loop open, and asyncio.run the thread without the one that it had.
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        runner.run(client.async_execute(env=dict(environment), transport_encryption="auto"))
    # Which Python it was is nobody's business, and changes with every machine.
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    return notebook


@contextmanager
def sample_organization() -> Generator[dict[str, str]]:
    """Start `python -m service` on a folder of its own, with the sample in it; gives the environment to work with it.

    All of it is gone afterwards.
    """
    folder = Path(tempfile.mkdtemp(prefix="carrel-notebooks-"))
    folder.chmod(0o711)  # a root's PostgreSQL runs as another user, who must get to its data
    environment = _environment(folder)
    process: subprocess.Popen[bytes] | None = None
    try:
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen([sys.executable, "-m", "service"], env=environment, cwd=ROOT, stderr=log)
        _wait_until_ready(environment["CARREL_BASE_URL"], process, log=folder / "log")
        _load(environment)
        yield environment
    finally:
        if process is not None:
            process.terminate()
            process.wait(STOPPING_SECONDS)
        shutil.rmtree(folder)


def _environment(folder: Path) -> dict[str, str]:
    """Return this process's environment with the settings of a service in this folder, and no others of ours."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("CARREL_", "PREFECT_", "MPL"))}
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
    key = f"svc_key_{secrets.token_hex(24)}"
    return kept | {
        "CARREL_DATA_DIR": str(folder),
        "CARREL_PORT": port,
        "CARREL_BOOTSTRAP_ADMIN_EMAIL": "admin@northlight.example",
        "CARREL_BOOTSTRAP_ADMIN_PASSWORD": secrets.token_urlsafe(15),
        "CARREL_BOOTSTRAP_API_KEY": key,
        "CARREL_BASE_URL": f"http://127.0.0.1:{port}",
        "CARREL_API_KEY": key,
        "IPYTHONDIR": str(folder / "ipython"),  # kernels keep a history
    }


def _wait_until_ready(base_url: str, process: "subprocess.Popen[bytes]", *, log: Path) -> None:
    deadline = time.monotonic() + STARTING_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with suppress(httpx.TransportError):
            if httpx.get(f"{base_url}/readyz", timeout=10).is_success:
                return
        time.sleep(0.2)
    msg = f"The service doesn't start:\n{log.read_text(errors='replace')[-2000:]}"
    raise RuntimeError(msg)


def _load(environment: Mapping[str, str]) -> None:
    """Load the sample as `make up` does, but without Prefect."""
    with Carrel(environment["CARREL_API_KEY"], base_url=environment["CARREL_BASE_URL"]) as client:
        collection = set_up(client)
        upload = ["-m", "cli", "upload", "--direct", "--json", "--collection"]
        command = [sys.executable, *upload, collection, str(MANIFEST)]
        subprocess.run(command, env=dict(environment), cwd=ROOT, check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - ours
        client.admin.organization.update(name=NAME)
        _leave_traces(client)


def _leave_traces(client: Carrel) -> None:
    """Do what people do with an organization: judge searches, search, and make a key that ends soon."""
    judged = client.admin.evaluation_sets.create("Questions of the help desk")
    evaluation.add_judgements(client, judged.evaluation_set_id, judgements.read(QUESTIONS.read_bytes()))
    for name, query, mode, feedback in _SEARCHES:
        person = f"{name}@northlight.example"
        answer = client.search.search_document_catalog(query, mode=mode, user_email=person)
        if feedback:
            client.search.submit_search_feedback(search_id=answer.search_id, feedback=feedback, user_email=person)
    client.admin.api_keys.create("Nightly loading", expires_at=datetime.now(UTC) + timedelta(days=9))


if __name__ == "__main__":
    main(sys.argv[1:])
