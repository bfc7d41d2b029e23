"""The findings of Health about the database's servers, and about the archive of what they wrote."""

from datetime import datetime, timedelta

from app.formatting import ago, moment, size
from app.health.models import Finding, Level, help_page, is_late
from carrel.wire.servers import ArchiveState, PrimaryState, StandbyState, StandbyStatus

LATE_ARCHIVE = timedelta(minutes=5)
RECENT_PRIMARY = timedelta(minutes=10)


def of_primary(primary: PrimaryState, at: datetime) -> list[Finding]:
    """Return what was wrong with the primary of late; nothing while it is well."""
    see, found = help_page("scaling#when-the-primary-is-gone"), list[Finding]()
    if primary.unconfirmed_at is not None and not is_late(primary.unconfirmed_at, at, RECENT_PRIMARY):
        said = (
            f"The database did not confirm a change in time, {ago(primary.unconfirmed_at, now=at)}: it waits for a "
            "standby, and none may follow. Changes are answered 503, and take effect when a standby follows."
        )
        todo = "Start a standby that synchronous_standby_names waits for, or take the waiting out of it."
        found.append(Finding("Changes wait for a standby", Level.TROUBLE, said, todo, see))
    if primary.older_refused_at is not None and not is_late(primary.older_refused_at, at, RECENT_PRIMARY):
        said = (
            "A database server takes changes that was the primary before another one was promoted. It was refused "
            f"{ago(primary.older_refused_at, now=at)}, since what is written there is lost."
        )
        todo = "Stop it, and make it a standby of the new primary. The service's log (older_primary_refused) names it."
        found.append(Finding("An older primary answers", Level.TROUBLE, said, todo, see))
    return found


def of_standby(standby: StandbyStatus) -> Finding:
    """Return the finding about a standby."""
    about = f"Standby {standby.number} of the database"
    if standby.state is StandbyState.SERVING:
        return Finding(about, Level.FINE, "Searches are read from it.")
    whys = {
        StandbyState.LATE: f"it is behind the primary by {size(standby.lag_bytes or 0)}",
        StandbyState.AWAY: "it does not answer",
        StandbyState.NOT_A_STANDBY: "the server at its address follows another primary, or none",
    }
    said = f"Searches are read from the primary instead: {whys[standby.state]}, since {moment(standby.since)}."
    if standby.state is StandbyState.LATE:
        todo = "Nothing, if much is being loaded. If it stays so, look at its log and at what else runs there."
    else:
        todo = "See whether it runs and follows the primary. The service uses it again by itself."
    return Finding(about, Level.TROUBLE, said, todo, help_page("scaling#when-one-is-gone"))


def of_archive(archive: ArchiveState, at: datetime) -> Finding:
    """Return the finding about the archive, and about the backups in it."""
    archived_at, about = archive.archived_at, "The archive"
    said = "Nothing was archived since the service was started."
    if archived_at is not None:
        said = f"All that was written until {moment(archived_at)} is archived."
        if not is_late(archived_at, at, LATE_ARCHIVE):
            if archive.backed_up_at is None:
                return _of_missing_backup(said)
            return Finding(about, Level.FINE, f"{said} The newest backup in it is of {moment(archive.backed_up_at)}.")
    todo = (
        "What was written since is on this machine alone. See why in the service's log (task archive); it tries again."
    )
    return Finding(about, Level.TROUBLE, said, todo, help_page("operating#going-back-to-any-moment"))


def _of_missing_backup(said: str) -> Finding:
    said = f"{said} No backup in it leads to now, so what was written lately can't be restored from it."
    todo = "Take one: python -m service backup --incremental. Health tells of it within a minute."
    return Finding("The archive", Level.TROUBLE, said, todo, help_page("operating#going-back-to-any-moment"))
