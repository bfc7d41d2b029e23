"""A session's access token, refreshed when it ends, once for everybody who needs it."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from datetime import timedelta
from functools import partial

from carrel._flow import Flow, Sleep, Work
from carrel._retries import is_temporary
from carrel.errors import APIConnectionError, APIError, CarrelError, InvalidGrantError, SignInRequiredError
from carrel.oauth.stores import TokenStore
from carrel.oauth.tokens import Tokens

# Renewed so long before it ends that a request begun with it is still answered.
MARGIN = timedelta(seconds=60)
NO_TIME = timedelta(0)
POLL_SECONDS = 0.02


class StoredTokens:
    """The tokens of one session of a store, as a client uses them: `Carrel(tokens=…)`.

    Safe to share between threads and event loops; several of one session, here and in other processes, are held apart
    by the store's lock. A refresh runs to its end in the thread it began in, whatever becomes of who asked for it, and
    nobody sees new tokens before the store has them. What a crash in between leaves behind is a refresh token that was
    used: the next refresh is refused, the session's entry deleted, and SignInRequiredError says what is to be done.
    """

    def __init__(self, store: TokenStore, key: str, *, refresh: Callable[[Tokens], Tokens]) -> None:
        self._store = store
        self._key = key
        self._refresh = refresh
        self._latest: Tokens | None = None
        self._unstored: tuple[Tokens, Tokens] | None = None
        self._flight: Future[Tokens] | None = None
        self._boarding = threading.Lock()

    def current(self) -> Flow[str]:
        """Return an access token that lives at least a minute, or as long as the service was out of reach.

        Raises SignInRequiredError when the session has none and gets none, and what the refresh raises otherwise.
        """
        tokens = self._latest
        if tokens is None or tokens.ends_within(MARGIN):
            tokens = yield from self._up_to_date(None)
        return tokens.access_token

    def renewed(self, refused: str) -> Flow[str | None]:
        """Return the token that took the refused one's place, whoever refreshed it; raises as `current` does."""
        return (yield from self._up_to_date(refused)).access_token

    def _up_to_date(self, refused: str | None) -> Flow[Tokens]:
        """Return what the store holds, refreshed if need be: by this caller, or by one who is at it already."""
        while True:
            flight, is_own = self._board()
            if is_own:
                try:
                    yield Work(partial(self._fly, flight, refused))
                finally:
                    # Of use only when the caller was cancelled before the work began: then another one begins it.
                    flight.cancel()
            while not flight.done():
                yield Sleep(POLL_SECONDS)
            if _broke_off(flight):
                continue
            tokens = flight.result()
            if is_own or tokens.access_token != refused:
                return tokens

    def _board(self) -> tuple[Future[Tokens], bool]:
        """The work that is going on, or one for the caller to do: not every caller waits in a thread of its own."""
        with self._boarding:
            flight, is_own = self._flight, False
            if flight is None or flight.done():
                flight, is_own = Future[Tokens](), True
                self._flight = flight
            return flight, is_own

    def _fly(self, flight: Future[Tokens], refused: str | None) -> None:
        """Do the work, and let all know what came of it."""
        if not flight.set_running_or_notify_cancel():
            return
        try:
            tokens = self._renew(refused)
        except BaseException as exc:
            flight.set_exception(exc)
            if not isinstance(exc, Exception):
                raise
        else:
            self._latest = tokens
            flight.set_result(tokens)

    def _renew(self, refused: str | None) -> Tokens:
        with self._store.lock(self._key):
            tokens = self._store.get(self._key)
            if tokens is None:
                raise _sign_in("There are no tokens of this session.")
            if (unstored := self._unstored) and unstored[0] == tokens:
                return self._keep(*unstored)
            if tokens.access_token != refused and not tokens.ends_within(MARGIN):
                return tokens
            return self._refreshed(tokens, refused)

    def _refreshed(self, tokens: Tokens, refused: str | None) -> Tokens:
        try:
            renewed = self._refresh(tokens)
        except InvalidGrantError as exc:
            return self._after_refusal(tokens, exc)
        except CarrelError as exc:
            if tokens.access_token != refused and _passes(exc) and not tokens.ends_within(NO_TIME):
                return tokens
            raise
        return self._keep(tokens, renewed)

    def _after_refusal(self, tokens: Tokens, refusal: InvalidGrantError) -> Tokens:
        """Forget tokens that can't be refreshed; they may have been, by somebody whom the store's lock doesn't hold."""
        stored = self._store.get(self._key)
        if stored is not None and stored.refresh_token != tokens.refresh_token:
            return stored
        self._store.delete(self._key)
        raise _sign_in("The tokens of this session can't be refreshed any more.") from refusal

    def _keep(self, before: Tokens, renewed: Tokens) -> Tokens:
        """Store new tokens; if that fails they stay here, and are stored when they are asked for again."""
        self._unstored = (before, renewed)
        self._store.put(self._key, renewed)
        self._unstored = None
        return renewed

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._store!r})"


def _broke_off(flight: Future[Tokens]) -> bool:
    """Whether the work was not done, and nothing was found out: its thread was interrupted, or never began."""
    return flight.cancelled() or not isinstance(flight.exception(), Exception | None)


def _passes(error: CarrelError) -> bool:
    """Whether a refresh failed for a reason that has nothing to do with the tokens and may be gone in a moment."""
    return isinstance(error, APIConnectionError) or (isinstance(error, APIError) and is_temporary(error))


def _sign_in(why: str) -> SignInRequiredError:
    return SignInRequiredError(f"{why} Send the person to authorize the application again.", code="sign_in_required")
