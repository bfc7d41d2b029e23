"""How far a document is in an index."""

from carrel.wire.catalog import IndexingStatus

# After so many failures in a row, indexing is said to have failed, though it is still tried now and then.
FAILED_AFTER = 5


def indexing_status(*, desired_version: int, indexed_version: int | None, attempts: int) -> IndexingStatus:
    """The status of a place in an index: the version wanted there, the one that is there, and failures since."""
    if indexed_version == desired_version:
        return IndexingStatus.DONE
    return IndexingStatus.FAILED if attempts >= FAILED_AFTER else IndexingStatus.RUNNING
