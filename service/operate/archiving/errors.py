"""Why nothing can be archived, or restored from an archive; each message says what to do."""

from service.operate.backup.errors import ArchiveError
from service.platform.deployment_errors import DeploymentError


class MomentError(ArchiveError):
    """The archive can't go back to this moment."""


class ForeignArchiveError(DeploymentError):
    """The archive is another deployment's, or of another history of this one."""
