"""Errors of a deployment's database or data folder; each message says what to do."""


class DeploymentError(Exception):
    """The root of these errors."""


class WrongSecretKeyError(DeploymentError):
    """The secret key at hand isn't the one the database was set up with."""


class MigrationError(DeploymentError):
    """The database can't be brought to this version's schema."""


class RotationError(DeploymentError):
    """The secret key can't be changed now, or not to the given key."""


class ClusterError(DeploymentError):
    """The index can't be spread over several servers as they are set up."""


class UnfinishedRestoreError(DeploymentError):
    """A restore into the data folder is going on, or was cut off: the folder holds part of a backup at most."""


class ForeignArchiveError(DeploymentError):
    """The archive belongs to another deployment, or to another history of this deployment."""
