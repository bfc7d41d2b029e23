"""Errors of a deployment's database or data folder; each message says what to do."""


class DeploymentError(Exception):
    """The base class of deployment errors."""


class WrongSecretKeyError(DeploymentError):
    """The given secret key is not the key the database was set up with."""


class MigrationError(DeploymentError):
    """The database can't be migrated to this version's schema."""


class RotationError(DeploymentError):
    """The secret key can't be changed now, or not to the given key."""


class ClusterError(DeploymentError):
    """The index can't be distributed over several servers as configured."""


class UnfinishedRestoreError(DeploymentError):
    """A restore into the data folder is running or was interrupted: the folder may hold only part of a backup."""


class ForeignArchiveError(DeploymentError):
    """The archive belongs to another deployment, or to another history of this deployment."""
