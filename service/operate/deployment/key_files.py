"""The secret key and, while it is rotated, its successor; killed anywhere, the file that fits the database stays."""

import os
import secrets
from contextlib import suppress
from pathlib import Path

from pydantic import SecretStr

from service.platform.files import sync

KEY_FILE = "secret.key"
SUCCESSOR_FILE = "secret.key.next"
_RANDOM_BYTES = 32


def new_key() -> SecretStr:
    return SecretStr(secrets.token_urlsafe(_RANDOM_BYTES))


def read_key(data_dir: Path) -> SecretStr | None:
    """Return the folder's key; None when it has none."""
    return _read(data_dir / KEY_FILE)


def read_successor(data_dir: Path) -> SecretStr | None:
    """Return the key that an interrupted rotation was changing to; None when there is none."""
    return _read(data_dir / SUCCESSOR_FILE)


def keep_key(data_dir: Path, key: SecretStr) -> SecretStr:
    """Store `key` as the folder's, unless it has one by now; return the folder's key."""
    partial = _write_aside(data_dir, key)
    with suppress(FileExistsError):
        (data_dir / KEY_FILE).hardlink_to(partial)
    partial.unlink()
    sync(data_dir)
    return read_key(data_dir) or key


def write_successor(data_dir: Path, key: SecretStr) -> None:
    """Store the new key beside the folder's key; durable when this returns."""
    _write_aside(data_dir, key).replace(data_dir / SUCCESSOR_FILE)
    sync(data_dir)


def promote_successor(data_dir: Path) -> None:
    (data_dir / SUCCESSOR_FILE).replace(data_dir / KEY_FILE)
    sync(data_dir)


def drop_successor(data_dir: Path) -> None:
    (data_dir / SUCCESSOR_FILE).unlink(missing_ok=True)


def _read(path: Path) -> SecretStr | None:
    try:
        return SecretStr(path.read_text().strip())
    except FileNotFoundError:
        return None


def _write_aside(data_dir: Path, key: SecretStr) -> Path:
    partial = data_dir / f"{KEY_FILE}.{secrets.token_hex(4)}"
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(key.get_secret_value())
        file.flush()
        os.fsync(descriptor)
    return partial
