"""The requirements of each operation of the API on its caller: one table, checked before a body is read.

Default deny: an operation that isn't in the table can't be declared. A scope narrows what a service account may do, it
never widens it: what the target allows is asked later, of the access classes (seed, "Scopes").
"""

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from carrel.wire.common import Scope
from carrel.wire.oauth_clients import ApiScope
from service.auth.callers import Caller, service_accounts_disabled
from service.auth.scopes import MESSAGE_PREFIX, agent_of, covers
from service.platform.errors import Forbidden


@dataclass(frozen=True)
class Requirement:
    """The requirements of an operation on its caller.

    A service-account token its `scope` (None: no such token will do), an access token its `api_scope` (None: any will
    do), a user to be an admin.
    `service_accounts`: the organization must have enabled them.
    """

    scope: Scope | None
    api_scope: ApiScope | None
    admin: bool = False
    service_accounts: bool = False


MESSAGE = Requirement(Scope.AGENT_MESSAGE, ApiScope.AGENT_MESSAGE)
WRITE = Requirement(Scope.CATALOG_WRITE, ApiScope.CATALOG_WRITE)
READ = Requirement(Scope.CATALOG_READ, ApiScope.CATALOG_READ)
ADMIN = Requirement(None, ApiScope.ADMIN, admin=True)
SERVICE_ACCOUNTS = Requirement(None, ApiScope.ADMIN, admin=True, service_accounts=True)
MEMBER = Requirement(None, None)
# They make the service open connections, which no service account's token is for, whatever its scopes.
DOCSTORE_WRITE = Requirement(None, ApiScope.CATALOG_WRITE)
DOCSTORE_READ = Requirement(None, ApiScope.CATALOG_READ)

REQUIREMENTS: Mapping[str, Requirement] = {
    "catalog/uploadFile": WRITE,
    "catalog/uploadDocumentFile": WRITE,
    "catalog/planUpload": WRITE,
    "catalog/deleteDocument": WRITE,
    "catalog/getDocument": READ,
    "catalog/listDocuments": READ,
    "catalog/downloadDocument": READ,
    "documentCollections/createDocumentCollection": WRITE,
    "documentCollections/addDocumentToCollection": WRITE,
    "documentCollections/addDocumentChunksToCollection": WRITE,
    "documentCollections/reindexDocumentInCollection": WRITE,
    "documentCollections/removeDocumentFromCollection": WRITE,
    "documentCollections/deleteDocumentCollection": WRITE,
    "documentCollections/listDocumentCollections": READ,
    "documentCollections/listDocumentsInCollection": READ,
    "documentCollections/getDocumentChunks": READ,
    # Of a collection; that the catalog's is for admins is asked once the request is read.
    "documentCollections/startIndexRebuild": WRITE,
    "documentCollections/cancelIndexRebuild": WRITE,
    "documentCollections/getIndexRebuild": READ,
    "documentCollections/listIndexRebuildFailures": READ,
    "documentCollections/docstore/createDocstoreSync": DOCSTORE_WRITE,
    "documentCollections/docstore/updateDocstoreSync": DOCSTORE_WRITE,
    "documentCollections/docstore/launchDocstoreSync": DOCSTORE_WRITE,
    "documentCollections/docstore/deleteDocstoreSync": DOCSTORE_WRITE,
    "documentCollections/docstore/getDocstoreSync": DOCSTORE_READ,
    "documentCollections/docstore/listDocstoreSyncs": DOCSTORE_READ,
    "documentCollections/docstore/listDocstoreFailures": DOCSTORE_READ,
    "search/searchDocumentCatalog": READ,
    "search/searchDocumentCollection": READ,
    "search/submitSearchFeedback": READ,
    "permissions/listAuthorizedResources": READ,
    "permissions/listAuthorizedPrincipalsForResource": ADMIN,
    "permissions/explainAuthorization": ADMIN,
    "permissions/checkResourceAuthorizationForUser": READ,
    "permissions/checkBulkResourcesAuthorizationForUser": READ,
    "admin/organization/get": ADMIN,
    "admin/organization/update": ADMIN,
    "admin/users/upsert": ADMIN,
    "admin/users/list": ADMIN,
    "admin/groups/upsert": ADMIN,
    "admin/groups/list": ADMIN,
    "admin/groups/listMembers": ADMIN,
    "admin/groups/addMembers": ADMIN,
    "admin/groups/removeMembers": ADMIN,
    "admin/grants/set": ADMIN,
    "admin/grants/setMany": ADMIN,
    "admin/grants/list": ADMIN,
    "admin/access/getState": ADMIN,
    "admin/access/listResources": ADMIN,
    "admin/access/countResources": ADMIN,
    "admin/access/listHolders": ADMIN,
    "admin/access/listGroupPeople": ADMIN,
    "admin/apiKeys/create": ADMIN,
    "admin/apiKeys/list": ADMIN,
    "admin/apiKeys/revoke": ADMIN,
    "admin/serviceAccounts/create": SERVICE_ACCOUNTS,
    "admin/serviceAccounts/list": ADMIN,
    "admin/serviceAccounts/delete": ADMIN,
    "admin/serviceAccountTokens/mint": SERVICE_ACCOUNTS,
    "admin/serviceAccountTokens/list": ADMIN,
    "admin/serviceAccountTokens/revoke": ADMIN,
    "admin/serviceAccountTokens/previewReach": ADMIN,
    "admin/auditLog/query": ADMIN,
    "admin/oauthClients/create": ADMIN,
    "admin/oauthClients/request": MEMBER,
    "admin/oauthClients/list": ADMIN,
    "admin/oauthClients/update": ADMIN,
    "admin/oauthClients/approve": ADMIN,
    "admin/oauthClients/rotateSecret": ADMIN,
    "admin/oauthClients/delete": ADMIN,
    "admin/searchLog/query": ADMIN,
    "admin/searchLog/summarize": ADMIN,
    "admin/status/get": ADMIN,
    "admin/agents/create": ADMIN,
    "admin/agents/update": ADMIN,
    "admin/agents/list": ADMIN,
    "admin/agents/delete": ADMIN,
    "admin/agents/deploy": ADMIN,
}

