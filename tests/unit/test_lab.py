"""`make lab`: JupyterLab's settings and error messages; and the ports of `make up`."""

import re
import socket
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

from sample.ports import find_taken_ports
from scripts.lab import environment_of, find_problem
from tests.client.server import json_answer, refuse, serving

ROOT = Path(__file__).parents[2]
PINNED = re.compile(r"^([a-z0-9-]+)==([^ ]+)", re.MULTILINE)


def test_kernels_get_the_address_and_the_key_and_no_passwords(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / ".env").write_text(
        "# Made\nCARREL_BOOTSTRAP_API_KEY=svc_key_x\nCARREL_SAMPLE_PASSWORD=secret\n"
        "CARREL_BASE_URL=http://127.0.0.1:8000\nCARREL_API_KEY=svc_key_y\n"
        "CARREL_SECRET_KEY=secret\nCARREL_DATABASE_URL=postgresql://carrel:secret@db/carrel\nCARREL_MODEL_API_KEY=secret\n"
    )
    monkeypatch.setenv("CARREL_BASE_URL", "https://carrel.example.com")
    environment = environment_of(tmp_path / ".env")
    assert environment["CARREL_API_KEY"] == "svc_key_y"
    assert environment["CARREL_BASE_URL"] == "https://carrel.example.com"
    assert not {"CARREL_BOOTSTRAP_API_KEY", "CARREL_SAMPLE_PASSWORD"} & environment.keys()
    assert not {"CARREL_SECRET_KEY", "CARREL_DATABASE_URL", "CARREL_MODEL_API_KEY"} & environment.keys()
    assert environment_of(tmp_path / "missing")["CARREL_BASE_URL"] == "https://carrel.example.com"


def test_without_a_service_it_says_how_to_start_one() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
    command = [sys.executable, "-m", "scripts.lab"]
    environment = {"CARREL_BASE_URL": address, "CARREL_API_KEY": "svc_key_x"}
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr == (
        f"Carrel doesn't answer at {address}. Start it with `make up` in another shell, and then `make lab` again.\n"
    )


def test_a_service_that_refuses_is_told_from_one_that_is_gone() -> None:
    with serving() as server:
        environment = {"CARREL_BASE_URL": server.base_url, "CARREL_API_KEY": "svc_key_x"}
        server.will(refuse(401))
        assert "doesn't take the key" in (find_problem(environment) or "")
        server.will(refuse(503, message="Starting."))
        assert "Starting." in (find_problem(environment) or "")
        organization = {"organizationId": str(uuid4()), "name": "Northlight", "domain": "northlight.example"}
        server.will(json_answer({**organization, "serviceAccountsEnabled": True}))
        assert find_problem(environment) is None
        assert "CARREL_API_KEY" in (find_problem({"CARREL_BASE_URL": server.base_url}) or "")


def test_the_lock_of_jupyterlab_only_adds_to_the_other() -> None:
    base, added = (
        dict(PINNED.findall((ROOT / name).read_text())) for name in ("requirements.lock", "requirements-lab.lock")
    )
    assert "jupyterlab" in added
    assert len(base) > 100
    assert not base.keys() & added.keys()


def test_taken_port_is_named_with_the_settings_that_change_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_server(("127.0.0.1", 0)) as other:
        taken, free = listener.getsockname()[1], other.getsockname()[1]
        other.close()
        (line,) = find_taken_ports(
            {"CARREL_PORT": str(free), "CARREL_APP_PORT": str(free), "PREFECT_API_URL": f"http://127.0.0.1:{taken}/api"}
        )
    assert f"Port {taken}, for Prefect," in line
    assert "PREFECT_API_URL" in line
