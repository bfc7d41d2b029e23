"""`python -m sample`: load the sample organization through the bulk-upload flow, once, and say where everything is.

It is one of the Procfile's processes, which end together; so it stays until it is stopped. `python -m sample load` and
`python -m sample remove` do that alone, and end.
"""

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeVar
from uuid import UUID

import httpx

import carrel
from carrel.environment import http_options
from flows.operations.options import UploadOptions
from flows.runs import Runs, RunsError, RunStatus
from sample.organization import MANIFEST, NAME, STEPS, collection_name, is_loaded, set_up_by_steps
from sample.removal import count_items, find_sample, remove_sample

T = TypeVar("T")
ENDING = (signal.SIGINT, signal.SIGTERM)
PATIENCE_SECONDS = 180.0
# Of `make up`, which watches over the parts: as long as they are starting, there is nothing to give up.
ENDLESS = float("inf")
BUSY_SECONDS = 3
BAR = 40


def main() -> None:
    """Do what the command says: load, greet and wait; load; or remove."""
    parser = argparse.ArgumentParser(prog="python -m sample", description="The sample organization.")
    parser.add_argument("what", nargs="?", choices=("load", "remove"), help="without it: load once, greet and wait")
    parser.add_argument("--yes", action="store_true", help="remove without asking")
    chosen = parser.parse_args()
    for number in ENDING:
        signal.signal(number, signal.default_int_handler)
    try:
        carry_out(chosen.what, sure=chosen.yes)
    except KeyboardInterrupt as stop:
        if what_is_there := str(stop):
            say(what_is_there)
        # One of the Procfile's processes ends so ordinarily.
        sys.exit(128 + signal.SIGINT if chosen.what else 0)


def carry_out(what: str | None, *, sure: bool) -> None:
    """Load, greet and wait; load; or remove."""
    if not (base_url := os.environ.get("CARREL_BASE_URL", "")):
        sys.exit("CARREL_BASE_URL is not set. Load the settings of `make up` first: set -a; . ./.env; set +a")
    patience = PATIENCE_SECONDS if what else ENDLESS
    ready = f"{base_url}/readyz"
    with httpx.Client(timeout=10, **http_options(base_url)) as http:
        wait_until(lambda: http.get(ready).is_success, failing_with=httpx.TransportError, patience=patience)
    with carrel.Carrel(base_url=base_url) as client:
        if what == "remove":
            remove(client, sure=sure)
            return
        with Runs(os.environ["PREFECT_API_URL"]) as runs:
            if what == "load":
                sys.exit(is_refused(client) or not load(client, runs, patience=patience))
            start(client, runs)
    say(
        GREETING.format(
            workbench=workbench_url(), service=base_url, prefect=os.environ["PREFECT_API_URL"][:-4], **os.environ
        )
    )
    # Nothing is left but to end with the others, which a bare Python of a few megabytes can do.
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    waiting = f"import signal; signal.sigwait({[*map(int, ENDING)]})"
    os.execv(sys.executable, [sys.executable, "-ISc", waiting])  # noqa: S606 - it is this program again


def start(client: carrel.Carrel, runs: Runs) -> None:
    """Load the sample if it was never loaded whole; the organization bears its name from then on."""
    while True:
        try:
            if not is_loaded(client) and not is_refused(client) and load(client, runs, patience=ENDLESS):
                client.admin.organization.update(name=NAME)
        except carrel.AuthenticationError:
            sys.exit(STRANGE_KEY)
        except (carrel.APIConnectionError, carrel.ServerError, carrel.RateLimitError) as error:
            if isinstance(error, carrel.ServerError) and error.status != 503:
                # That is no reason to end the parts that read and search beside this.
                say(f"The sample was not loaded ({error}). `make up` tries again.")
                return
            say(f"The service is busy, so loading the sample goes on in a moment ({error}).")
            time.sleep(BUSY_SECONDS)
            continue
        return


GREETING = """
  Carrel is up.

    Workbench   {workbench}
    Service     {service}/openapi.json      CARREL_API_KEY is in .env
    Prefect     {prefect}

  Sign in as the admin, {CARREL_BOOTSTRAP_ADMIN_EMAIL}, or as anybody of the sample, such as
  jonas.abara@northlight.example, the apprentice; the passwords are in .env. Everybody finds what they may read.
  Ctrl-C stops everything; the next `make up` has kept it.
"""


STRANGE_KEY = """
  The key in .env is not one of the organization in the data folder, which was made with another .env: of another copy
  of Carrel on this machine, or one since deleted. Bring that .env back, or name a folder of its own for this copy in
  .env: CARREL_DATA_DIR=/somewhere/else
"""


