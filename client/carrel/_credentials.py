"""The credential of a client: an API key, the token of a service account, or an access token and its source."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from carrel._drivers import Flow
from carrel.errors import ConfigurationError


class TokenSource(Protocol):
    """A source of access tokens, as flows, for many requests, threads and tasks at once; `carrel.oauth` has a source.
    Your own source makes blocking calls through `carrel._drivers.run_in_thread`, off the event loop."""

    def current(self) -> Flow[str]:
        """Return the access token to send. Raises CarrelError if the source has none."""
        ...

    def renewed(self, refused: str) -> Flow[str | None]:
        """Return a replacement for a refused token, or None. Called at most once for a request. Raises CarrelError."""
        ...


@dataclass(frozen=True, slots=True)
class FixedToken:
    """A token without renewal."""

    value: str = field(repr=False)

    def current(self) -> Flow[str]:
        """Return the fixed token."""
        return self.value
        yield  # a flow is a generator

    def renewed(self, refused: str) -> Flow[str | None]:  # noqa: ARG002 - the interface's
        """Return None: a fixed token has no replacement."""
        return None
        yield  # a flow is a generator


VARIABLES = ("CARREL_API_KEY", "CARREL_ACCESS_TOKEN")


@dataclass(frozen=True, slots=True)
class Credentials:
    """The credentials passed to a client; the default is the environment."""

    api_key: str | None = field(default=None, repr=False)
    access_token: str | None = field(default=None, repr=False)
    tokens: TokenSource | None = field(default=None, repr=False)

    def choose(self, environment: Mapping[str, str] = os.environ) -> str | TokenSource:
        """Return the API key, or the source of access tokens; a ConfigurationError contains no credential."""
        credentials = {"api_key": self.api_key, "access_token": self.access_token, "tokens": self.tokens}
        names = [name for name, value in credentials.items() if value is not None]
        if len(names) > 1:
            raise ConfigurationError(f"Give one credential, not several: {', '.join(names)}")
        if self.tokens is not None:
            return self.tokens
        api_key, access_token = self.api_key, self.access_token
        if not names:
            api_key, access_token = (environment.get(name, "").strip() or None for name in VARIABLES)
            if api_key and access_token:
                raise ConfigurationError(f"{' and '.join(VARIABLES)} are both set; unset one, or give a credential")
        if access_token is not None:
            return FixedToken(_check(access_token, "access token"))
        return _check(api_key or "", "API key")


def _check(credential: str, kind: str) -> str:
    if not (value := credential.strip()):
        raise ConfigurationError(f"No {kind}: give api_key=… or access_token=…, or set {' or '.join(VARIABLES)}")
    if not (value.isascii() and value.isprintable() and " " not in value):
        raise ConfigurationError(f"The {kind} contains an invalid character. Copy it again, without other text")
    return value
