"""admin/*: for admins of the organization only; everyone else gets PermissionDeniedError."""

from typing import TypeVar

from carrel._operations import Resource
from carrel.resources.admin.access import Grants, Groups, Users
from carrel.resources.admin.access_lists import AccessLists
from carrel.resources.admin.agents import AgentDefinitions
from carrel.resources.admin.alerts import AdminAlerts, AlertRules
from carrel.resources.admin.directory import Directory
from carrel.resources.admin.evaluation_sets import EvaluationSets
from carrel.resources.admin.oauth_clients import OAuthClients
from carrel.resources.admin.organization import ApiKeys, AuditLog, OrganizationSettings, SearchLog
from carrel.resources.admin.oversight import Status
from carrel.resources.admin.owners import Owners
from carrel.resources.admin.question_log import QuestionLog
from carrel.resources.admin.scim_tokens import ScimTokens
from carrel.resources.admin.service_accounts import ServiceAccounts, ServiceAccountTokens
from carrel.resources.admin.sessions import Sessions
from carrel.resources.admin.sign_in_providers import SignInProviders

M = TypeVar("M")


class Admin(Resource[M]):
    """The organization, its people and what they are granted, its credentials, and its logs."""

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
    def directory(self) -> Directory[M]:
        """The import of users, groups and memberships from CSV files."""
        return Directory(self._session)

    @property
    def grants(self) -> Grants[M]:
        """Grants: the roles that principals hold on a resource."""
        return Grants(self._session)

    @property
    def owners(self) -> Owners[M]:
        """The owners of documents, collections and syncs."""
        return Owners(self._session)

    @property
    def access(self) -> AccessLists[M]:
        """Lists of all access in the organization."""
        return AccessLists(self._session)

    @property
    def api_keys(self) -> ApiKeys[M]:
        """The organization's API keys."""
        return ApiKeys(self._session)

    @property
    def service_accounts(self) -> ServiceAccounts[M]:
        """Identities that aren't people."""
        return ServiceAccounts(self._session)

    @property
    def service_account_tokens(self) -> ServiceAccountTokens[M]:
        """Tokens of service accounts."""
        return ServiceAccountTokens(self._session)

    @property
    def scim_tokens(self) -> ScimTokens[M]:
        """Tokens of identity providers, which keep people and groups by SCIM."""
        return ScimTokens(self._session)

    @property
    def sessions(self) -> Sessions[M]:
        """Where people are signed in, and which applications act for them."""
        return Sessions(self._session)

    @property
    def sign_in_providers(self) -> SignInProviders[M]:
        """OpenID Connect providers that people sign in with."""
        return SignInProviders(self._session)

    @property
    def oauth_clients(self) -> OAuthClients[M]:
        """Applications that people may let act for them."""
        return OAuthClients(self._session)

    @property
    def agents(self) -> AgentDefinitions[M]:
        """Which agents there are, and who may use them."""
        return AgentDefinitions(self._session)

    @property
    def evaluation_sets(self) -> EvaluationSets[M]:
        """Questions with judged documents, and how well searches and agents did on them."""
        return EvaluationSets(self._session)

    @property
    def alerts(self) -> AdminAlerts[M]:
        """Alerts: what is wrong now, and what was wrong in the last 30 days."""
        return AdminAlerts(self._session)

    @property
    def alert_rules(self) -> AlertRules[M]:
        """Who is told when something fails."""
        return AlertRules(self._session)

    @property
    def audit_log(self) -> AuditLog[M]:
        """The audit log: all changes, and who made them."""
        return AuditLog(self._session)

    @property
    def search_log(self) -> SearchLog[M]:
        """The search log: queries with their results and feedback."""
        return SearchLog(self._session)

    @property
    def question_log(self) -> QuestionLog[M]:
        """The question log: what people asked agents, with replies and feedback."""
        return QuestionLog(self._session)

    @property
    def status(self) -> Status[M]:
        """The status of the organization: contents, indexing, jobs and syncs."""
        return Status(self._session)


__all__ = [
    "AccessLists",
    "Admin",
    "AdminAlerts",
    "AgentDefinitions",
    "AlertRules",
    "ApiKeys",
    "AuditLog",
    "Directory",
    "EvaluationSets",
    "Grants",
    "Groups",
    "OAuthClients",
    "OrganizationSettings",
    "Owners",
    "QuestionLog",
    "ScimTokens",
    "SearchLog",
    "ServiceAccountTokens",
    "ServiceAccounts",
    "Sessions",
    "SignInProviders",
    "Status",
    "Users",
]
