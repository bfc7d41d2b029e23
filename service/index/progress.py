"""The status of a document in an index."""

from enum import StrEnum

from carrel.wire.catalog import IndexingStatus


class Half(StrEnum):
    """A half of indexing: words first, so that search finds a text soon, then vectors."""

    WORDS = "words"
    MEANING = "meaning"


# After this many failures in a row, the status is FAILED, though retries continue.
FAILED_AFTER = 5


def indexing_status(*, desired_version: int, indexed_version: int | None, attempts: int) -> IndexingStatus:
    if indexed_version == desired_version:
        return IndexingStatus.DONE
    return IndexingStatus.FAILED if attempts >= FAILED_AFTER else IndexingStatus.RUNNING
