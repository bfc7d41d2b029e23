"""The settings of the workbench."""

from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

from platformdirs import user_data_path
from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


class WorkbenchSettings(BaseSettings):
    """The service's addresses, the workbench's registration as an application, and the listening address."""

    model_config = SettingsConfigDict(env_prefix="CARREL_", extra="ignore", env_ignore_empty=True)

    base_url: str = "http://127.0.0.1:8000"
    """The service's address."""
    v1_base_url: str | None = None
    """The address of v1, if different from the service's."""
    auth_url: str | None = None
    """The address for sign-in; default: the service's."""
    api_key: SecretStr | None = None
    """An admin's key, used to register the workbench on first use."""
    client_id: str = ""
    """The workbench's id as an OAuth client of the service."""
    client_secret: SecretStr = SecretStr("")
    """The workbench's secret as an OAuth client of the service."""
    prefect_api_url: str = Field(default="http://127.0.0.1:4200/api", validation_alias="PREFECT_API_URL")
    """Prefect's API, used to start and watch uploads."""
    app_host: str = "127.0.0.1"
    """Address the workbench listens on."""
    app_port: int = 8501
    """Port of the workbench."""
    app_url: str | None = None
    """The public address of the workbench; `/oauth/callback` below the address must be registered."""
    app_dir: Path = Field(default_factory=lambda: user_data_path("carrel-workbench"))
    """Folder for encrypted sessions, and for files dropped on the Ingestion page until the run."""
    app_api_key: SecretStr | None = None
    """The key used by admins' pages if the service's v1 serves only agents. The pages mention the key."""
    app_secret_key: SecretStr | None = None
    """The key for encrypting sessions, 32 bytes in base64; created by default."""

    @property
    def public_url(self) -> str:
        """The public address of the workbench, without a trailing slash."""
        return (self.app_url or f"http://{self.app_host}:{self.app_port}").rstrip("/")

    @property
    def origin(self) -> str:
        """The workbench's origin, as browsers spell it."""
        parts = urlsplit(self.public_url)
        return f"{parts.scheme}://{parts.netloc}".lower()

    @property
    def uploads_dir(self) -> Path:
        """Folder for files dropped on the Ingestion page."""
        return self.app_dir / "uploads"


@cache
def settings() -> WorkbenchSettings:
    """Return the settings, read from the environment once."""
    return WorkbenchSettings()
