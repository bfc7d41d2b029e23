"""The end of a command: reliable exit codes for scheduled jobs, and messages instead of tracebacks."""

import re
from collections.abc import Generator
from contextlib import contextmanager

import typer
from pydantic import ValidationError

import carrel
from cli.exit_codes import ExitCode
from cli.screen import Screen
from flows.errors import FlowError, LedgerError, RefusedError, ServiceDownError, SourceBusyError, StorageFullError

RETRIES = 3
_ARGUMENT = re.compile(r"\b[a-z]+(?:_[a-z]+)+(?=: )")
# Packages of `pip install -e '.[flows]'`: only commands for loading and schedules need them.
FLOWS_PACKAGES = frozenset({"obstore", "platformdirs", "prefect", "pyarrow", "pydantic_settings", "sqlalchemy", "yaml"})

_FLOW_CODES: tuple[tuple[type[FlowError], ExitCode], ...] = (
    (RefusedError, ExitCode.REFUSED),
    (ServiceDownError, ExitCode.AWAY),
    (SourceBusyError, ExitCode.BUSY),
    (LedgerError, ExitCode.LEDGER),
    (StorageFullError, ExitCode.FULL),
    (FlowError, ExitCode.USAGE),
)


@contextmanager
def show_errors(screen: Screen) -> Generator[Screen]:
    """Yield the screen; turn any error into a message and an exit code, and end the command."""
    try:
        yield screen
    except KeyboardInterrupt as exc:
        message = str(exc) or "Interrupted. Completed work stays. Run the command again for the rest."
        raise fail(screen, "interrupted", message, code=ExitCode.INTERRUPTED) from exc
    except OSError as exc:
        reason = f"{exc.filename}: {exc.strerror}" if exc.filename else str(exc)
        raise fail(screen, "file_unreadable", reason, code=ExitCode.USAGE) from exc
    except ModuleNotFoundError as exc:
        if exc.name not in FLOWS_PACKAGES:
            raise
        message = f"{exc.name} is not installed. In Carrel's folder, run: pip install -e '.[cli,flows]'"
        raise fail(screen, "usage", message, code=ExitCode.USAGE) from exc
    except ValidationError as exc:
        raise usage(screen, _invalid(exc)) from exc
    except FlowError as exc:
        code = next(code for kind, code in _FLOW_CODES if isinstance(exc, kind))
        raise fail(screen, exc.code, str(exc), code=code) from exc
    except carrel.CarrelError as exc:
        kind, code = _kind(exc)
        raise fail(screen, kind, _words(exc), code=code) from exc


@contextmanager
def client_of(screen: Screen) -> "Generator[carrel.Carrel]":
    """Yield a client configured by the environment; an error ends the command with a message and an exit code."""
    # `carrel` imports slow modules at their first use, and help and completion need none.
    with show_errors(screen), carrel.Carrel(max_retries=RETRIES) as client:
        yield client


@contextmanager
def connect(
    *, as_json: bool, yes: bool | None = None, plan_only: bool | None = None, action: str = "delete it"
) -> "Generator[tuple[Screen, carrel.Carrel]]":
    """Yield a screen and a client. `yes`: None: no question; False ends the command unless a terminal can ask, or only
    a plan is wanted. `plan_only`: None: the command has no plan."""
    screen = Screen(as_json=as_json, agrees=bool(yes))
    if plan_only and yes:
        raise usage(screen, "Give either --plan or --yes.")
    if yes is False and not plan_only and not screen.can_ask:
        if plan_only is False:
            raise usage(screen, "No terminal for confirmation: give --plan to see the changes, or --yes to make them.")
        raise usage(screen, f"There is no terminal for confirmation. Give --yes to {action}.")
    with client_of(screen) as client:
        yield screen, client


def fail(screen: Screen, outcome: str, message: str, *, code: ExitCode) -> typer.Exit:
    """Print a message, or as JSON the outcome, and return the end of the command for the caller to raise."""
    if screen.as_json:
        screen.json({"outcome": outcome, "message": message, "exitCode": code})
    else:
        screen.say(message)
    return typer.Exit(code)


def usage(screen: Screen, message: str) -> typer.Exit:
    return fail(screen, "usage", message, code=ExitCode.USAGE)


def _kind(error: carrel.CarrelError) -> tuple[str, ExitCode]:
    """Return the kind of an error, such as refused (change the key) or away (try later), and the exit code."""
    if isinstance(error, carrel.PlanRefusedError):
        return "problems", ExitCode.PROBLEMS
    if isinstance(error, carrel.APIConnectionError):
        return "unreachable", ExitCode.AWAY
    if isinstance(error, carrel.APIError) and error.code == StorageFullError.code:
        return StorageFullError.code, ExitCode.FULL
    if isinstance(error, carrel.ServerError | carrel.RateLimitError | carrel.ReplyFailedError):
        return "unavailable", ExitCode.AWAY
    if isinstance(error, carrel.AuthenticationError | carrel.PermissionDeniedError | carrel.ReplyWithheldError):
        return "refused", ExitCode.REFUSED
    return "usage", ExitCode.USAGE


def _words(error: carrel.CarrelError) -> str:
    if isinstance(error, carrel.ConfigurationError):
        words = str(error).replace("give api_key=… or access_token=…, or set ", "set ")
        return f"{words.replace('base_url', 'CARREL_BASE_URL')}. Set CARREL_BASE_URL to the URL of the service."
    if isinstance(error, carrel.InvalidArgumentError):
        return _ARGUMENT.sub(lambda found: found[0].replace("_", " "), str(error))
    if isinstance(error, carrel.APIConnectionError):
        return f"{error}. Check that the service is running and that CARREL_BASE_URL is its URL."
    if isinstance(error, carrel.AuthenticationError):
        return f"{error}. Check that CARREL_API_KEY is an active key of this service."
    if isinstance(error, carrel.PermissionDeniedError) and error.code != "api_access_off":
        return f"{error}. Set CARREL_API_KEY to the key of a person with the necessary rights."
    return str(error)


def _invalid(error: ValidationError) -> str:
    """Name the wrong setting or option, but never the value, a possible secret."""
    errors = error.errors(include_url=False, include_input=False, include_context=False)
    return "; ".join(f"{'.'.join(map(str, item['loc'])) or error.title}: {item['msg']}" for item in errors)
