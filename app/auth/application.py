"""The workbench as an application of the service: its OAuth client, created at the first sign-in."""

from threading import Lock

import httpx

from app.auth.registration import Registered, Registration
from carrel.errors import InvalidClientError
from carrel.oauth import OAuthClient

# Who asks for the end of a token that there is none of is told nothing but whether the service takes who asks (RFC
# 7009, section 2.2).
_NO_TOKEN = "none"  # noqa: S105 - it isn't one


class Application:
    """The OAuth client of all sessions, until the service refuses it; safe in any thread."""

    def __init__(self, registration: Registration, *, auth_url: str, connections: httpx.Client) -> None:
        self._registration = registration
        self._auth_url = auth_url
        self._connections = connections
        self._making = Lock()
        self._made: tuple[Registered, OAuthClient] | None = None

    def client(self) -> OAuthClient:
        """Return the OAuth client; the first call may register the workbench, which can raise CarrelError."""
        with self._making:
            if self._made is None:
                self._made = self._build_client(self._registration.get())
            return self._made[1]

    def check_client(self) -> OAuthClient:
        """Return a client that the service accepts; create another if an admin deleted it or changed its secret.

        Raises ConfigurationError that says what an admin has to do, or CarrelError.
        """
        client = self.client()
        try:
            client.revoke(_NO_TOKEN)
        except InvalidClientError:
            return self._register_again(refused=client)
        return client

    def _register_again(self, *, refused: OAuthClient) -> OAuthClient:
        with self._making:
            # Of those who are refused at once, the first has it made anew.
            if self._made is not None and self._made[1] is refused:
                self._made = self._build_client(self._registration.renew(self._made[0]))
        return self.client()

    def _build_client(self, registered: Registered) -> tuple[Registered, OAuthClient]:
        client = OAuthClient(
            registered.client_id,
            registered.client_secret,
            redirect_uri=registered.redirect_uri,
            auth_url=self._auth_url,
            http_client=self._connections,
        )
        return registered, client
