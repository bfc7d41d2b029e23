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
    """Run the service, or with arguments a command; return the process's exit status. Errors go to standard error."""
    try:
        settings = Settings()
    except ValidationError as error:
        return _fail("\n".join(map(_reason, error.errors())))
    except RuntimeError as error:  # the user has no home folder
        return _fail(f"CARREL_DATA_DIR has no value, and {error}.")
    # The server and the commands are each imported only when used, because both are slow to import.
    if sys.argv[1:]:
        from service.operate.commands import run  # noqa: PLC0415

        logs.configure("WARNING")
        # SIGTERM stops like Ctrl-C: the unfinished work is undone, and a started database is stopped.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        return run(sys.argv[1:], settings)
    return _serve(settings)


def _serve(settings: Settings) -> int:
    with TemporaryDirectory(prefix="carrel-metrics-") as folder:
        # The metrics library reads this when imported. Each process writes figures there; any process can sum them.
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
        # pydantic measures a secret like a list, so its message says "items".
        return f"{setting}must have at least {error.get('ctx', {})['min_length']} characters"
    return setting + error["msg"].removeprefix("Value error, ")


def _fail(reason: str) -> int:
    sys.stderr.write(f"{reason}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
