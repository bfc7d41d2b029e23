"""What stops a run. What is wrong with one document never does: that is a row of the quarantine.

FlowError
├── SourceError          the folder, glob or manifest can't be read at all
│   ├── NameUnknownError a group or collection that the run's options name does not exist
│   └── SyncFailedError  the run of a sync ended early, and the message says why
├── SourceBusyError      another run is working on the same source
├── LedgerError          the ledger can't be opened, read or written
├── ScoresTooLowError    an agent's replies to an evaluation set are worse than what was asked
├── SnapshotError        a permission snapshot can't be read
├── DeploymentsError     the file of deployments is wrong; nothing was registered from it
├── RefusedError         the service refuses the caller: nothing that is retried would go better
├── StorageFullError     the service has no room for what is sent
└── ServiceDownError     the service, or Prefect, stayed away for longer than was to be waited
"""


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
    """401, or 403 for the caller as a whole: the credential needs changing, not the documents."""

    code = "refused"


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
