"""Standbys of the database, read only if certainly up to date. A request asks the primary for the position in the
write-ahead log, together with its first questions. A standby that has replayed the position shows every earlier commit,
revocations too; the check comes first, on the snapshot's connection. A late, absent or foreign standby is not read."""

from service.runtime.standbys.service import LOOK_SECONDS, Source, Standby, Standbys

__all__ = ["LOOK_SECONDS", "Source", "Standby", "Standbys"]
