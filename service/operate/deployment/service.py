"""The secret key of a deployment: the one whose fingerprint is in its database."""

import asyncio
import hmac
from pathlib import Path

from pydantic import SecretStr

from service.operate.deployment import key_files, queries
from service.platform.database import Database
from service.platform.deployment_errors import WrongSecretKeyError
from service.platform.keys import Keys


async def ensure_secret_key(database: Database, *, given: SecretStr | None, data_dir: Path) -> SecretStr:
    """Return the secret key to serve with: `given`, or the data folder's, made on first start. Finishes or undoes an
    interrupted rotation. Raises WrongSecretKeyError unless it is the database's."""
    async with database.transaction(None) as connection:
        wanted = await queries.key_fingerprint(connection)
    key = given or await asyncio.to_thread(ensure_folder_key, data_dir, wanted)
    if wanted is None:
        async with database.transaction(None) as connection:
            await queries.insert_key_fingerprint(connection, fingerprint=Keys(key).fingerprint)
            wanted = await queries.key_fingerprint(connection)
    if not matches(key, wanted):
        raise WrongSecretKeyError(advice(data_dir, given=given is not None))
    return key


def matches(key: SecretStr | None, fingerprint: bytes | None) -> bool:
    return key is not None and fingerprint is not None and hmac.compare_digest(Keys(key).fingerprint, fingerprint)


def ensure_folder_key(data_dir: Path, wanted: bytes | None) -> SecretStr:
    """Return the data folder's key after finishing a rotation; blocks. Without a fingerprint, a missing key is created.
    Raises WrongSecretKeyError when the key is gone."""
    if matches(key_files.read_successor(data_dir), wanted):
        key_files.promote_successor(data_dir)
    elif matches(key_files.read_key(data_dir), wanted):
        key_files.drop_successor(data_dir)
    key = key_files.read_key(data_dir)
    if key is None and wanted is not None:
        raise WrongSecretKeyError(advice(data_dir, given=False))
    return key or key_files.keep_key(data_dir, key_files.new_key())


def advice(data_dir: Path, *, given: bool) -> str:
    """Return a text that says what to do about a wrong key, which is either `given` or the data folder's."""
    what = "CARREL_SECRET_KEY" if given else f"The secret key in {data_dir}"
    return (
        f"{what} is not the one this database was set up with. Set the same CARREL_SECRET_KEY on every replica, or put"
        f" {key_files.KEY_FILE} back from a backup. To change the key, run `python -m service rotate-key` with the old"
        " one in its place; if the old one is lost, `python -m service rotate-key --lost`."
    )
