"""What `make up` prints when everything is up."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable

from sample.__main__ import GREETING
from tests.harness.services import RunningService

MORE_THAN_ANY_DISK_HAS = 10**18


def test_every_page_of_the_service_that_is_named_is_there(module_service: RunningService) -> None:
    pages = re.findall(r"\{service\}(/\S+)", GREETING)
    assert pages
    assert [module_service.http.get(page).status_code for page in pages] == [200] * len(pages)


def test_a_load_that_is_interrupted_says_what_is_there(service: RunningService) -> None:
    """Ctrl-C while it waits for the run: what was set up is named, and how to go on; the exit code is a shell's."""
    with subprocess.Popen(
        [sys.executable, "-m", "sample", "load"], env=environment_of(service), stdout=subprocess.PIPE, text=True
    ) as loading:
        try:
            assert loading.stdout is not None
            for line in loading.stdout:
                if line.startswith("5 of 5"):
                    break
            loading.send_signal(signal.SIGINT)
            said, _ = loading.communicate(timeout=30)
        finally:
            loading.kill()
    assert loading.returncode == 130
    assert "Interrupted. Loaded: 14 people, 13 groups, the collection Company knowledge, the agent" in said
    assert "`python -m sample load` or the next `make up` brings the rest." in said


def environment_of(service: RunningService) -> dict[str, str]:
    """The environment of `make up`, where no Prefect answers."""
    return os.environ | {
        "CARREL_API_KEY": service.api_key,
        "CARREL_BASE_URL": service.base_url,
        "CARREL_BOOTSTRAP_ADMIN_EMAIL": service.admin_email,
        "PREFECT_API_URL": "http://127.0.0.1:9/api",
    }


def test_a_disk_without_room_for_the_sample_ends_nothing(make_service: Callable[..., RunningService]) -> None:
    """What could not be loaded is said, and the rest goes on: where this ends, all that `make up` started ends."""
    service = make_service(storage_low_bytes=MORE_THAN_ANY_DISK_HAS)
    with subprocess.Popen(
        [sys.executable, "-m", "sample"], env=environment_of(service), stdout=subprocess.PIPE, text=True
    ) as greeter:
        try:
            assert greeter.stdout is not None
            said = ""
            for line in greeter.stdout:
                said += line
                if "the next `make up` has kept it" in line:
                    break
        finally:
            greeter.terminate()
    assert "The sample was not loaded: The disk of the " in said
    assert "Carrel is up." in said
