"""Which operations add to the data, and are refused while a disk runs short (`service.disk`).

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
# The other operations that a scope to write, or to send messages, opens: a test has every one of them in one of both.
NOT_GROWING = frozenset(
    {
        "catalog/planUpload",
        "catalog/deleteDocument",
        "documentCollections/removeDocumentFromCollection",
        "documentCollections/deleteDocumentCollection",
        "documentCollections/cancelIndexRebuild",
        "documentCollections/docstore/deleteDocstoreSync",
        "copilots/provideMessageFeedback",
        "agents",
        "agents/fetchAgentResponse",
        "agents/streamAgentResponse",
        "agents/provideMessageFeedback",
        "conversations",
        "conversations/{conversationId}",
    }
)


def adds_data(path: str) -> bool:
    """Whether the operation at `path` (`/catalog/uploadFile`) is refused while a disk runs short."""
    return path.lstrip("/") in GROWING
