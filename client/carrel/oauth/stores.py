"""Where an application keeps its people's tokens, one entry for each session."""

import threading
from contextlib import AbstractContextManager
from typing import Protocol
from weakref import WeakValueDictionary

from carrel.oauth.tokens import Tokens


class TokenStore(Protocol):
    """Tokens by the key of a session; the methods block, and may be called in any thread.

    `lock` holds all others of the same key off, in every process that shares the store, until its block is left or the
    process dies: under it tokens are refreshed, each refresh token once. `put` returns when the tokens are safe.
    """

    def get(self, key: str, /) -> Tokens | None:
        """Return the tokens of a session, None when there are none."""
        ...

    def put(self, key: str, tokens: Tokens, /) -> None:
        """Keep the tokens of a session, in the place of those before."""
        ...

    def delete(self, key: str, /) -> None:
        """Forget a session's tokens, if there are any."""
        ...

    def lock(self, key: str, /) -> AbstractContextManager[object]:
        """Wait until nobody else holds this key; not reentrant."""
        ...


class MemoryTokenStore:
    """Tokens in this process alone, gone with it."""

    def __init__(self) -> None:
        self._tokens: dict[str, Tokens] = {}
        # A lock lives as long as somebody holds it or waits for it.
        self._locks: WeakValueDictionary[str, threading.Lock] = WeakValueDictionary()
        self._finding = threading.Lock()

    def get(self, key: str, /) -> Tokens | None:
        """Return the tokens of a session."""
        return self._tokens.get(key)

    def put(self, key: str, tokens: Tokens, /) -> None:
        """Keep the tokens of a session."""
        self._tokens[key] = tokens

    def delete(self, key: str, /) -> None:
        """Forget a session's tokens."""
        self._tokens.pop(key, None)

    def lock(self, key: str, /) -> AbstractContextManager[object]:
        """Hold a session among the threads of this process."""
        with self._finding:
            lock = self._locks.get(key)
            if lock is None:
                lock = self._locks[key] = threading.Lock()
            return lock

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self._tokens)} sessions)"
