"""Standbys of the database, from which is read what they have certainly replayed.

A request asks the primary for its position in the write-ahead log, with its other questions. A standby that has
replayed up to there shows all that was committed before, each revocation too; it is asked on the connection of the
snapshot, before that is taken. A standby that is late, away or not this primary's is not read from.
"""

from service.runtime.standbys.service import LOOK_SECONDS, Source, Standbys
from service.runtime.standbys.standby import Standby

__all__ = ["LOOK_SECONDS", "Source", "Standby", "Standbys"]