def load(client: carrel.Carrel, runs: Runs, *, patience: float) -> bool:
    """Set up the organization and load the documents; tell whether all was loaded, also when interrupted."""
    say("Loading the sample organization …")
    loaded: list[str] = []
    try:
        for done in set_up_by_steps(client, password=os.environ.get("CARREL_SAMPLE_PASSWORD")):
            loaded.append(done)
            say(f"{len(loaded)} of {STEPS + 1}: {done}")
        return load_documents(runs, patience=patience)
    except KeyboardInterrupt as stop:
        there = ", ".join(loaded) or "nothing yet"
        rest = " The run of the documents goes on by itself if it has begun." if len(loaded) == STEPS else ""
        again = "`python -m sample load` or the next `make up` brings the rest."
        raise KeyboardInterrupt(f"Interrupted. Loaded: {there}.{rest} {again}") from stop


def load_documents(runs: Runs, *, patience: float) -> bool:
    """Start the flow that loads the documents, and show it until it ends; tell whether all were loaded."""
    say(f"{STEPS + 1} of {STEPS + 1}: the documents, by a run. Waiting for the process that carries it out …")
    options = UploadOptions(collection=collection_name())
    while True:
        run = wait_until(lambda: runs.start_upload(str(MANIFEST), options), failing_with=RunsError, patience=patience)
        status = follow(runs, run, patience=patience)
        if not status.skipped:
            break
        say("A run that was started before is still loading it …")
        time.sleep(5)
    if status.state == "COMPLETED" and not status.counts.quarantined:
        return True
    say(f"The sample was not loaded whole ({status.message}). See the run in Prefect; `make up` tries again.")
    return False


def is_refused(client: carrel.Carrel) -> bool:
    """Tell whether loading would change what isn't the sample's, or is of an earlier one, and name that."""
    hindrances = find_sample(client).hindrances
    if hindrances:
        say(REFUSAL.format("\n    ".join(hindrances)))
    return bool(hindrances)


REFUSAL = """
  The sample was not loaded, because something of its names is here that it would change or can't be loaded into:

    {}

  Rename or remove that, or load the sample into an organization of its own. `python -m sample remove` removes an
  earlier sample.
"""


def remove(client: carrel.Carrel, *, sure: bool) -> None:
    """Say what a removal of the sample removes and what it leaves; then do it, once that is confirmed."""
    state = find_sample(client)
    if state.items:
        say(f"What will go: {count_items(state.items)}. People are offboarded: they can't sign in any more.")
    else:
        say("There are no sample items to remove.")
    for sentence in state.stays:
        say(f"Stays: {sentence}")
    try:
        if not state.items or not (sure or input("Remove it? [y/N] ").strip().lower() in {"y", "yes"}):
            return
    except EOFError:
        sys.exit("\nNothing was removed. Without a terminal, add --yes.")
    number = 0
    try:
        for number, item in enumerate(remove_sample(state), 1):
            say(f"{number:3d} of {len(state.items)}  {item.kind} {item.name}")
    except KeyboardInterrupt as stop:
        words = f"Interrupted. Removed: {number} of {len(state.items)}. `python -m sample remove` removes the rest."
        raise KeyboardInterrupt(words) from stop


def follow(runs: Runs, run: UUID, *, patience: float) -> RunStatus:
    """Show a run's progress, a line whenever it has moved, until it has ended."""
    shown, warned = "", False
    while True:
        status = wait_until(lambda: runs.run_status(run), failing_with=RunsError, patience=patience)
        if not warned and is_left(runs, status):
            say("No flow server is running, so this run waits. Start it with: python -m flows serve")
            warned = True
        if (line := describe(status)) != shown:
            say(line)
            shown = line
        if status.finished:
            return status
        time.sleep(1)


def describe(status: RunStatus) -> str:
    """Return how far a run is: a bar with counts, or what it does before there are any."""
    if not status.counts.to_send:
        return "Reading the documents …" if status.started_at else "Waiting for the run to begin …"
    done = int(status.progress)
    filled = BAR * done // 100
    sent = status.counts.to_send - status.counts.waiting
    waits = f"; {status.waiting_for}" if status.waiting_for else ""
    return f"[{'#' * filled}{'.' * (BAR - filled)}] {done:3d} %  {sent} of {status.counts.to_send} documents{waits}"


def is_left(runs: Runs, status: RunStatus) -> bool:
    """Tell whether nobody has come for a run for longer than whoever does takes to start."""
    if status.due_at is None or (datetime.now(UTC) - status.due_at).total_seconds() < PATIENCE_SECONDS:
        return False
    try:
        return runs.is_left_waiting(status)
    except RunsError:  # it is asked again
        return False


def wait_until(attempt: Callable[[], T], *, failing_with: type[Exception], patience: float) -> T:
    """Return the first true result of `attempt`, tried twice a second; its last error when patience ends."""
    deadline = time.monotonic() + patience
    while True:
        try:
            result = attempt()
        except failing_with:
            if time.monotonic() > deadline:
                raise
        else:
            if result or time.monotonic() > deadline:
                return result
        time.sleep(0.5)


def workbench_url() -> str:
    """Return where the workbench listens."""
    return f"http://127.0.0.1:{os.environ.get('CARREL_APP_PORT', '8501')}"


def say(text: str) -> None:
    """Print at once, also into a pipe."""
    print(text, flush=True)  # noqa: T201 - this is what a person who ran `make up` reads


if __name__ == "__main__":
    main()
