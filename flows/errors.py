"""What stops a run, as FlowErrors. What is wrong with one document never does: that is a row of the quarantine."""


class FlowError(Exception):
    """The root. The message says what happened and what to do next."""

    code = "flow_error"


class SourceError(FlowError):
    """The source as a whole can't be read: it is missing, not of a known kind, or its header is wrong."""

    code = "source_unreadable"


class NameUnknownError(SourceError):
    """No group or collection, or more than one, has this name."""

    code = "name_unknown"


class SyncFailedError(SourceError):
    """A sync's document database can't be read, or its config doesn't fit it; the next run goes on from there."""

    code = "sync_failed"


class SourceBusyError(FlowError):
    """Another run holds this source's ledger; two at once would do the same work twice."""

    code = "source_busy"


class LedgerError(FlowError):
    """The ledger's file is damaged, its disk is full, or its folder can't be written to."""

    code = "ledger_unusable"


class DeploymentsError(FlowError):
    """The file of deployments can't be read, or an entry is wrong; the message names each line and entry."""

    code = "deployments_invalid"


class RefusedError(FlowError):
    """401, or 403 for the caller as a whole: change the credential, not the documents. `reason`: its code."""

    code = "refused"

    def __init__(self, message: str = "", *, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason


class StorageFullError(FlowError):
    """507: the disk of the service is full. No document is at fault; the run goes on once there is room."""

    code = "storage_full"


class ServiceDownError(FlowError):
    """The service, or Prefect, could not be reached for all of the allowed time. The ledger keeps what was done."""

    code = "service_down"


class ScoresTooLowError(FlowError):
    """A score of an evaluation set's run is below its floor. The run is kept."""

    code = "scores_too_low"


class SnapshotError(FlowError):
    """A permission snapshot is missing, damaged, or of a newer format."""

    code = "snapshot_unreadable"
