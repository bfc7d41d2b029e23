"""The database's servers and the archive of their writes, in the status of the service."""

from enum import StrEnum

from carrel.wire.common import ResponseModel
from carrel.wire.fields import Instant


class PrimaryState(ResponseModel):
    """Problems with the database's primary server, as seen by the service's processes."""

    unconfirmed_at: Instant | None = None
    """When a change was last not confirmed in time, for example by a required standby; absent: never."""
    older_refused_at: Instant | None = None
    """When a former primary was last refused after another server's promotion; absent: never."""


class StandbyState(StrEnum):
    """State of a standby of the database: SERVING is read from; NOT_A_STANDBY follows another server, or none."""

    SERVING = "SERVING"
    LATE = "LATE"
    AWAY = "AWAY"
    NOT_A_STANDBY = "NOT_A_STANDBY"


class StandbyStatus(ResponseModel):
    """A standby of the database for searches, as last seen by the answering process."""

    number: int
    """Position among the configured addresses, from 1."""
    state: StandbyState
    since: Instant
    """When the state began."""
    lag_bytes: int | None = None
    """Bytes of the primary's log not yet replayed; absent: never reached."""


class ArchiveState(ResponseModel):
    """Progress of the archive: copies of the database's log and of all files."""

    archived_at: Instant | None = None
    """Time up to which everything is archived; absent: never since the start of the service."""
    backed_up_at: Instant | None = None
    """End of the newest backup from which this time can be restored; absent: none."""
