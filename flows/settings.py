"""The flows' settings, from `CARREL_…` variables; built by the command line or flow, and passed in."""

import os
from pathlib import Path
from urllib.request import getproxies

import httpx
import platformdirs
from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from carrel.environment import http_options
from flows.errors import FlowError
from flows.operations.ledger.addresses import Address


def _data_dir() -> Path:
    """Return the data folder, by default the service's; raises FlowError for a user without a home folder."""
    try:
        return Path("/var/lib/carrel") if os.geteuid() == 0 else platformdirs.user_data_path("carrel")
    except RuntimeError as exc:
        msg = "This user has no home folder. Set CARREL_DATA_DIR to a folder for Carrel's data, or set HOME."
        raise FlowError(msg) from exc


SHIPPED = Path(__file__).parents[1] / "prefect.yaml"
"""The deployments that come with Carrel."""


class FlowSettings(BaseSettings):
    """The address of the service, and how runs behave. Folders are created when first written to."""

    model_config = SettingsConfigDict(env_prefix="CARREL_", extra="ignore", frozen=True, env_ignore_empty=True)

    base_url: str = "http://127.0.0.1:8000"
    """The service's address."""
    api_key: SecretStr | None = None
    """The API key of runs."""
    data_dir: Path = Field(default_factory=_data_dir)
    """Folder of all state, Prefect's too."""
    flows_dir: Path | None = None
    """Ledgers and quarantine files; `flows` in the data folder by default."""
    flows_database_url: SecretStr | None = None
    """PostgreSQL database of the ledgers, for runs on several machines; default: a file for each source."""
    flows_concurrency: int = Field(default=16, ge=1, le=256)
    """Most documents sent at a time; fewer while the service is busy."""
    flows_batch_size: int = Field(default=750, ge=1, le=100_000)
    """Documents of a task run; each task run costs tens of milliseconds."""
    flows_batches_at_once: int = Field(default=8, ge=1)
    """The most task runs that send documents at the same time, in all runs on one Prefect server."""
    flows_deployments: Path | None = None
    """The deployments that `python -m flows serve` offers; prefect.yaml in Carrel's folder by default."""
    flows_outage_seconds: float = Field(default=900.0, ge=0)
    """The longest service outage, in seconds, before a run fails."""

    @property
    def deployments(self) -> Path:
        return self.flows_deployments or SHIPPED

    @property
    def ledgers(self) -> Path:
        return (self.flows_dir or self.data_dir / "flows") / "ledgers"

    def ledger(self, name: str) -> Address:
        return Address(self.ledgers, name, self.flows_database_url)

    @property
    def snapshots(self) -> Path:
        return (self.flows_dir or self.data_dir / "flows") / "snapshots"


def prepare_prefect(settings: FlowSettings, **further: str) -> None:
    """Set Prefect's variables, and `further` variables, before Prefect is imported. Variables that are set stay."""
    prepare_http(settings.base_url)
    environment = {
        "PREFECT_HOME": str(settings.data_dir / "prefect"),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
        "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30",
        # Events report starts (flows.serving), and a poll finds due runs within ten seconds.
        "PREFECT_RUNNER_POLL_FREQUENCY": "7",
        "PREFECT_SERVER_SERVICES_PAUSE_EXPIRATIONS_LOOP_SECONDS": "60",
        "PREFECT_SERVER_SERVICES_LATE_RUNS_LOOP_SECONDS": "15",
        "PREFECT_SERVER_SERVICES_SCHEDULER_RECENT_DEPLOYMENTS_LOOP_SECONDS": "10",
        "PREFECT_SERVER_SERVICES_FOREMAN_LOOP_SECONDS": "60",
        "PREFECT_SERVER_SERVICES_CLEANUP_RECONCILER_LOOP_SECONDS": "60",
        "PREFECT_SERVER_EVENTS_PROACTIVE_GRANULARITY": "PT15S",
        # Without PREFECT_API_URL, a run starts its own server, which may take more than 20 s on a busy machine.
        "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
    }
    for name, value in {**environment, **further}.items():
        os.environ.setdefault(name, value)


def prepare_http(base_url: str) -> None:
    """If httpx can't read them, remove certificates and all proxies but the service's; reach local hosts directly."""
    proxy = http_options(base_url)["proxy"]
    try:
        httpx.Client().close()
    except (ImportError, OSError, ValueError, httpx.InvalidURL):
        for name in list(os.environ):
            if name.lower() in {"http_proxy", "https_proxy", "all_proxy", "no_proxy", "ssl_cert_file", "ssl_cert_dir"}:
                del os.environ[name]
        if proxy is not None:
            user, password = proxy.auth or (None, None)
            address = proxy.url.copy_with(username=user, password=password)
            os.environ["ALL_PROXY"] = str(address)
    direct = ",".join(filter(None, [getproxies().get("no"), "127.0.0.1,localhost,::1"]))
    os.environ |= {"NO_PROXY": direct, "no_proxy": direct}
