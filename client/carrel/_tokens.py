"""Where a client's access token comes from: given once, or renewed while the client is used."""

from dataclasses import dataclass, field
from typing import Protocol

from carrel._flow import Flow


class TokenSource(Protocol):
    """A current access token, as the steps of a flow; one source serves many requests, threads and tasks at once.

    `carrel.oauth` has the one that refreshes tokens kept in a store. Another is written like this: what it waits for
    goes through `carrel._flow.beside`, so that an event loop doesn't wait with it.
    """

    def current(self) -> Flow[str]:
        """Return a token to send; raises CarrelError when there is none to be had."""
        ...

    def renewed(self, refused: str) -> Flow[str | None]:
        """Return another token than the one the service has just refused, None when there is no other.

        Asked once for a request. Raises CarrelError when there could be another, and it is not to be had.
        """
        ...


@dataclass(frozen=True, slots=True)
class FixedToken:
    """A token that was given, and is used as long as it works."""

    value: str = field(repr=False)

    def current(self) -> Flow[str]:
        """Return the fixed token."""
        return self.value
        yield  # a flow is a generator

    def renewed(self, refused: str) -> Flow[str | None]:  # noqa: ARG002 - the interface's
        """Return None: a fixed token has no replacement."""
        return None
        yield  # a flow is a generator
