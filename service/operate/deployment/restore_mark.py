"""The mark on a data folder that a restore is filling: until it is gone, nothing starts there.

It is there before anything else is, so that whatever lies in a marked folder came from that restore.
"""

from pathlib import Path

from service.operate.deployment.key_files import sync_folder
from service.platform.deployment_errors import UnfinishedRestoreError

_MARK = "restore.unfinished"


def set_mark(data_dir: Path) -> None:
    """Mark a data folder as being restored; durable when this returns."""
    (data_dir / _MARK).touch(mode=0o600)
    sync_folder(data_dir)


def remove_mark(data_dir: Path) -> None:
    """Remove the mark from a data folder whose restore is complete."""
    (data_dir / _MARK).unlink()
    sync_folder(data_dir)


def is_marked(data_dir: Path) -> bool:
    """Return whether a restore is filling the folder, or was interrupted there."""
    return (data_dir / _MARK).exists()


def refuse_marked(data_dir: Path) -> None:
    """Raise UnfinishedRestoreError when the folder is marked."""
    if is_marked(data_dir):
        raise UnfinishedRestoreError(
            f"A restore into {data_dir} is going on, or was cut off: wait for it, or run it again, which begins from"
            " the start. An outside database must be emptied first."
        )
