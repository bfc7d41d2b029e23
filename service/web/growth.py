"""Operations that add data, and are refused while a disk runs short (`service.platform.disk`).

Everything else goes on: what reads, what takes away, and whatever decides who may do what (`admin/…`), because nobody's
access may outlive its end for want of disk space. Those write little, and so do signing in, tokens, the audit log and
the search log.
"""

GROWING = frozenset(
    {
        "catalog/uploadFile",
        "catalog/uploadDocumentFile",
        "documentCollections/createDocumentCollection",
        "documentCollections/addDocumentToCollection",
        "documentCollections/addDocumentChunksToCollection",
        "documentCollections/reindexDocumentInCollection",
        "documentCollections/startIndexRebuild",
        "documentCollections/docstore/createDocstoreSync",
        "documentCollections/docstore/updateDocstoreSync",
        "documentCollections/docstore/launchDocstoreSync",
        "copilots/sendMessage",
        "agents/sendMessage",
    }
)


def adds_data(path: str) -> bool:
    """Whether the operation at `path` (`/catalog/uploadFile`) is refused while a disk runs short."""
    return path.lstrip("/") in GROWING
