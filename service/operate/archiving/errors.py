"""Why nothing can be archived, or restored from an archive; each message says what to do.

ArchiveError (a backup's)
└── MomentError          the archive can't go back to this moment
DeploymentError
└── ForeignArchiveError  the archive is another deployment's, or of another history of this one"""

from service.operate.backup.errors import ArchiveError
from service.platform.deployment_errors import DeploymentError


class MomentError(ArchiveError):
    """The archive can't go back to this moment."""


class ForeignArchiveError(DeploymentError):
    """The archive is another deployment's, or of another history of this one."""