# What there is on one version alone, beside all of the above (service.main.V0_DOMAINS, V1_DOMAINS).
V0_REQUIREMENTS: Mapping[str, Requirement] = {
    "copilots/sendMessage": MESSAGE,
    "copilots/provideMessageFeedback": MESSAGE,
}
V1_REQUIREMENTS: Mapping[str, Requirement] = {
    "me": MEMBER,
    "agents": MESSAGE,
    "agents/sendMessage": MESSAGE,
    "agents/fetchAgentResponse": MESSAGE,
    "agents/streamAgentResponse": MESSAGE,
    "agents/provideMessageFeedback": MESSAGE,
    "conversations": MESSAGE,
    "conversations/{conversationId}": MESSAGE,
}


def requirement_of(path: str) -> Requirement:
    """Return the requirement of the operation at `path` (`/catalog/uploadFile`); LookupError when none is declared."""
    operation = path.lstrip("/")
    found = REQUIREMENTS.get(operation) or V0_REQUIREMENTS.get(operation) or V1_REQUIREMENTS.get(operation)
    if found is None:
        msg = f"{operation} says nowhere what it asks of its caller. Add it to service.auth.authorization.REQUIREMENTS."
        raise LookupError(msg)
    return found


def authorize(caller: Caller, requirement: Requirement) -> None:
    """Raise Forbidden unless the caller meets a requirement."""
    if caller.credential == "accessToken":
        _authorize_access_token(caller, requirement)
    elif caller.scopes is not None:
        _authorize_token(caller.scopes, requirement.scope)
    elif requirement.admin and not caller.is_admin:
        raise Forbidden("Only an admin may do this. Use an API key whose owner is an admin.", code="admin_only")
    if requirement.service_accounts and not caller.service_accounts_enabled:
        raise service_accounts_disabled()


def callable_by(caller: Caller) -> list[str]:
    """List the operations of v0 that the caller may call, in the order of the table."""
    operations = {**REQUIREMENTS, **V0_REQUIREMENTS}
    return [operation for operation, requirement in operations.items() if _may_call(caller, requirement)]


def _may_call(caller: Caller, requirement: Requirement) -> bool:
    try:
        authorize(caller, requirement)
    except Forbidden:
        return False
    return True


def authorize_message(caller: Caller, agent_id: UUID) -> None:
    """Raise Forbidden unless an access token's scopes allow messages to this agent."""
    if caller.credential == "accessToken" and not covers(caller.scopes or (), f"{MESSAGE_PREFIX}{agent_id}"):
        raise _missing(f"{ApiScope.AGENT_MESSAGE} or {MESSAGE_PREFIX}{agent_id}")


def messageable_agents(caller: Caller) -> frozenset[UUID] | None:
    """Return the agents named by an access token's scopes; None when the scopes allow all deployed agents."""
    scopes = caller.scopes or frozenset[str]()
    if caller.credential != "accessToken" or ApiScope.AGENT_MESSAGE in scopes:
        return None
    return frozenset(agent_id for scope in scopes if (agent_id := agent_of(scope)))


def _authorize_access_token(caller: Caller, requirement: Requirement) -> None:
    wanted, scopes = requirement.api_scope, caller.scopes or frozenset()
    # A scope for one agent opens the door; whether it is that agent is asked once the request is read.
    some_agent = wanted is ApiScope.AGENT_MESSAGE and any(scope.startswith(MESSAGE_PREFIX) for scope in scopes)
    if wanted is not None and wanted not in scopes and not some_agent:
        raise _missing(wanted)
    if requirement.admin and not caller.is_admin:
        raise Forbidden("Only an admin may do this, and you are none (any more).", code="admin_only")


def _authorize_token(scopes: frozenset[str], scope: Scope | None) -> None:
    if scope is None:
        raise Forbidden(
            "A service-account token can't do this, whatever its scopes. Use an API key.",
            code="service_account_not_allowed",
        )
    if scope not in scopes:
        raise _missing(scope)


def _missing(scope: str) -> Forbidden:
    return Forbidden(
        f"This token lacks the scope {scope}. Use a token that has it, or ask for one.", code="missing_scope"
    )
