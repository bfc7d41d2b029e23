"""`python -m service`: serve on the settings of the environment."""

import asyncio
import sys

import uvloop
from pydantic import ValidationError

from service import logs
from service.deployment.service import WrongSecretKeyError
from service.embedded_host import DatabaseServerError
from service.server import serve
from service.settings import Settings


def main() -> int:
    """Run the service; returns the process's exit status."""
    if sys.argv[1:]:
        return _fail("python -m service takes no arguments; it is set up by CARREL_… variables (docs/settings.md).")
    try:
        settings = Settings()
    except ValidationError as error:
        return _fail(
            "\n".join(f"CARREL_{'.'.join(map(str, each['loc'])).upper()}: {each['msg']}" for each in error.errors())
        )
    logs.configure(settings.log_level)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve(settings))
    except (DatabaseServerError, WrongSecretKeyError, ValueError) as error:
        return _fail(str(error))
    return 0


def _fail(reason: str) -> int:
    sys.stderr.write(f"{reason}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
