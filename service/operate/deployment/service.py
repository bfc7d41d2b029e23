"""The secret key of a deployment, its rotation, and the marks of restores and standbys. A rotation stores the new key
next to the old key, changes all data in one transaction, and then removes the old key. So the deployment can start
after a kill at any point."""

import asyncio
import hmac
import os
import secrets
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pydantic import SecretStr
from sqlalchemy.engine import URL

from service.identity.queries import list_organizations
from service.operate.deployment import queries
from service.platform.database import Database, enter_organization, owner_transaction
from service.platform.deployment_errors import RotationError, UnfinishedRestoreError, WrongSecretKeyError
from service.platform.files import sync
from service.platform.secrets import Keys

KEY_FILE = "secret.key"
SUCCESSOR_FILE = "secret.key.next"
_RANDOM_BYTES = 32


def new_key() -> SecretStr:
    return SecretStr(secrets.token_urlsafe(_RANDOM_BYTES))


def read_key(data_dir: Path) -> SecretStr | None:
    return _read(data_dir / KEY_FILE)


def read_successor(data_dir: Path) -> SecretStr | None:
    """Return the new key of an interrupted rotation; None without a rotation."""
    return _read(data_dir / SUCCESSOR_FILE)


def keep_key(data_dir: Path, key: SecretStr) -> SecretStr:
    """Store `key` as the folder's, unless a key exists; return the folder's key."""
    partial = _write_temporary(data_dir, key)
    with suppress(FileExistsError):
        (data_dir / KEY_FILE).hardlink_to(partial)
    partial.unlink()
    sync(data_dir)
    return read_key(data_dir) or key


def write_successor(data_dir: Path, key: SecretStr) -> None:
    """Store the new key next to the folder's key; durable on return."""
    _write_temporary(data_dir, key).replace(data_dir / SUCCESSOR_FILE)
    sync(data_dir)


def promote_successor(data_dir: Path) -> None:
    (data_dir / SUCCESSOR_FILE).replace(data_dir / KEY_FILE)
    sync(data_dir)


def _read(path: Path) -> SecretStr | None:
    try:
        return SecretStr(path.read_text().strip())
    except FileNotFoundError:
        return None


def _write_temporary(data_dir: Path, key: SecretStr) -> Path:
    partial = data_dir / f"{KEY_FILE}.{secrets.token_hex(4)}"
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(key.get_secret_value())
        file.flush()
        os.fsync(descriptor)
    return partial


@dataclass(frozen=True)
class Rotation:
    """The old key if in the environment, the `new` key (None: create), and whether the old key `is_lost`."""

    data_dir: Path
    given: SecretStr | None
    new: SecretStr | None
    is_lost: bool = False


async def rotate_secret_key(owner: URL, rotation: Rotation) -> bool:
    """Change the key; False if already done. No service may be running. Raises RotationError, WrongSecretKeyError."""
    if rotation.given is not None and rotation.new is None:
        raise RotationError(
            "CARREL_SECRET_KEY is set, so the new key must be set too. Set CARREL_NEW_SECRET_KEY to at least 32 random "
            "characters, for example from `openssl rand -hex 32`."
        )
    async with owner_transaction(owner) as connection:
        fingerprint = await queries.lock_key_fingerprint(connection)
        if fingerprint is None:
            raise RotationError("This database has no secret key yet. Start the service once to create the key.")
        if await queries.count_services(connection):
            raise RotationError("A service or command is connected to the database. Stop it on every machine first.")
        if rotation.given is not None and matches(rotation.new, fingerprint):
            return False
        old, new = await _prepare_keys(rotation, fingerprint)
        # In one transaction, the fingerprint last; page tokens become invalid.
        for row in await list_organizations(connection):
            await enter_organization(connection, row.organization_id)
            await queries.reseal_secrets(connection, row.organization_id, old=Keys(old) if old else None, new=Keys(new))
        await queries.replace_key_fingerprint(connection, fingerprint=Keys(new).fingerprint)
    if rotation.given is None:
        await asyncio.to_thread(promote_successor, rotation.data_dir)
    return True


async def _prepare_keys(rotation: Rotation, fingerprint: bytes) -> tuple[SecretStr | None, SecretStr]:
    old: SecretStr | None = None
    if not rotation.is_lost:
        old = rotation.given or await asyncio.to_thread(_ensure_folder_key, rotation.data_dir, fingerprint)
        if not matches(old, fingerprint):
            raise WrongSecretKeyError(_advice(rotation.data_dir, given=rotation.given is not None))
    new = rotation.new or new_key()
    if matches(new, fingerprint):
        raise RotationError("The new secret key equals the old key. Change or unset CARREL_NEW_SECRET_KEY.")
    if rotation.given is None:
        await asyncio.to_thread(write_successor, rotation.data_dir, new)
    return old, new


