"""The ledger: what each run found, planned and did, in SQLite files or in one PostgreSQL database.

`ledger` is what the rest of the operations see; the statements are in `queries`, and what they are about in `tables`.
"""

from flows.operations.ledger.addresses import Address
from flows.operations.ledger.ledger import Ledger
from flows.operations.ledger.rows import Digest, Entry, Failure, Missing
from flows.operations.ledger.states import Action, Count, State

__all__ = ["Action", "Address", "Count", "Digest", "Entry", "Failure", "Ledger", "Missing", "State"]
