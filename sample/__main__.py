"""`python -m sample`: load the sample organization once, through the bulk-upload flow, and print the addresses.

The Procfile starts it. The Procfile's processes end together, so it waits until it is stopped. `python -m sample load`
and `python -m sample remove` end when they are done.
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
# `make up` watches the parts and stops them all when one ends, so there is no reason to give up earlier.
ENDLESS = float("inf")
BUSY_SECONDS = 3
BAR = 40


def main() -> None:
    """Parse the command and run it."""
    parser = argparse.ArgumentParser(prog="python -m sample", description="The sample organization.")
    parser.add_argument(
        "what", nargs="?", choices=("load", "remove"), help="default: load once, print the addresses and wait"
    )
    parser.add_argument("--yes", action="store_true", help="remove without asking")
    chosen = parser.parse_args()
    for number in ENDING:
        signal.signal(number, signal.default_int_handler)
    try:
        carry_out(chosen.what, sure=chosen.yes)
    except KeyboardInterrupt as stop:
        if what_is_there := str(stop):
            say(what_is_there)
        # `make up` stops its processes in this way, so it isn't a failure.
        sys.exit(128 + signal.SIGINT if chosen.what else 0)


def carry_out(what: str | None, *, sure: bool) -> None:
    """Load and exit; remove and exit; or load, print the addresses and wait."""
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
    # Only waiting is left. A bare Python does that with a few megabytes.
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    waiting = f"import signal; signal.sigwait({[*map(int, ENDING)]})"
    os.execv(sys.executable, [sys.executable, "-ISc", waiting])  # noqa: S606 - it is this program again


def start(client: carrel.Carrel, runs: Runs) -> None:
    """Load the sample unless it was loaded completely, then rename the organization."""
    while True:
        try:
            if not is_loaded(client) and not is_refused(client) and load(client, runs, patience=ENDLESS):
                client.admin.organization.update(name=NAME)
        except carrel.AuthenticationError:
            sys.exit(STRANGE_KEY)
        except (carrel.APIConnectionError, carrel.ServerError, carrel.RateLimitError) as error:
            if isinstance(error, carrel.ServerError) and error.status != 503:
                # The other parts work without the sample, so they keep running.
                say(f"The sample was not loaded ({error}). `make up` tries again.")
                return
            say(f"The service is busy. Loading the sample continues in {BUSY_SECONDS} s ({error}).")
            time.sleep(BUSY_SECONDS)
            continue
        return


GREETING = """
  Carrel is up.

    Workbench   {workbench}
    Service     {service}/openapi.json      CARREL_API_KEY is in .env
    Prefect     {prefect}

  Sign in as the admin ({CARREL_BOOTSTRAP_ADMIN_EMAIL}), or as a person of the sample, such as the apprentice
  Jonas (jonas.abara@northlight.example). The passwords are in .env. Each person finds only documents they can read.
  Press Ctrl-C to stop Carrel. Your data is kept for the next `make up`.
"""


STRANGE_KEY = """
  The API key in .env doesn't belong to the organization in the data folder. The data folder was created with another
  .env file, for example by another copy of Carrel on this machine. Restore that .env file, or give this copy its own
  data folder in .env: CARREL_DATA_DIR=/path/to/folder
"""


def load(client: carrel.Carrel, runs: Runs, *, patience: float) -> bool:
    """Set up the organization and load the documents. Return whether everything was loaded."""
    say("Loading the sample organization …")
    loaded: list[str] = []
    try:
        for done in set_up_by_steps(client, password=os.environ.get("CARREL_SAMPLE_PASSWORD")):
            loaded.append(done)
            say(f"{len(loaded)} of {STEPS + 1}: {done}")
        return load_documents(runs, patience=patience)
    except KeyboardInterrupt as stop:
        there = ", ".join(loaded) or "nothing yet"
        rest = " A run that has started continues to load documents." if len(loaded) == STEPS else ""
        again = "`python -m sample load` or the next `make up` loads the rest."
        raise KeyboardInterrupt(f"Interrupted. Loaded: {there}.{rest} {again}") from stop


def load_documents(runs: Runs, *, patience: float) -> bool:
    """Start the flow that loads the documents, and print its progress. Return whether all documents were loaded."""
    say(f"{STEPS + 1} of {STEPS + 1}: the documents. Waiting for the run to start …")
    options = UploadOptions(collection=collection_name())
    while True:
        run = wait_until(lambda: runs.start_upload(str(MANIFEST), options), failing_with=RunsError, patience=patience)
        status = follow(runs, run, patience=patience)
        if not status.skipped:
            break
        say("An earlier run is still loading the sample …")
        time.sleep(5)
    if status.state == "COMPLETED" and not status.counts.quarantined:
        return True
    say(f"The sample was not loaded completely ({status.message}). See the run in Prefect. `make up` tries again.")
    return False


def is_refused(client: carrel.Carrel) -> bool:
    """Return whether loading would change items that aren't the sample's or are an earlier sample's. Print them."""
    hindrances = find_sample(client).hindrances
    if hindrances:
        say(REFUSAL.format("\n    ".join(hindrances)))
    return bool(hindrances)


REFUSAL = """
  The sample was not loaded. It would change these items, which have the names of sample items:

    {}

  Rename or remove them, or load the sample into another organization. `python -m sample remove` removes an earlier
  sample.
"""


def remove(client: carrel.Carrel, *, sure: bool) -> None:
    """Print which items a removal deletes and which it keeps, ask for confirmation, and remove the sample."""
    state = find_sample(client)
    if state.items:
        say(f"This removes {count_items(state.items)}. People are offboarded: they can no longer sign in.")
    else:
        say("There are no sample items to remove.")
    for sentence in state.stays:
        say(f"Kept: {sentence}")
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
    """Print a run's progress, a line for each change, until the run ends."""
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
    """Return a run's progress: a bar with counts, or its state before the first count."""
    if not status.counts.to_send:
        return "Reading the documents …" if status.started_at else "Waiting for the run to begin …"
    done = int(status.progress)
    filled = BAR * done // 100
    sent = status.counts.to_send - status.counts.waiting
    waits = f"; {status.waiting_for}" if status.waiting_for else ""
    return f"[{'#' * filled}{'.' * (BAR - filled)}] {done:3d} %  {sent} of {status.counts.to_send} documents{waits}"


def is_left(runs: Runs, status: RunStatus) -> bool:
    """Return whether no flow server has taken a run for longer than a server takes to start."""
    if status.due_at is None or (datetime.now(UTC) - status.due_at).total_seconds() < PATIENCE_SECONDS:
        return False
    try:
        return runs.is_left_waiting(status)
    except RunsError:  # the next call asks again
        return False


def wait_until(attempt: Callable[[], T], *, failing_with: type[Exception], patience: float) -> T:
    """Call `attempt` twice a second and return its first true result. Raise its last error after `patience` seconds."""
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
    """Return the address of the workbench."""
    return f"http://127.0.0.1:{os.environ.get('CARREL_APP_PORT', '8501')}"


def say(text: str) -> None:
    """Print without buffering, also into a pipe."""
    print(text, flush=True)  # noqa: T201 - people who run `make up` read it


if __name__ == "__main__":
    main()