async def ensure_secret_key(database: Database, *, given: SecretStr | None, data_dir: Path) -> SecretStr:
    """Return the key: `given`, or the data folder's, after finishing a rotation; without either, make a key. A new
    database records the key's fingerprint. Raises WrongSecretKeyError for a key of another database."""
    async with database.transaction(None) as connection:
        wanted = await queries.key_fingerprint(connection)
    key = given or await asyncio.to_thread(_ensure_folder_key, data_dir, wanted)
    if wanted is None:
        async with database.transaction(None) as connection:
            await queries.insert_key_fingerprint(connection, fingerprint=Keys(key).fingerprint)
            wanted = await queries.key_fingerprint(connection)
    if not matches(key, wanted):
        raise WrongSecretKeyError(_advice(data_dir, given=given is not None))
    return key


def matches(key: SecretStr | None, fingerprint: bytes | None) -> bool:
    return key is not None and fingerprint is not None and hmac.compare_digest(Keys(key).fingerprint, fingerprint)


def _ensure_folder_key(data_dir: Path, wanted: bytes | None) -> SecretStr:
    """Return the folder's key, made if missing, after finishing a rotation; blocks. Raises WrongSecretKeyError if the
    key of a database (`wanted`) is missing; the caller checks an existing key."""
    if matches(read_successor(data_dir), wanted):
        promote_successor(data_dir)
    elif matches(read_key(data_dir), wanted):
        (data_dir / SUCCESSOR_FILE).unlink(missing_ok=True)
    key = read_key(data_dir)
    if key is None and wanted is not None:
        raise WrongSecretKeyError(_advice(data_dir, given=False))
    return key or keep_key(data_dir, new_key())


def _advice(data_dir: Path, *, given: bool) -> str:
    source = "CARREL_SECRET_KEY" if given else f"The secret key in {data_dir}"
    return (
        f"{source} does not belong to this database. Set the same CARREL_SECRET_KEY on every replica, or restore "
        f"{KEY_FILE} from a backup. To change the key, put the old key back and run `python -m service rotate-key`. If "
        "the old key is lost, run `python -m service rotate-key --lost`."
    )


_MARK = "restore.unfinished"
_STANDBY = "standby.archive"
_PROMOTE = "standby.promote"


def set_mark(data_dir: Path) -> None:
    """Mark a data folder as being restored; durable on return."""
    (data_dir / _MARK).touch(mode=0o600)
    sync(data_dir)


def remove_mark(data_dir: Path) -> None:
    (data_dir / _MARK).unlink()
    sync(data_dir)


def is_marked(data_dir: Path) -> bool:
    """Return whether a restore is filling the folder, or was interrupted there."""
    return (data_dir / _MARK).exists()


def set_standby(data_dir: Path, archive: str) -> None:
    """Mark a data folder as a standby of an archive; durable on return."""
    (data_dir / _STANDBY).write_text(archive)
    sync(data_dir)


def remove_standby(data_dir: Path) -> None:
    for name in (_STANDBY, _PROMOTE):
        (data_dir / name).unlink(missing_ok=True)
    sync(data_dir)


def ask_promotion(data_dir: Path) -> None:
    (data_dir / _PROMOTE).touch(mode=0o600)


def is_promotion_asked(data_dir: Path) -> bool:
    return (data_dir / _PROMOTE).exists()


def read_standby(data_dir: Path) -> str | None:
    """Return the archive followed by a standby; None unless the folder is a standby."""
    try:
        return (data_dir / _STANDBY).read_text()
    except FileNotFoundError:
        return None


def refuse_marked(data_dir: Path) -> None:
    """Raise UnfinishedRestoreError if the folder is a standby, or a restore is filling it or was interrupted there."""
    if read_standby(data_dir) is not None:
        raise UnfinishedRestoreError(
            f"{data_dir} is a standby. To make it a deployment of its own, run `python -m service promote`."
        )
    if is_marked(data_dir):
        raise UnfinishedRestoreError(
            f"A restore into {data_dir} is running or was interrupted. Wait for it, or run it again: it begins from "
            "the start. Empty an external database first."
        )
