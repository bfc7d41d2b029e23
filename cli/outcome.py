"""How a command ends: exit codes that a scheduled job can trust, and errors in words instead of tracebacks."""

from collections.abc import Generator
from contextlib import contextmanager
from enum import IntEnum

import typer

from carrel import (
    APIConnectionError,
    AuthenticationError,
    Carrel,
    CarrelError,
    ConfigurationError,
    InvalidArgumentError,
    PermissionDeniedError,
    PlanRefusedError,
)
from cli.screen import Screen

RETRIES = 3


class ExitCode(IntEnum):
    """What a scheduled job is told."""

    DONE = 0
    PROBLEMS = 1
    USAGE = 2
    REFUSED = 3
    INTERRUPTED = 130


@contextmanager
def client_of(screen: Screen) -> Generator[Carrel]:
    """Give a client as the environment says; what goes wrong with it ends the command in words, with its code."""
    try:
        with Carrel(max_retries=RETRIES) as client:
            yield client
    except KeyboardInterrupt as exc:
        message = "Interrupted. What was done stays; run it again for the rest."
        raise fail(screen, "interrupted", message, code=ExitCode.INTERRUPTED) from exc
    except OSError as exc:
        what = f"{exc.filename}: {exc.strerror}" if exc.filename else str(exc)
        raise fail(screen, "file_unreadable", what, code=ExitCode.USAGE) from exc
    except CarrelError as exc:
        kind, code = _kind(exc)
        raise fail(screen, kind, _words(exc), code=code) from exc


def fail(screen: Screen, outcome: str, message: str, *, code: ExitCode) -> typer.Exit:
    """Say why a command ends and return what ends it."""
    if screen.as_json:
        screen.json({"outcome": outcome, "message": message, "exitCode": code})
    else:
        screen.say(message)
    return typer.Exit(code)


def usage(screen: Screen, message: str) -> typer.Exit:
    """Say what is wrong with the command as it was given."""
    return fail(screen, "usage", message, code=ExitCode.USAGE)


def _kind(error: CarrelError) -> tuple[str, ExitCode]:
    if isinstance(error, ConfigurationError | InvalidArgumentError):
        return "usage", ExitCode.USAGE
    if isinstance(error, PlanRefusedError):
        return "problems", ExitCode.PROBLEMS
    return ("unreachable" if isinstance(error, APIConnectionError) else "refused"), ExitCode.REFUSED


def _words(error: CarrelError) -> str:
    if isinstance(error, ConfigurationError):
        return f"{error}. The service's address goes into CARREL_BASE_URL."
    if isinstance(error, APIConnectionError):
        return f"{error}. Is the service running, and is CARREL_BASE_URL its address?"
    if isinstance(error, AuthenticationError):
        return f"{error}. Is CARREL_API_KEY a working key of this service?"
    if isinstance(error, PermissionDeniedError):
        return f"{error}. CARREL_API_KEY must be the key of somebody who may do this."
    return str(error)
