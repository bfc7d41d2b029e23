"""The secret key of a deployment: the one whose fingerprint is in its database. It changes so that a kill at any moment
leaves a deployment that starts: the new key is kept beside the old; a transaction changes all that depends on it; then
it takes the old one's place."""

import asyncio
import hmac
from dataclasses import dataclass
from pathlib import Path

from pydantic import SecretStr
from sqlalchemy.engine import URL

from service.identity.queries import list_organizations
from service.operate.deployment import key_files, queries
from service.platform.database import Database, enter_organization, owner_transaction
from service.platform.deployment_errors import RotationError, WrongSecretKeyError
from service.platform.keys import Keys


@dataclass(frozen=True)
class Rotation:
    """The keys: the old if the environment gives it, the `new` one (None: create it), and whether the old `is_lost`."""

    data_dir: Path
    given: SecretStr | None
    new: SecretStr | None
    is_lost: bool = False


async def rotate_secret_key(owner: URL, rotation: Rotation) -> bool:
    """Change the key, as the database's owner; False if `new` is already in place. No service may run. Raises
    RotationError, or WrongSecretKeyError if the old key isn't the database's."""
    if rotation.given is not None and rotation.new is None:
        raise RotationError(
            "CARREL_SECRET_KEY is set, so the new key must be too: set CARREL_NEW_SECRET_KEY to at least 32 random"
            " characters, such as `openssl rand -hex 32` prints."
        )
    async with owner_transaction(owner) as connection:
        fingerprint = await queries.lock_key_fingerprint(connection)
        if fingerprint is None:
            raise RotationError("This database has no secret key yet. The first start of the service gives it one.")
        if await queries.count_services(connection):
            raise RotationError("A service or command is connected to the database. Stop it first, on every machine.")
        if rotation.given is not None and matches(rotation.new, fingerprint):
            return False
        old, new = await _prepare(rotation, fingerprint)
        # In one transaction, the fingerprint last; page tokens become invalid.
        for row in await list_organizations(connection):
            await enter_organization(connection, row.organization_id)
            await queries.reseal_secrets(connection, row.organization_id, old=Keys(old) if old else None, new=Keys(new))
        await queries.replace_key_fingerprint(connection, fingerprint=Keys(new).fingerprint)
    if rotation.given is None:
        await asyncio.to_thread(key_files.promote_successor, rotation.data_dir)
    return True


async def _prepare(rotation: Rotation, fingerprint: bytes) -> tuple[SecretStr | None, SecretStr]:
    old: SecretStr | None = None
    if not rotation.is_lost:
        old = rotation.given or await asyncio.to_thread(_ensure_folder_key, rotation.data_dir, fingerprint)
        if not matches(old, fingerprint):
            raise WrongSecretKeyError(_advice(rotation.data_dir, given=rotation.given is not None))
    new = rotation.new or key_files.new_key()
    if matches(new, fingerprint):
        raise RotationError("The new secret key is the old one. Set CARREL_NEW_SECRET_KEY to another, or not at all.")
    if rotation.given is None:
        await asyncio.to_thread(key_files.write_successor, rotation.data_dir, new)
    return old, new


async def ensure_secret_key(database: Database, *, given: SecretStr | None, data_dir: Path) -> SecretStr:
    """Return the secret key to serve with: `given`, or the data folder's, made on first start. Finishes or undoes an
    interrupted rotation. Raises WrongSecretKeyError unless it is the database's."""
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
    """Return the data folder's key after finishing a rotation; blocks. Without a fingerprint, a missing key is created.
    Raises WrongSecretKeyError when the key is gone."""
    if matches(key_files.read_successor(data_dir), wanted):
        key_files.promote_successor(data_dir)
    elif matches(key_files.read_key(data_dir), wanted):
        key_files.drop_successor(data_dir)
    key = key_files.read_key(data_dir)
    if key is None and wanted is not None:
        raise WrongSecretKeyError(_advice(data_dir, given=False))
    return key or key_files.keep_key(data_dir, key_files.new_key())


def _advice(data_dir: Path, *, given: bool) -> str:
    """Return a text that says what to do about a wrong key, which is either `given` or the data folder's."""
    what = "CARREL_SECRET_KEY" if given else f"The secret key in {data_dir}"
    return (
        f"{what} is not the one this database was set up with. Set the same CARREL_SECRET_KEY on every replica, or put"
        f" {key_files.KEY_FILE} back from a backup. To change the key, run `python -m service rotate-key` with the old"
        " one in its place; if the old one is lost, `python -m service rotate-key --lost`."
    )
