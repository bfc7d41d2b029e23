"""The settings of the workbench."""

from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

from platformdirs import user_data_path
from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


class WorkbenchSettings(BaseSettings):
    """The service's addresses, the workbench's registration as an application, and the address to listen at."""

    model_config = SettingsConfigDict(env_prefix="CARREL_", extra="ignore", env_ignore_empty=True)

    base_url: str = "http://127.0.0.1:8000"
    """The service's address."""
    v1_base_url: str | None = None
    """The address of v1, where it isn't the service's."""
    auth_url: str | None = None
    """The address people sign in at; the service's by default."""
    api_key: SecretStr | None = None
    """An admin's key, with which the workbench registers itself where it isn't yet."""
    client_id: str = ""
    """The workbench's id as an application of the service."""
    client_secret: SecretStr = SecretStr("")
    """Its secret."""
    prefect_api_url: str = Field(default="http://127.0.0.1:4200/api", validation_alias="PREFECT_API_URL")
    """Prefect's API, where uploads are started and watched."""
    app_host: str = "127.0.0.1"
    """Address the workbench listens on."""
    app_port: int = 8501
    """Port the workbench listens on."""
    app_url: str | None = None
    """The address people have the workbench at; `/oauth/callback` there must be registered."""
    app_dir: Path = Field(default_factory=lambda: user_data_path("carrel-workbench"))
    """Where sessions are kept, encrypted, and files dropped on the page Ingestion wait for the run."""
    app_api_key: SecretStr | None = None
    """For a service whose v1 has agents alone: the key with which admins' pages act, which say so."""
    app_secret_key: SecretStr | None = None
    """The key that sessions are encrypted with, 32 bytes in base64; created when it isn't given."""

    @property
    def public_url(self) -> str:
        """The address people have the workbench at, without a slash at its end."""
        return (self.app_url or f"http://{self.app_host}:{self.app_port}").rstrip("/")

    @property
    def origin(self) -> str:
        """The workbench's origin, as browsers name that of its pages."""
        parts = urlsplit(self.public_url)
        return f"{parts.scheme}://{parts.netloc}".lower()

    @property
    def uploads_dir(self) -> Path:
        """Where files dropped on the page Ingestion wait."""
        return self.app_dir / "uploads"


@cache
def settings() -> WorkbenchSettings:
    """Return the settings, read from the environment once."""
    return WorkbenchSettings()
