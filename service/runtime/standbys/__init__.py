"""Standbys of the database, read only if certainly up to date. A request asks the primary for the position in the
write-ahead log. A standby that has replayed it shows every earlier commit, revocations too; the check comes first."""

from service.runtime.standbys.service import LOOK_SECONDS, Source, Standby, Standbys

__all__ = ["LOOK_SECONDS", "Source", "Standby", "Standbys"]
