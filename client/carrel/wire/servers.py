"""The database's servers, and the archive of what they wrote, as the status of the service shows them."""

from enum import StrEnum

from carrel.wire.common import ResponseModel
from carrel.wire.fields import Instant


class PrimaryState(ResponseModel):
    """What is wrong with the database server that takes the changes, as the service's processes have met it."""

    unconfirmed_at: Instant | None = None
    """When a change was last not confirmed in time, such as by a standby that is waited for; absent when none was."""
    older_refused_at: Instant | None = None
    """When a server was last refused that was the primary before another was promoted; absent when none was."""


class StandbyState(StrEnum):
    """What a standby of the database does: SERVING is read from; NOT_A_STANDBY follows another server, or none."""

    SERVING = "SERVING"
    LATE = "LATE"
    AWAY = "AWAY"
    NOT_A_STANDBY = "NOT_A_STANDBY"


class StandbyStatus(ResponseModel):
    """A standby of the database that searches can be read from, as the process that answers has last seen it."""

    number: int
    """Its place among the addresses that the service was given, from 1."""
    state: StandbyState
    """What it does."""
    since: Instant
    """When that began."""
    lag_bytes: int | None = None
    """How much of the primary's log it had not replayed, in bytes; absent when it was never reached."""


class ArchiveState(ResponseModel):
    """How far the archive is, to which the service copies the database's log and all files."""

    archived_at: Instant | None = None
    """Time up to which all is archived; absent when that was never so since the service was started."""
    backed_up_at: Instant | None = None
    """End of the newest backup in the archive from which that time can be reached; absent when there is none."""
