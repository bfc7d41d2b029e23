"""The workbench as an application of the service: registration and OAuth client."""

from dataclasses import dataclass
from pathlib import Path
from threading import Lock

import httpx
from filelock import FileLock
from pydantic import BaseModel, ConfigDict, ValidationError

from app.auth.sessions import Sealer, SealError
from app.settings import WorkbenchSettings
from carrel import Carrel, ConfigurationError
from carrel.errors import InvalidClientError
from carrel.oauth import OAuthClient
from carrel.wire.scopes import ApiScope

NAME = "Carrel workbench"
_FILE, _OF = "registration", "registration"


class Registered(BaseModel):
    """The workbench's client id and secret at the service."""

    model_config = ConfigDict(frozen=True)

    client_id: str
    client_secret: str
    redirect_uri: str
    base_url: str


@dataclass(frozen=True, slots=True)
class Registration:
    """Registers the workbench as an OAuth client of the service, on first use."""

    settings: WorkbenchSettings
    sealer: Sealer
    redirect_uri: str

    def check(self) -> None:
        """Raise ConfigurationError if the settings allow no registration."""
        if not self.settings.client_id and self.settings.api_key is None:
            raise ConfigurationError(
                "set CARREL_CLIENT_ID and CARREL_CLIENT_SECRET, which an admin gets for the redirect URL "
                f"{self.redirect_uri}, or an admin's CARREL_API_KEY, with which the workbench registers itself."
            )

    def get(self) -> Registered:
        """Return the registration, and create it on first use. Raises the service's error."""
        if self.settings.client_id:
            return self._build(self.settings.client_id, self.settings.client_secret.get_secret_value())
        with self._lock():
            return self._read_stored() or self._register_or_rotate()

    def renew(self, refused: Registered) -> Registered:
        """Replace a refused registration. Raises ConfigurationError if an admin must act, or the service's error."""
        if self.settings.client_id:
            raise ConfigurationError(
                "The service does not accept CARREL_CLIENT_ID and CARREL_CLIENT_SECRET. The operator of "
                f"Carrel must find the application with the redirect URL {self.redirect_uri} on the page "
                "OAuth clients, and approve it, create a new secret or create the application again. Then "
                "set both, and restart the workbench."
            )
        with self._lock():
            kept = self._read_stored()
            # Another process of the workbench may have been refused earlier.
            return kept if kept is not None and kept != refused else self._register_or_rotate(refused.client_id)

    def _lock(self) -> FileLock:
        return FileLock(self._path.with_suffix(".lock"), mode=0o600)

    def _register_or_rotate(self, former: str | None = None) -> Registered:
        with self._admin() as admin:
            clients = admin.admin.oauth_clients
            if former is not None and any(str(known.client_id) == former for known in clients.list()):
                made = clients.rotate_secret(former)
            else:
                made = clients.create(NAME, redirect_uris=[self.redirect_uri], scopes=list(ApiScope))
        registered = self._build(str(made.client_id), made.client_secret)
        self._store(registered)
        return registered

    @property
    def _path(self) -> Path:
        return self.settings.app_dir / _FILE

    def _admin(self) -> Carrel:
        self.check()
        key = self.settings.api_key
        return Carrel(api_key=key.get_secret_value() if key else None, base_url=self.settings.base_url)

    def _build(self, client_id: str, client_secret: str) -> Registered:
        base_url = self.settings.base_url
        return Registered(
            client_id=client_id, client_secret=client_secret, redirect_uri=self.redirect_uri, base_url=base_url
        )

    def _read_stored(self) -> Registered | None:
        try:
            kept = Registered.model_validate_json(self.sealer.unseal(self._path.read_bytes(), of=_OF))
        except (FileNotFoundError, SealError, ValidationError):
            return None
        return kept if kept == self._build(kept.client_id, kept.client_secret) else None

    def _store(self, registered: Registered) -> None:
        aside = self._path.with_suffix(".new")
        aside.write_bytes(self.sealer.seal(registered.model_dump_json(), of=_OF))
        aside.chmod(0o600)
        aside.replace(self._path)


# Revoking a nonexistent token reveals only whether the service accepts the client (RFC 7009, section 2.2).
_NO_TOKEN = "none"  # noqa: S105 - it isn't one


class Application:
    """The OAuth client shared by all sessions until refused by the service. Safe in any thread."""

    def __init__(self, registration: Registration, *, auth_url: str, connections: httpx.Client) -> None:
        self._registration = registration
        self._auth_url = auth_url
        self._connections = connections
        self._making = Lock()
        self._made: tuple[Registered, OAuthClient] | None = None

    def client(self) -> OAuthClient:
        """Return the OAuth client. The first call may register the workbench, which can raise CarrelError."""
        with self._making:
            if self._made is None:
                self._made = self._build_client(self._registration.get())
            return self._made[1]

    def check_client(self) -> OAuthClient:
        """Return an accepted client, created again if need be. Raises ConfigurationError with steps, or CarrelError."""
        client = self.client()
        try:
            client.revoke(_NO_TOKEN)
        except InvalidClientError:
            return self._register_again(refused=client)
        return client

    def _register_again(self, *, refused: OAuthClient) -> OAuthClient:
        with self._making:
            # If several requests are refused at once, the first renews the registration.
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
