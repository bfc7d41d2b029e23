"""`python -m flows serve`: run on this machine the flows started by the workbench, `carrel` and schedules. The service
and its key come from CARREL_BASE_URL and CARREL_API_KEY. Single runs are started with `carrel`."""

import argparse
import asyncio
import sys
from collections.abc import Sequence

from pydantic import ValidationError

from flows.errors import FlowError
from flows.settings import FlowSettings, prepare_prefect


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve the deployments until stopped; return 0, 2 when the server can't start, or 130 after Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m flows", description=__doc__)
    serving = parser.add_subparsers(required=True, metavar="COMMAND").add_parser("serve", help="run what is started")
    serving.add_argument("--limit", type=int, default=4, help="runs at a time (4)")
    parsed = parser.parse_args(arguments)
    try:
        settings = FlowSettings()
        prepare_prefect(settings)
        from flows.processes import start_runs_by_forking  # noqa: PLC0415 - Prefect reads its settings when imported
        from flows.serving import serve_flows  # noqa: PLC0415 - as above

        start_runs_by_forking()
        asyncio.run(serve_flows(settings, say=_say, limit=parsed.limit))
    except KeyboardInterrupt:
        return 130
    except (FlowError, ValidationError) as exc:
        _say(str(exc))
        return 2
    return 0


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main())
