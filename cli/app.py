"""The commands, and what happens around each of them."""

import io
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated

import typer

import carrel
from cli import access, audit, collections, directory, loading, quarantine, sessions, snapshot, sync
from cli.outcome import EXIT_CODES, ExitCode, fail
from cli.reindex import reindex
from cli.screen import Screen
from cli.search import search

EPILOG = f"The service's address and the key come from CARREL_BASE_URL and CARREL_API_KEY. {EXIT_CODES}"

# Completion would write into shell profiles; tracebacks could show a key.
app = typer.Typer(
    name="carrel",
    help="Work with a Carrel service from the command line.",
    epilog=EPILOG,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command()(loading.upload)
app.command()(loading.plan)
app.command()(search)
app.command()(reindex)
app.add_typer(collections.app)
app.add_typer(quarantine.app)
app.add_typer(sync.app)
app.add_typer(directory.app)
# With the commands of cli.people and cli.persons, on which it adds its own.
app.add_typer(sessions.app)
app.add_typer(access.app)
app.add_typer(audit.app)
app.add_typer(snapshot.app)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"carrel {carrel.__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which version this is.")
    ] = False,
) -> None:
    """Work with a Carrel service from the command line."""
    del version


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that lacks a letter is no reason to fail
    given = list(sys.argv[1:] if arguments is None else arguments)
    # Whoever stops a service or a scheduled job sends SIGTERM, which then is like Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        app(args=given, prog_name="carrel")
    except SystemExit as exc:
        return exc.code if isinstance(exc.code, int) else int(exc.code is not None)
    except Exception as exc:  # noqa: BLE001 - whatever it is, a scheduled job must not take it for a run that is done
        return _report_unexpected(exc, as_json="--json" in given)
    return 0


def _report_unexpected(error: Exception, *, as_json: bool) -> int:
    """Say in one line what nothing foresaw; where it was, which could show a key, only when asked for."""
    if os.environ.get("CARREL_LOG", "").strip().lower() == "debug":
        traceback.print_exception(error)
    what = f"{type(error).__name__}: {error}".splitlines()[0]
    message = f"Something unexpected went wrong ({what}). CARREL_LOG=debug shows where."
    screen = Screen(as_json=as_json)
    screen.say(message)
    if as_json:
        fail(screen, "unexpected", message, code=ExitCode.UNEXPECTED)
    return ExitCode.UNEXPECTED
