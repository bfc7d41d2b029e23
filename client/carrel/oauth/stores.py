"""Stores for the tokens of an application's people, one entry for each session."""

import threading
from contextlib import AbstractContextManager
from typing import Protocol
from weakref import WeakValueDictionary

from carrel.oauth.tokens import Tokens


class TokenStore(Protocol):
    """Tokens by the key of a session; the methods block, and may be called in any thread.

    `lock` excludes all others from a key, in every process that shares the store, until its block ends or the process
    dies: tokens are refreshed under it, each refresh token once. `put` returns when the tokens are safe.
    """

    def get(self, key: str, /) -> Tokens | None:
        """Return the tokens of a session, None when there are none."""
        ...

    def put(self, key: str, tokens: Tokens, /) -> None:
        """Store the tokens of a session, in place of older ones."""
        ...

    def delete(self, key: str, /) -> None:
        """Delete a session's tokens, if there are any."""
        ...

    def lock(self, key: str, /) -> AbstractContextManager[object]:
        """Lock a session until the block ends; waits for others, and is not reentrant."""
        ...


class MemoryTokenStore:
    """Tokens in the memory of this process."""

    def __init__(self) -> None:
        self._tokens: dict[str, Tokens] = {}
        # A lock lives as long as somebody holds it or waits for it.
        self._locks: WeakValueDictionary[str, threading.Lock] = WeakValueDictionary()
        self._finding = threading.Lock()

    def get(self, key: str, /) -> Tokens | None:
        """Return the tokens of a session, None when there are none."""
        return self._tokens.get(key)

    def put(self, key: str, tokens: Tokens, /) -> None:
        """Store the tokens of a session."""
        self._tokens[key] = tokens

    def delete(self, key: str, /) -> None:
        """Delete a session's tokens."""
        self._tokens.pop(key, None)

    def lock(self, key: str, /) -> AbstractContextManager[object]:
        """Lock a session among the threads of this process."""
        with self._finding:
            lock = self._locks.get(key)
            if lock is None:
                lock = self._locks[key] = threading.Lock()
            return lock

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self._tokens)} sessions)"
