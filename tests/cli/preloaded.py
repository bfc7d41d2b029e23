"""Modules used by each process of `carrel`, imported once before forking, to save time."""

import asyncio
import os
import pkgutil
import signal
import ssl
import sys
import time
from importlib import import_module

from httpx._transports import default

import cli

# Commands take this share of each pause: before they try again, and between two looks at work that goes on.
PACE = 0.1
AUTHORITIES = ssl.create_default_context()
_sleep, _sleep_async = time.sleep, asyncio.sleep


def _nap(seconds: float) -> None:
    _sleep(seconds * PACE)


async def _nap_async(seconds: float, result=None):
    return await _sleep_async(seconds * PACE, result)


time.sleep, asyncio.sleep = _nap, _nap_async
default.create_ssl_context = lambda *_, **__: AUTHORITIES
for module in ("anyio._backends._asyncio", "httpcore", "flows.operations.loading", "flows.operations.snapshots.taking"):
    import_module(module)
for found in pkgutil.iter_modules(cli.__path__, "cli."):
    if found.name != "cli.__main__":
        import_module(found.name)


def main() -> None:
    # The streams of the forking process can seek, and a terminal cannot.
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115 - the process ends with them
    # Ctrl-C ends the program as on any terminal, also where these tests run in the background and ignore it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv[0], code = "carrel", 70
    try:
        code = import_module("cli.app").run()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)
