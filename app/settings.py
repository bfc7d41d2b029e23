"""What the workbench is started with."""

from functools import cache
from pathlib import Path

from platformdirs import user_data_path
from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


class WorkbenchSettings(BaseSettings):
    """The service's address, the key to act with, and where the workbench listens.

    Until people sign in, the workbench acts as the owner of its API key; so it binds to this machine alone.
    """

    model_config = SettingsConfigDict(env_prefix="CARREL_", extra="ignore")

    base_url: str = "http://127.0.0.1:8000"
    api_key: SecretStr = SecretStr("")
    prefect_api_url: str = Field(validation_alias="PREFECT_API_URL", default="http://127.0.0.1:4200/api")
    app_host: str = "127.0.0.1"
    app_port: int = 8501
    uploads_dir: Path = Field(default_factory=lambda: user_data_path("carrel-workbench") / "uploads")


@cache
def settings() -> WorkbenchSettings:
    """Read the environment once; Streamlit runs a page's script anew at every interaction."""
    return WorkbenchSettings()
