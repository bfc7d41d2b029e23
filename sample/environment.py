"""Write the settings `make up` starts with: secrets of this machine's own, made once."""

import os
import secrets
import sys
from pathlib import Path

TEMPLATE = """\
# Made by `make up`. The admin and the key below are created on the first start, on an empty database.
CARREL_BOOTSTRAP_ADMIN_EMAIL=admin@northlight.example
CARREL_BOOTSTRAP_ADMIN_PASSWORD={password}
CARREL_BOOTSTRAP_API_KEY={api_key}
"""


def write_environment(path: Path) -> None:
    """Create `path`, readable by its owner alone; an existing file is left as it is."""
    text = TEMPLATE.format(password=secrets.token_urlsafe(15), api_key=f"svc_key_{secrets.token_hex(24)}")
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return
    with os.fdopen(descriptor, "w") as file:
        file.write(text)


if __name__ == "__main__":
    write_environment(Path(sys.argv[1]))
