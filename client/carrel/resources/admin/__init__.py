"""admin/*: for admins of the organization only; everyone else gets PermissionDeniedError."""

from typing import TypeVar

from carrel._operations import Resource
from carrel.resources.admin.access import Grants, Groups, Users
from carrel.resources.admin.organization import ApiKeys, AuditLog, OrganizationSettings

M = TypeVar("M")


class Admin(Resource[M]):
    """The organization, its users, groups, grants, API keys and audit log."""

    @property
    def organization(self) -> OrganizationSettings[M]:
        """The organization's settings."""
        return OrganizationSettings(self._session)

    @property
    def users(self) -> Users[M]:
        """The organization's users."""
        return Users(self._session)

    @property
    def groups(self) -> Groups[M]:
        """Groups of users, service accounts and other groups."""
        return Groups(self._session)

    @property
    def grants(self) -> Grants[M]:
        """Who holds which role on a resource."""
        return Grants(self._session)

    @property
    def api_keys(self) -> ApiKeys[M]:
        """The organization's API keys."""
        return ApiKeys(self._session)

    @property
    def audit_log(self) -> AuditLog[M]:
        """What was done, by whom."""
        return AuditLog(self._session)


__all__ = ["Admin", "ApiKeys", "AuditLog", "Grants", "Groups", "OrganizationSettings", "Users"]
