"""The output of `make up` when all is started."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from dotenv import dotenv_values

from sample.__main__ import GREETING
from sample.environment import write_environment
from tests.harness.services import RunningService

MORE_THAN_ANY_DISK_HAS = 10**18


def test_every_page_of_the_service_that_is_named_is_there(module_service: RunningService) -> None:
    pages = re.findall(r"\{service\}(/\S+)", GREETING)
    assert pages
    assert [module_service.http.get(page).status_code for page in pages] == [200] * len(pages)


@contextmanager
def reading_to(service: RunningService, *arguments: str, line: str) -> Generator[tuple["subprocess.Popen[str]", str]]:
    environment = os.environ | {
        "CARREL_API_KEY": service.api_key,
        "CARREL_BASE_URL": service.base_url,
        "CARREL_BOOTSTRAP_ADMIN_EMAIL": service.admin_email,
        "PREFECT_API_URL": "http://127.0.0.1:9/api",
    }
    command = [sys.executable, "-m", "sample", *arguments]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            said = ""
            while line not in said and (more := process.stdout.readline()):
                said += more
            yield process, said
        finally:
            process.kill()


def test_a_load_that_is_interrupted_says_what_is_there(service: RunningService) -> None:
    with reading_to(service, "load", line="5 of 5") as (loading, _):
        loading.send_signal(signal.SIGINT)
        said, _ = loading.communicate(timeout=30)
    assert loading.returncode == 130
    assert "Interrupted. Loaded: 14 people, 13 groups, the collection Company knowledge, the agent" in said
    assert "`python -m sample load` or the next `make up` loads the rest." in said


def test_a_disk_without_room_for_the_sample_ends_nothing(make_service: Callable[..., RunningService]) -> None:
    """An error would end all processes of `make up`."""
    service = make_service(storage_low_bytes=MORE_THAN_ANY_DISK_HAS)
    with reading_to(service, line="kept for the next `make up`") as (_, said):
        assert "The sample was not loaded (The disk of the " in said
        assert "Carrel is up." in said


def test_the_first_settings_have_the_given_port_and_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CARREL_PORT", "8711")
    monkeypatch.setenv("CARREL_DATA_DIR", "my data")
    write_environment(tmp_path / ".env")
    settings = dotenv_values(tmp_path / ".env")
    assert (settings["CARREL_PORT"], settings["CARREL_BASE_URL"]) == ("8711", "http://127.0.0.1:8711")
    assert settings["CARREL_DATA_DIR"] == str(tmp_path / "my data")
