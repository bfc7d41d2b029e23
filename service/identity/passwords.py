"""Passwords as Argon2id hashes (RFC 9106), computed in separate threads so that the event loop never waits."""

import asyncio
import secrets
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from pydantic import SecretStr, TypeAdapter, ValidationError

from carrel.wire.fields import Password

_PASSWORD: TypeAdapter[SecretStr] = TypeAdapter(Password)

# OWASP's recommendation for Argon2id: about 15 ms and 19 MiB a password, so that 1000 users fit in one request.
_HASHER = PasswordHasher(time_cost=2, memory_cost=19_456, parallelism=1)
_THREADS = 2


def accept_password(value: SecretStr | str) -> SecretStr:
    """Return a valid password as a secret. Raises ValueError for a password of a wrong length or with NUL."""
    try:
        return _PASSWORD.validate_python(value)
    except ValidationError as exc:
        raise ValueError("A password has 8 to 1024 characters and no NUL.") from exc


async def hash_password(password: SecretStr) -> str:
    return (await hash_passwords([password]))[0]


async def hash_passwords(passwords: Sequence[SecretStr]) -> list[str]:
    """Return the passwords' Argon2id hashes, in order; only a few are computed at a time."""
    loop = asyncio.get_running_loop()
    texts = (password.get_secret_value() for password in passwords)
    return list(await asyncio.gather(*(loop.run_in_executor(_executor(), _HASHER.hash, text) for text in texts)))


async def verify_password(password: SecretStr, password_hash: str | None) -> bool:
    """Check a password against a hash. Without a hash, return False after an equal time."""
    return await asyncio.get_running_loop().run_in_executor(_executor(), _verify, password, password_hash)


def end_threads() -> None:
    """End the hashing threads until the next password: a process must have none before a fork."""
    _executor().shutdown()
    _executor.cache_clear()


def _verify(password: SecretStr, password_hash: str | None) -> bool:
    try:
        return _HASHER.verify(password_hash or _dummy_hash(), password.get_secret_value()) and password_hash is not None
    except (VerificationError, InvalidHashError):
        return False


@cache
def _dummy_hash() -> str:
    return _HASHER.hash(secrets.token_urlsafe())


@cache
def _executor() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=_THREADS, thread_name_prefix="password")
