"""Marks on a data folder, in which nothing starts: a restore is filling it, or it is a standby of the named archive."""

from pathlib import Path

from service.platform.deployment_errors import UnfinishedRestoreError
from service.platform.files import sync

_MARK = "restore.unfinished"
_STANDBY = "standby.archive"
_PROMOTE = "standby.promote"


def set_mark(data_dir: Path) -> None:
    """Mark a data folder as being restored; durable when this returns."""
    (data_dir / _MARK).touch(mode=0o600)
    sync(data_dir)


def remove_mark(data_dir: Path) -> None:
    (data_dir / _MARK).unlink()
    sync(data_dir)


def is_marked(data_dir: Path) -> bool:
    """Return whether a restore is filling the folder, or was interrupted there."""
    return (data_dir / _MARK).exists()


def set_standby(data_dir: Path, archive: str) -> None:
    """Mark a data folder as a standby that follows an archive; durable when this returns."""
    (data_dir / _STANDBY).write_text(archive)
    sync(data_dir)


def remove_standby(data_dir: Path) -> None:
    """Remove the mark of a standby, and that it is to be promoted."""
    for name in (_STANDBY, _PROMOTE):
        (data_dir / name).unlink(missing_ok=True)
    sync(data_dir)


def ask_promotion(data_dir: Path) -> None:
    (data_dir / _PROMOTE).touch(mode=0o600)


def is_promotion_asked(data_dir: Path) -> bool:
    return (data_dir / _PROMOTE).exists()


def read_standby(data_dir: Path) -> str | None:
    """Return the archive that a standby follows; None when the folder isn't one."""
    try:
        return (data_dir / _STANDBY).read_text()
    except FileNotFoundError:
        return None


def refuse_marked(data_dir: Path) -> None:
    """Raise UnfinishedRestoreError when the folder is marked."""
    if read_standby(data_dir) is not None:
        raise UnfinishedRestoreError(
            f"{data_dir} is a standby. `python -m service promote` makes it a deployment of its own, which can be used."
        )
    if is_marked(data_dir):
        raise UnfinishedRestoreError(
            f"A restore into {data_dir} is going on, or was cut off: wait for it, or run it again, which begins from"
            " the start. An outside database must be emptied first."
        )
