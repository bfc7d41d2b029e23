"""The access token of a session, refreshed on expiry, once for all users of the session."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from datetime import timedelta
from functools import partial

from carrel._calls import is_temporary
from carrel._drivers import Flow, Sleep, Work
from carrel.errors import APIConnectionError, APIError, CarrelError, InvalidGrantError, SignInRequiredError
from carrel.oauth.stores import TokenStore
from carrel.oauth.tokens import Tokens

# A token is renewed this early, so that requests with the old token are still answered.
MARGIN = timedelta(seconds=60)
NO_TIME = timedelta(0)
POLL_SECONDS = 0.02


class StoredTokens:
    """The tokens of a session in a store, for a client: `Carrel(tokens=…)`. Safe to share between threads and event
    loops; the store's lock coordinates all processes. A refresh ends in a thread, and new tokens are used only after
    storing. After a crash in between, the next refresh is refused, and SignInRequiredError says what to do."""

    def __init__(self, store: TokenStore, key: str, *, refresh: Callable[[Tokens], Tokens]) -> None:
        self._store = store
        self._key = key
        self._refresh = refresh
        self._latest: Tokens | None = None
        self._unstored: tuple[Tokens, Tokens] | None = None
        self._shared: Future[Tokens] | None = None
        self._joining = threading.Lock()

    def current(self) -> Flow[str]:
        """Return an access token, refreshed if need be. Raises SignInRequiredError, and the errors of the refresh."""
        tokens = self._latest
        if tokens is None or tokens.ends_within(MARGIN):
            tokens = yield from self._get_fresh(None)
        return tokens.access_token

    def renewed(self, refused: str) -> Flow[str | None]:
        """Return the replacement of a refused token, refreshed here or elsewhere. Raises the errors of `current`."""
        return (yield from self._get_fresh(refused)).access_token

    def _get_fresh(self, refused: str | None) -> Flow[Tokens]:
        """Return valid tokens from the store, refreshing an expired token or waiting for a refresh in progress."""
        while True:
            shared, is_own = self._join_refresh()
            if is_own:
                try:
                    yield Work(partial(self._run_refresh, shared, refused))
                finally:
                    # Needed only if the caller was cancelled before the work began: then another caller begins it.
                    shared.cancel()
            while not shared.done():
                yield Sleep(POLL_SECONDS)
            if _was_interrupted(shared):
                continue
            tokens = shared.result()
            if is_own or tokens.access_token != refused:
                return tokens

    def _join_refresh(self) -> tuple[Future[Tokens], bool]:
        """Return the refresh in progress, or a new refresh for the caller to run, and whether it is new."""
        with self._joining:
            shared, is_own = self._shared, False
            if shared is None or shared.done():
                shared, is_own = Future[Tokens](), True
                self._shared = shared
            return shared, is_own

    def _run_refresh(self, shared: Future[Tokens], refused: str | None) -> None:
        if not shared.set_running_or_notify_cancel():
            return
        try:
            tokens = self._renew(refused)
        except BaseException as exc:
            shared.set_exception(exc)
            if not isinstance(exc, Exception):
                raise
        else:
            self._latest = tokens
            shared.set_result(tokens)

    def _renew(self, refused: str | None) -> Tokens:
        with self._store.lock(self._key):
            if (tokens := self._store.get(self._key)) is None:
                raise _sign_in("This session has no tokens.")
            if (unstored := self._unstored) and unstored[0] == tokens:
                return self._keep(*unstored)
            if tokens.access_token != refused and not tokens.ends_within(MARGIN):
                return tokens
            return self._refresh_under_lock(tokens, refused)

    def _refresh_under_lock(self, tokens: Tokens, refused: str | None) -> Tokens:
        try:
            renewed = self._refresh(tokens)
        except InvalidGrantError as exc:
            return self._after_refusal(tokens, exc)
        except CarrelError as exc:
            if tokens.access_token != refused and _is_temporary(exc) and not tokens.ends_within(NO_TIME):
                return tokens
            raise
        return self._keep(tokens, renewed)

    def _after_refusal(self, tokens: Tokens, refusal: InvalidGrantError) -> Tokens:
        """Return tokens stored by another process; without any, delete the refused tokens and raise."""
        stored = self._store.get(self._key)
        if stored is not None and stored.refresh_token != tokens.refresh_token:
            return stored
        self._store.delete(self._key)
        raise _sign_in("The tokens of this session can no longer be refreshed.") from refusal

    def _keep(self, before: Tokens, renewed: Tokens) -> Tokens:
        """Store new tokens; after a failure, keep them in memory and store them at the next refresh."""
        self._unstored = (before, renewed)
        self._store.put(self._key, renewed)
        self._unstored = None
        return renewed

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._store!r})"


def _was_interrupted(shared: Future[Tokens]) -> bool:
    """Return whether a refresh ended without a result: its thread was interrupted, or never started."""
    return shared.cancelled() or not isinstance(shared.exception(), Exception | None)


def _is_temporary(error: CarrelError) -> bool:
    """Return whether a refresh failed for a passing reason, unrelated to the tokens."""
    return isinstance(error, APIConnectionError) or (isinstance(error, APIError) and is_temporary(error))


def _sign_in(why: str) -> SignInRequiredError:
    return SignInRequiredError(f"{why} Send the person to authorize the application again.", code="sign_in_required")
