"""Write the settings `make up` starts with: addresses on this machine, and secrets of its own, made once."""

import os
import secrets
import sys
from pathlib import Path

TEMPLATE = """\
# Made by `make up`. The admin and the key are created on the first start, on an empty database.
CARREL_BOOTSTRAP_ADMIN_EMAIL=admin@northlight.example
CARREL_BOOTSTRAP_ADMIN_PASSWORD={password}
CARREL_BOOTSTRAP_API_KEY={api_key}

# What everybody in the sample organization signs in with.
CARREL_SAMPLE_PASSWORD={sample_password}

# What the flows, the workbench and your own scripts use.
CARREL_BASE_URL=http://127.0.0.1:8000
CARREL_API_KEY={api_key}
CARREL_WORKBENCH_URL=http://127.0.0.1:8501
PREFECT_API_URL=http://127.0.0.1:4200/api

# INFO tells every request, too.
CARREL_LOG_LEVEL=WARNING
"""


def write_environment(path: Path) -> None:
    """Create `path`, readable by its owner alone; an existing file is left as it is."""
    password, sample_password = secrets.token_urlsafe(15), secrets.token_urlsafe(15)
    api_key = f"svc_key_{secrets.token_hex(24)}"
    text = TEMPLATE.format(password=password, api_key=api_key, sample_password=sample_password)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return
    with os.fdopen(descriptor, "w") as file:
        file.write(text)


if __name__ == "__main__":
    write_environment(Path(sys.argv[1]))
