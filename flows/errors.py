"""The errors that stop a run (FlowErrors). A problem with a single document never stops a run: see quarantine."""


class FlowError(Exception):
    """The base of all errors of flows. The message says what happened and what to do next."""

    code = "flow_error"


class SourceError(FlowError):
    """The source as a whole can't be read: it is missing, not of a known kind, or its header is wrong."""

    code = "source_unreadable"


class NameUnknownError(SourceError):
    """No group or collection, or more than one, has the name."""

    code = "name_unknown"


class SyncFailedError(SourceError):
    """A sync's document database can't be read, or its config doesn't fit; the next run continues from there."""

    code = "sync_failed"


class SourceBusyError(FlowError):
    """Another run holds this source's ledger; two runs at once would repeat the work."""

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
    """507: the disk of the service is full. No document is at fault; the run continues once there is room."""

    code = "storage_full"


class ServiceDownError(FlowError):
    """The service or Prefect stayed unreachable for all of the allowed time. The ledger keeps the finished work."""

    code = "service_down"


class ScoresTooLowError(FlowError):
    """A score of an evaluation set's run is below its floor. The run is kept."""

    code = "scores_too_low"


class SnapshotError(FlowError):
    """A permission snapshot is missing, damaged, or of a newer format."""

    code = "snapshot_unreadable"
