"""The commands, imported only when called, so that `carrel --help` is fast, and their error handling."""

import io
import os
import re
import signal
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

import carrel
from cli.exit_codes import EXIT_CODES, ExitCode


class LazyCommand(TyperCommand):
    """The name and help of a command or command group; `place` is `module:name`."""

    def __init__(self, name: str, place: str, help: str) -> None:  # noqa: A002 - typer's own name for it
        super().__init__(name, help=help)
        self.place = place

    def load(self) -> TyperCommand | TyperGroup:
        """Import the module of `place`, and return its command or group."""
        module, _, attribute = self.place.partition(":")
        command = getattr(import_module(module), attribute)
        parent = typer.Typer(rich_markup_mode=None)
        if isinstance(command, typer.Typer):
            parent.add_typer(command, name=self.name, help=self.help)
        else:
            parent.command(self.name)(command)
        loaded: Any = typer.main.get_group(parent).commands[str(self.name)]
        return loaded


EPILOG = f"Set the service's URL in CARREL_BASE_URL and the key in CARREL_API_KEY. {EXIT_CODES}"

# By command: its module, which is imported for the call but not for help, and its description.
COMMANDS: Mapping[str, tuple[str, str]] = {
    "upload": ("cli.loading:upload", "Make the catalog match a source."),
    "plan": ("cli.loading:plan", "Show the effect of `carrel upload` with the same options."),
    "search": ("cli.search:search", "Search, and show the hits, best first."),
    "reindex": ("cli.reindex:reindex", "Re-index the documents of a collection."),
    "documents": ("cli.documents:app", "The documents of the catalog."),
    "collections": ("cli.collections:app", "Collections and their documents."),
    "quarantine": ("cli.quarantine:app", "Documents that failed to load: list, retry or ignore them."),
    "sync": ("cli.sync:app", "Keep collections up to date with document databases."),
    "directory": ("cli.directory:app", "Update people and groups from another directory."),
    "people": ("cli.people:app", "The people of an organization."),
    "groups": ("cli.groups:app", "Groups of people, service accounts and other groups."),
    "grants": ("cli.grants:app", "Roles on documents, collections and agents."),
    "keys": ("cli.keys:app", "API keys."),
    "whoami": ("cli.keys:whoami", "Show the owner, the rights and the expiry of the key or token in CARREL_API_KEY."),
    "service-accounts": ("cli.service_accounts:app", "Service accounts: accounts for programs."),
    "tokens": ("cli.tokens:app", "Tokens of service accounts."),
    "provisioning": ("cli.provisioning:app", "Tokens of identity providers that manage people and groups (SCIM)."),
    "agents": ("cli.agents:app", "Agents, and asking them."),
    "access": ("cli.access:app", "Who can read a document, and why."),
    "oauth-clients": ("cli.oauth_clients:app", "Applications that act for people, and allowed hosts."),
    "providers": ("cli.providers:app", "Providers that people sign in with instead of a password."),
    "alerts": ("cli.alerts:app", "Alerts: recipients, and current problems."),
    "audit": ("cli.audit:app", "The audit log: changes and sign-ins."),
    "check-notebook": ("cli.notebooks:check_notebook", "Check a notebook before you share it."),
    "snapshot": ("cli.snapshot:app", "Snapshots of access, and changes between them."),
}


class _Commands(TyperGroup):
    """The group of `COMMANDS`: help shows their names and descriptions, and a call imports the command."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        for name, (place, purpose) in COMMANDS.items():
            self.add_command(LazyCommand(name, place, purpose))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        return name, command.load() if isinstance(command, LazyCommand) else command, rest


# Tracebacks could show a key.
app = typer.Typer(
    name="carrel",
    cls=_Commands,
    help="Work with a Carrel service from the command line.",
    epilog=EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"carrel {carrel.__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Work with a Carrel service from the command line."""
    del version


def run(arguments: Sequence[str] | None = None) -> int:
    """Run `carrel` with these arguments (default: the process's); return the exit code. SIGTERM acts like Ctrl-C."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that lacks a character must not fail the command
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["search"]:  # this command has no short options: "-pump" is a sign in a query
        words = [re.sub(r"^-(?=[^-])", " -", word) for word in words]
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        app(args=words, prog_name="carrel")
    except SystemExit as exc:
        return exc.code if isinstance(exc.code, int) else int(exc.code is not None)
    except Exception as exc:  # noqa: BLE001 - whatever it is, a scheduled job must not take it for a run that is done
        return _report_unexpected(exc, as_json="--json" in words)
    return 0


def _report_unexpected(error: Exception, *, as_json: bool) -> int:
    """Report an unexpected error in one line; the traceback could show a key, so only CARREL_LOG=debug prints it."""
    import traceback  # noqa: PLC0415 - slow to import, and rarely needed

    from cli.outcome import fail  # noqa: PLC0415 - as above
    from cli.screen import Screen  # noqa: PLC0415 - as above

    if os.environ.get("CARREL_LOG", "").strip().lower() == "debug":
        traceback.print_exception(error)
    summary = f"{type(error).__name__}: {error}".splitlines()[0]
    message = f"Unexpected error ({summary}). Set CARREL_LOG=debug for details."
    screen = Screen(as_json=as_json)
    screen.say(message)
    if as_json:
        fail(screen, "unexpected", message, code=ExitCode.UNEXPECTED)
    return ExitCode.UNEXPECTED
