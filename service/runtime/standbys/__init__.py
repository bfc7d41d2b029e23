"""Standbys of the database, from which is read what they have certainly replayed.

A request asks the primary for its position in the write-ahead log, together with what it asks anyway. A standby that
has replayed the log up to there shows all that was committed before the request: also each revocation that was
answered. It is asked how far it is before the snapshot is taken, on the same connection, so that the snapshot is never
older than the answer. A standby that is late, away or not a standby of this primary is not read from: the primary
answers, as it does without standbys. Nothing has to be told to them, and no process has to agree with another one.
"""

from service.runtime.standbys.service import LOOK_SECONDS, Source, Standbys
from service.runtime.standbys.standby import Standby

__all__ = ["LOOK_SECONDS", "Source", "Standby", "Standbys"]
