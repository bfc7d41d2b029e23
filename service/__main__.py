"""`python -m service`: serve with the settings of the environment; with arguments, run a command."""

import gc
import os
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from service.platform import logs
from service.platform.settings import Settings


def main() -> int:
    """Run the service, or a command. Return the process's exit status."""
    try:
        settings = Settings()
    except ValidationError as error:
        return _fail("\n".join(map(_reason, error.errors())))
    except RuntimeError as error:  # this user has no home folder
        return _fail(f"CARREL_DATA_DIR has no value, and {error}.")
    # A start of the service loads no command, and a command no server.
    if sys.argv[1:]:
        from service.operate.commands import run  # noqa: PLC0415

        logs.configure("WARNING")
        # As with Ctrl-C: what was begun is taken back, and a database that was started is stopped.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        return run(sys.argv[1:], settings)
    return _serve(settings)


def _serve(settings: Settings) -> int:
    with TemporaryDirectory(prefix="carrel-metrics-") as folder:
        # Read where the metrics are imported: each process counts in files there, which whichever is asked adds up.
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
        with without_collecting():
            from service.supervisor import START_ERRORS, Supervisor  # noqa: PLC0415

        logs.configure(settings.log_level)
        try:
            return Supervisor(settings, metrics=Path(folder)).run()
        except START_ERRORS as error:
            return _fail(str(error))
        except KeyboardInterrupt:
            return 1


@contextmanager
def without_collecting() -> Generator[None]:
    """Turn off collection of garbage during imports, a fifth of the time, and exempt imported modules for good."""
    gc.disable()
    yield
    gc.freeze()
    gc.enable()


def _reason(error: ErrorDetails) -> str:
    setting = f"CARREL_{'.'.join(map(str, error['loc'])).upper()}: " if error["loc"] else ""
    if error["type"] == "too_short":
        # A secret is measured like a list, and its message speaks of items.
        return f"{setting}must have at least {error.get('ctx', {})['min_length']} characters"
    return setting + error["msg"].removeprefix("Value error, ")


def _fail(reason: str) -> int:
    sys.stderr.write(f"{reason}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
