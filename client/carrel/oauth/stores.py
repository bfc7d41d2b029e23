"""Stores for the tokens of an application's people, an entry for each session: in memory, or in a folder."""

import hashlib
import os
import stat
import tempfile
import threading
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol
from weakref import WeakValueDictionary

from filelock import FileLock
from pydantic import ValidationError

from carrel._logging import logger
from carrel.errors import ConfigurationError
from carrel.oauth.tokens import Tokens


class TokenStore(Protocol):
    """Tokens by the key of a session; methods block, in any thread. `lock` gives exclusive use of a key across
    processes until its block or process ends: a refresh token is used once. `put` returns when tokens are safe."""

    def get(self, key: str, /) -> Tokens | None:
        """Return the tokens of a session, or None."""
        ...

    def put(self, key: str, tokens: Tokens, /) -> None:
        """Store the tokens of a session and replace older tokens."""
        ...

    def delete(self, key: str, /) -> None:
        """Delete a session's tokens, if any."""
        ...

    def lock(self, key: str, /) -> AbstractContextManager[object]:
        """Lock a session until the block ends. Waits for other holders; not reentrant."""
        ...


class MemoryTokenStore:
    """Tokens in the memory of the process."""

    def __init__(self) -> None:
        self._tokens: dict[str, Tokens] = {}
        # A lock exists while a thread holds it or waits for it.
        self._locks: WeakValueDictionary[str, threading.Lock] = WeakValueDictionary()
        self._finding = threading.Lock()

    def get(self, key: str, /) -> Tokens | None:
        """Return the tokens of a session, or None."""
        return self._tokens.get(key)

    def put(self, key: str, tokens: Tokens, /) -> None:
        """Store the tokens of a session."""
        self._tokens[key] = tokens

    def delete(self, key: str, /) -> None:
        """Delete a session's tokens."""
        self._tokens.pop(key, None)

    def lock(self, key: str, /) -> AbstractContextManager[object]:
        """Lock a session among the threads of the process."""
        with self._finding:
            lock = self._locks.get(key)
            if lock is None:
                lock = self._locks[key] = threading.Lock()
            return lock

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self._tokens)} sessions)"


class FileTokenStore:
    """Tokens in a private folder: an unencrypted file per session, readable by its owner alone (0600), replaced as a
    whole and flushed. Raises ConfigurationError if others may write to the folder, and OSError if the disk fails."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.name == "posix" and self.folder.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise ConfigurationError(f"Other users can write to {self.folder}. Keep tokens in a private folder")

    def get(self, key: str, /) -> Tokens | None:
        """Return the tokens of a session; None if missing or unreadable."""
        try:
            return Tokens.model_validate_json(self._path(key).read_bytes())
        except FileNotFoundError:
            return None
        except ValidationError:
            logger.warning("%s holds no tokens; the person has to sign in again", self._path(key))
            return None

    def put(self, key: str, tokens: Tokens, /) -> None:
        """Store the tokens of a session."""
        replace_private_file(self._path(key), tokens.model_dump_json().encode())

    def delete(self, key: str, /) -> None:
        """Delete a session's tokens."""
        self._path(key).unlink(missing_ok=True)
        _sync_folder(self.folder)

    def lock(self, key: str, /) -> AbstractContextManager[object]:
        """Lock a session among all processes of the machine; the lock ends with the process. Sessions share 256
        permanent lock files, because removing a file would end the locks of waiting processes."""
        name = f"{self._path(key).stem[:2]}.lock"
        return FileLock(self.folder / name, mode=0o600, thread_local=False, fallback_to_soft=False)

    def _path(self, key: str) -> Path:
        """Return the file of a session, named by a digest because a key may contain any character."""
        return self.folder / f"{hashlib.sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()}.json"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.folder)!r})"


def replace_private_file(path: Path, content: bytes) -> None:
    """Replace a file as a whole, readable only by its owner, and flush to disk."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Flush a folder's entries to disk, on systems that can open a folder."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
