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

    base_url: str = Field(default="http://127.0.0.1:8000", description="The service's address.")
    api_key: SecretStr = Field(default=SecretStr(""), description="The API key the workbench acts with.")
    prefect_api_url: str = Field(
        validation_alias="PREFECT_API_URL",
        default="http://127.0.0.1:4200/api",
        description="Prefect's API, where uploads are started and watched.",
    )
    app_host: str = Field(default="127.0.0.1", description="Address the workbench listens on.")
    app_port: int = Field(default=8501, description="Port the workbench listens on.")
    uploads_dir: Path = Field(
        default_factory=lambda: user_data_path("carrel-workbench") / "uploads",
        description="Where files dropped on the upload page wait for the flow.",
    )


@cache
def settings() -> WorkbenchSettings:
    """Read the environment once; Streamlit runs a page's script anew at every interaction."""
    return WorkbenchSettings()
