"""`python -m flows.server`: Prefect's own server, with its state in Carrel's data folder."""

import os
import sys
from collections.abc import MutableMapping
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from flows.settings import FlowSettings, prepare_prefect

LOOKING = timedelta(seconds=5)
USAGE = (
    "usage: python -m flows.server\n\n"
    "Start Prefect's server. Its state is in CARREL_DATA_DIR. It listens at PREFECT_API_URL, by default\n"
    "http://127.0.0.1:4200/api. Set the same URL for flows, workers and the workbench. Stop it with Ctrl-C.\n"
)


def main() -> None:
    """Run `prefect server start` at PREFECT_API_URL (default: only this machine); arguments only print the usage."""
    if sys.argv[1:]:
        asked = sys.argv[1:] in (["--help"], ["-h"])
        (sys.stdout if asked else sys.stderr).write(USAGE)
        sys.exit(0 if asked else 2)
    settings = FlowSettings()
    prepare_prefect(settings)
    Path(os.environ["PREFECT_HOME"]).mkdir(parents=True, exist_ok=True)
    address = urlsplit(os.environ.get("PREFECT_API_URL", "http://127.0.0.1:4200/api"))
    listen = ["--host", address.hostname or "127.0.0.1", "--port", str(address.port or 4200)]
    from prefect.cli import app  # noqa: PLC0415 - Prefect reads its settings when imported

    let_schedules_run()
    let_writers_wait()
    look_less_often()
    sys.argv = ["prefect", "server", "start", *listen]
    app()


def let_schedules_run() -> None:
    """Patch Prefect 3.8 to insert runs without `state`, as SQLAlchemy 2.1 requires."""
    from prefect.server.database.orm_models import FlowRun  # noqa: PLC0415 - as above

    def leave_out(_: type[FlowRun], mapping: MutableMapping[str, Any], __: object) -> None:
        mapping.pop("state", None)

    vars(FlowRun)["state"].bulk_dml_setter = leave_out


def let_writers_wait() -> None:
    """Patch Prefect 3.8: SQLite transactions fail with "database is locked" if they write after another transaction has
    written. Each transaction that may write now takes the lock at its beginning, and waits up to a minute."""
    from prefect.server.database.configurations import AioSqliteConfiguration  # noqa: PLC0415 - as above

    begin = AioSqliteConfiguration.begin_transaction

    def begin_writing(self: AioSqliteConfiguration, session: Any, *_: object, **__: object) -> Any:
        return begin(self, session, with_for_update=True)

    setattr(AioSqliteConfiguration, "begin_transaction", begin_writing)  # noqa: B010 - its type is narrower


def look_less_often() -> None:
    """Let Prefect's background tasks wake the server, and poll for due tasks every five seconds instead of four times a
    second: no run waits for them. With tasks in memory, no second process counts a worker or cancels its tasks."""
    from docket import Docket, Worker  # noqa: PLC0415 - as above
    from prefect.server.api import background_workers  # noqa: PLC0415 - as above

    class QuietWorker(Worker):
        def __init__(self, docket: Docket) -> None:
            super().__init__(docket, minimum_check_interval=LOOKING, scheduling_resolution=LOOKING)
            docket.heartbeat_interval = max(docket.heartbeat_interval, LOOKING)

        async def _cancellation_listener(self) -> None:
            if not self.docket.url.startswith("memory:"):
                await super()._cancellation_listener()
            elif (session := self._processing_session) is not None:
                session.cancellation_ready.set()
                await session.stopping.wait()

    setattr(background_workers, "Worker", QuietWorker)  # noqa: B010 - its type is narrower


if __name__ == "__main__":
    main()
