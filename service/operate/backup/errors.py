"""Why a backup can't be taken or restored; each message says what to do."""


class BackupError(Exception):
    """The root."""


class ArchiveError(BackupError):
    """The archive is damaged, cut off, or none of Carrel's; nothing of it was kept."""


class MomentError(ArchiveError):
    """The archive can't go back to this moment."""


class PostgresToolError(BackupError):
    """A program of PostgreSQL's failed; the message ends with what it said."""


class NotEmptyError(BackupError):
    """A backup is restored into an empty data folder and an empty database only."""
