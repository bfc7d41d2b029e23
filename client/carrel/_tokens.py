"""Sources of a client's access token: a fixed token, or tokens that are renewed."""

from dataclasses import dataclass, field
from typing import Protocol

from carrel._flow import Flow


class TokenSource(Protocol):
    """A source of access tokens, as flows; one source serves many requests, threads and tasks at once.

    `carrel.oauth` has a source that refreshes tokens kept in a store. A source of your own makes blocking calls through
    `carrel._flow.run_in_thread`, so that they don't block an event loop.
    """

    def current(self) -> Flow[str]:
        """Return the access token to send; raises CarrelError when there is none."""
        ...

    def renewed(self, refused: str) -> Flow[str | None]:
        """Return another token in place of one that the service has refused, None when there is no other.

        It is called at most once for a request. Raises CarrelError when renewing the token fails.
        """
        ...


@dataclass(frozen=True, slots=True)
class FixedToken:
    """A token that is used as long as it works."""

    value: str = field(repr=False)

    def current(self) -> Flow[str]:
        """Return the fixed token."""
        return self.value
        yield  # a flow is a generator

    def renewed(self, refused: str) -> Flow[str | None]:  # noqa: ARG002 - the interface's
        """Return None: a fixed token has no replacement."""
        return None
        yield  # a flow is a generator
