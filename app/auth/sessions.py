"""Sessions and unfinished sign-ins, encrypted in a SQLite file shared by all processes of the workbench. Cookies and
states are stored as digests. A session ends after `IDLE` without use, after `LONGEST` in any case, or at sign-out."""

import hashlib
import os
import secrets
import sqlite3
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from uuid import UUID

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from filelock import FileLock
from pydantic import BaseModel, ConfigDict, SecretStr

from carrel.oauth import AuthorizationRequest, Tokens

KEY_BYTES = 32
_NONCE_BYTES = 12


class SealError(Exception):
    """A sealed text has another key or purpose, or was changed."""


class Sealer:
    """Encrypts texts. Each text is bound to its row, so a secret can't be moved to another row."""

    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(key)

    def seal(self, text: str, *, of: str) -> bytes:
        """Return the encrypted text: a random nonce, the ciphertext, and the tag."""
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, text.encode(), of.encode())

    def unseal(self, sealed: bytes, *, of: str) -> str:
        """Decrypt a sealed text. Raises SealError on failure."""
        try:
            return self._cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], of.encode()).decode()
        except (InvalidTag, ValueError) as exc:
            raise SealError from exc


def key_of(given: SecretStr | None, *, kept_in: Path) -> bytes:
    """Return the workbench's key: the given key, else the key in the file, created if the file is missing. A key is
    32 bytes as unpadded or padded base64url, else ValueError. All replicas need an equal key."""
    if given is not None:
        return _decode(given.get_secret_value())
    if kept_in.exists():
        return _decode(kept_in.read_text().strip())
    kept_in.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = urlsafe_b64encode(secrets.token_bytes(KEY_BYTES)).decode()
    draft = kept_in.with_name(f"{kept_in.name}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(fresh)
            file.flush()
            os.fsync(file.fileno())
        # Processes that start at once must share a key: link fails if the name exists; rename would replace the key.
        kept_in.hardlink_to(draft)
    except FileExistsError:
        pass
    finally:
        draft.unlink(missing_ok=True)
    return _decode(kept_in.read_text().strip())


def _decode(text: str) -> bytes:
    try:
        key = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        msg = "CARREL_APP_SECRET_KEY must be 32 random bytes in base64url. Create a key with: openssl rand -base64 32"
        raise ValueError(msg)
    return key


SIGNING_IN = timedelta(minutes=10)
IDLE = timedelta(hours=12)
LONGEST = timedelta(days=14)
_TOUCHED_EVERY = 60.0  # seconds: a page is drawn many times a minute, but its session is noted once
_BUSY_SECONDS = 10.0

_SCHEMA = """
CREATE TABLE IF NOT EXISTS pending (
    state TEXT PRIMARY KEY, browser TEXT NOT NULL, request BLOB NOT NULL, back TEXT NOT NULL, ends_at REAL NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS sessions (
    key TEXT PRIMARY KEY, tokens BLOB, person TEXT NOT NULL, begun_at REAL NOT NULL, seen_at REAL NOT NULL
) STRICT;
"""
_LASTING_SESSION = "SELECT tokens, person, seen_at FROM sessions WHERE key = ? AND seen_at >= ? AND begun_at >= ?"


class Person(BaseModel):
    """A signed-in person, as the service described them at sign-in, without changeable facts (being an admin)."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    id: UUID
    email: str
    name: str
    organization_name: str


@dataclass(frozen=True, slots=True)
class Pending:
    """An unfinished sign-in: the request sent to the service, and the path to return to in the workbench."""

    request: AuthorizationRequest
    back: str


@dataclass(frozen=True, slots=True)
class Session:
    """A sign-in session. `key` names the session in the workbench's store and never appears in a cookie."""

    key: str
    person: Person


class Sessions:
    """The sessions of a workbench, also usable as a carrel.oauth.TokenStore. Safe in any thread and process."""

    def __init__(self, folder: Path, sealer: Sealer) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = folder
        self._sealer = sealer
        with self._connection() as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.executescript(_SCHEMA)

    def begin(self, request: AuthorizationRequest, *, browser: str, back: str) -> None:
        """Store a request until the callback from the same browser, within ten minutes. Delete expired requests."""
        state, now = digest_of(request.state), time.time()
        sealed = self._sealer.seal(request.model_dump_json(), of=state)
        with self._connection() as connection:
            connection.execute("DELETE FROM pending WHERE ends_at < ?", (now,))
            values = (state, digest_of(browser), sealed, back, now + SIGNING_IN.total_seconds())
            connection.execute("INSERT INTO pending VALUES (?, ?, ?, ?, ?)", values)

    def take(self, state: str, *, browser: str) -> Pending | None:
        """Return the request of a state, once. None: the state is unknown, expired, used, or of another browser."""
        key = digest_of(state)
        with self._connection() as connection:
            row = connection.execute(
                "DELETE FROM pending WHERE state = ? AND browser = ? AND ends_at >= ? RETURNING request, back",
                (key, digest_of(browser), time.time()),
            ).fetchone()
        if row is None:
            return None
        try:
            request = AuthorizationRequest.model_validate_json(self._sealer.unseal(row[0], of=key))
        except SealError:
            return None
        return Pending(request, row[1])

    def create(self, tokens: Tokens, person: Person) -> str:
        """Begin a session and return the value of the browser's cookie. Delete expired sessions."""
        cookie, now = secrets.token_urlsafe(32), time.time()
        key = digest_of(cookie)
        values = (key, self._sealer.seal(tokens.model_dump_json(), of=key), person.model_dump_json(), now, now)
        with self._connection() as connection:
            connection.execute("DELETE FROM sessions WHERE seen_at < ? OR begun_at < ?", _time_bounds(now))
            connection.execute("INSERT INTO sessions VALUES (?, ?, ?, ?, ?)", values)
        return cookie

    def find(self, cookie: object) -> Session | None:
        """Return the session of a cookie with any content, and note its use; None without a live session."""
        if not isinstance(cookie, str) or not cookie:
            return None
        key, now = digest_of(cookie), time.time()
        with self._connection() as connection:
            row = connection.execute(_LASTING_SESSION, (key, *_time_bounds(now))).fetchone()
            if row is None:
                return None
            _, person, seen_at = row
            if now - seen_at > _TOUCHED_EVERY:
                connection.execute("UPDATE sessions SET seen_at = ? WHERE key = ?", (now, key))
        return Session(key, Person.model_validate_json(person))

    def lasts(self, key: str) -> bool:
        """Return whether a session is still live. The call isn't a use, so an open page lets the session expire."""
        with self._connection() as connection:
            return connection.execute(_LASTING_SESSION, (key, *_time_bounds(time.time()))).fetchone() is not None

    def get(self, key: str, /) -> Tokens | None:
        """Return a live session's tokens; None after its end, or if an earlier key sealed them."""
        with self._connection() as connection:
            row = connection.execute(_LASTING_SESSION, (key, *_time_bounds(time.time()))).fetchone()
        try:
            return None if row is None else Tokens.model_validate_json(self._sealer.unseal(row[0], of=key))
        except SealError:
            return None

    def put(self, key: str, tokens: Tokens, /) -> None:
        """Store a session's new tokens, unless the session was deleted."""
        sealed = self._sealer.seal(tokens.model_dump_json(), of=key)
        with self._connection() as connection:
            connection.execute("UPDATE sessions SET tokens = ? WHERE key = ?", (sealed, key))

    def delete(self, key: str, /) -> None:
        with self._connection() as connection:
            connection.execute("DELETE FROM sessions WHERE key = ?", (key,))

    def lock(self, key: str, /) -> AbstractContextManager[object]:
        """Return a session's lock for all processes of the machine, not acquired. Sessions share 256 lock files."""
        path = self._folder / f"{key[:2]}.lock"
        return FileLock(path, mode=0o600, thread_local=False, fallback_to_soft=False)

    @contextmanager
    def _connection(self) -> Generator[sqlite3.Connection]:
        """Yield a connection in a transaction. Opening takes microseconds, and threads can't share connections."""
        path = self._folder / "sessions.sqlite"
        connection = sqlite3.connect(path, timeout=_BUSY_SECONDS)
        try:
            with connection:
                yield connection
        finally:
            connection.close()


def _time_bounds(now: float) -> tuple[float, float]:
    return now - IDLE.total_seconds(), now - LONGEST.total_seconds()


def digest_of(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
