"""Opening the places where ledgers are."""

from collections.abc import Iterator

from flows.operations.ledger.addresses import Address
from flows.operations.ledger.database import DatabaseStore
from flows.operations.ledger.files import FileStore
from flows.operations.ledger.store import Store


def open_store(address: Address) -> Store:
    """Open the place of a ledger, making it where it is missing. Raises LedgerError."""
    return DatabaseStore(address) if address.shared else FileStore(address)


def open_stores(address: Address) -> Iterator[Store]:
    """Yield each store of the ledgers of all sources in the same place, open until the next one is asked for."""
    for place in address.places():
        with open_store(place) as store:
            yield store
