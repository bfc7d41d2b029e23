"""Standbys of the database, read only where certainly up to date. A request asks the primary for its position in the
write-ahead log, with its other questions. A standby that has replayed that shows every earlier commit, revocations too;
it is checked on the snapshot's connection first. A late, absent or foreign standby is not read."""

from service.runtime.standbys.service import LOOK_SECONDS, Source, Standby, Standbys

__all__ = ["LOOK_SECONDS", "Source", "Standby", "Standbys"]
