"""Change the secret key so that a kill at any moment leaves a deployment that starts. The new key is kept beside the
old; a transaction changes all that depends on it; then it takes the old one's place. A start chooses by the database's
fingerprint."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

from pydantic import SecretStr
from sqlalchemy.engine import URL

from service.identity.queries import list_organizations
from service.operate.deployment import key_files, queries
from service.operate.deployment.service import advice, ensure_folder_key, matches
from service.platform.database import enter_organization, owner_transaction
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
        old = rotation.given or await asyncio.to_thread(ensure_folder_key, rotation.data_dir, fingerprint)
        if not matches(old, fingerprint):
            raise WrongSecretKeyError(advice(rotation.data_dir, given=rotation.given is not None))
    new = rotation.new or key_files.new_key()
    if matches(new, fingerprint):
        raise RotationError("The new secret key is the old one. Set CARREL_NEW_SECRET_KEY to another, or not at all.")
    if rotation.given is None:
        await asyncio.to_thread(key_files.write_successor, rotation.data_dir, new)
    return old, new
