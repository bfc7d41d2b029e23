"""Write the first `.env` of `make up`: addresses on this machine, and new secrets."""

import os
import secrets
import shlex
import sys
from pathlib import Path

TEMPLATE = """\
# Made by `make up`. The admin and the key are created on the first start, on an empty database.
CARREL_BOOTSTRAP_ADMIN_EMAIL=admin@northlight.example
CARREL_BOOTSTRAP_ADMIN_PASSWORD={password}
CARREL_BOOTSTRAP_API_KEY={api_key}

# The password of all people in the sample organization.
CARREL_SAMPLE_PASSWORD={sample_password}

# Addresses and key for the flows, the workbench and your scripts.
{given}CARREL_BASE_URL=http://127.0.0.1:{service}
CARREL_API_KEY={api_key}
CARREL_WORKBENCH_URL=http://127.0.0.1:{workbench}
PREFECT_API_URL={prefect}

# With INFO, the log has a line for each request.
CARREL_LOG_LEVEL=WARNING
"""


def write_environment(path: Path) -> None:
    """Create `path`, readable only by its owner, with ports and folders of the environment. Keep an existing file."""
    password, sample_password = secrets.token_urlsafe(15), secrets.token_urlsafe(15)
    api_key = f"svc_key_{secrets.token_hex(24)}"
    given = {name: port for name in ("CARREL_PORT", "CARREL_APP_PORT") if (port := os.environ.get(name))}
    # A run from another shell needs the ledgers in the data folder.
    for name in ("CARREL_DATA_DIR", "CARREL_APP_DIR"):
        if folder := os.environ.get(name):
            given[name] = shlex.quote(str(Path(folder).absolute()))
    text = TEMPLATE.format(
        password=password,
        api_key=api_key,
        sample_password=sample_password,
        given="".join(f"{name}={value}\n" for name, value in given.items()),
        service=given.get("CARREL_PORT", "8000"),
        workbench=given.get("CARREL_APP_PORT", "8501"),
        prefect=os.environ.get("PREFECT_API_URL") or "http://127.0.0.1:4200/api",
    )
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return
    with os.fdopen(descriptor, "w") as file:
        file.write(text)


if __name__ == "__main__":
    write_environment(Path(sys.argv[1]))
