"""Commands. Secrets go to standard output, all else to standard error. Exit codes: 0, 1 (failed), 2 (usage)."""

import signal
import sys
from collections.abc import Sequence

import typer
from sqlalchemy.exc import DBAPIError

from service.operate.backup.archive import BackupError
from service.operate.commands import archives, deployment, domains, files, organizations, users
from service.operate.commands.context import CommandError
from service.platform.deployment_errors import DeploymentError
from service.platform.errors import ServiceError
from service.platform.postgres.host import DatabaseServerError
from service.platform.settings import Settings

app = typer.Typer(
    name="python -m service",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Without a command: start the service. All commands use the CARREL_… variables (docs/settings.md).",
)
app.add_typer(organizations.app, name="organization")
app.add_typer(users.app, name="user")
app.add_typer(domains.app, name="domains")
app.add_typer(users.texts, name="texts")
app.add_typer(files.app, name="files")
app.command()(archives.backup)
app.command()(archives.restore)
app.command()(archives.verify)
app.command()(archives.follow)
app.command()(archives.promote)
app.command("rotate-key")(deployment.rotate_key)
app.command("distribute-index")(deployment.distribute_index)


def run(arguments: Sequence[str], settings: Settings) -> int:
    """Run a command and return its exit code. The message of an expected error goes to standard error."""
    try:
        app(list(arguments), obj=settings)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except (CommandError, BackupError, DeploymentError, DatabaseServerError, ServiceError, ValueError) as error:
        return _fail(str(error))
    except DBAPIError as error:
        return _fail(f"The database refused the command, or the connection broke:\n{error.orig}")
    except OSError as error:
        return _fail(f"{error.filename}: {error.strerror}." if error.filename and error.strerror else str(error))
    return 0


def _fail(reason: str) -> int:
    sys.stderr.write(f"{reason}\n")
    return 1
