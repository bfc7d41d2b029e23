"""Why a backup can't be taken or restored; each message says what to do.

BackupError
├── ArchiveError        the archive is damaged, cut off, or none of Carrel's
├── PostgresToolError   a program of PostgreSQL's failed
└── NotEmptyError       there is something where a backup is to be restored to"""


class BackupError(Exception):
    """The root."""


class ArchiveError(BackupError):
    """The archive can't be trusted; nothing of it was kept."""


class PostgresToolError(BackupError):
    """A program of PostgreSQL's failed; the message ends with what it said."""


class NotEmptyError(BackupError):
    """A backup is restored into an empty data folder and an empty database only."""
