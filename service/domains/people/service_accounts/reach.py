"""The reach of a token, checked by the code of real requests, so a preview can't differ from the token."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire import service_accounts as wire
from carrel.wire.api_keys import CredentialStatus
from carrel.wire.common import Role
from carrel.wire.scopes import Scope
from service.auth.authorization import callable_by
from service.auth.callers import Caller, load_service_account_caller
from service.domains.people.service_accounts import queries
from service.domains.people.service_accounts.accounts import get_token, unknown_account
from service.domains.people.service_accounts.queries import Reached
from service.permissions.agents.queries import count_documents_through_agents, list_agents_without_search

MOST_NAMED = 1000
MOST_IN_WARNING = 3


@dataclass(frozen=True)
class Reach:
    """A caller's reach; parts without a scope are empty. `through_groups` counts documents readable only by `groups`,
    `fruitless` counts collections without a readable document. `through_agents` counts documents quoted by agents."""

    documents: int = 0
    editable_documents: int = 0
    through_groups: int = 0
    groups: Sequence[str] = ()
    collections: Reached[wire.ReachedCollection] = field(default_factory=Reached[wire.ReachedCollection])
    fruitless: int = 0
    agents: Reached[wire.ReachedAgent] = field(default_factory=Reached[wire.ReachedAgent])
    through_agents: int = 0
    without_search: Sequence[str] = ()
    without_search_count: int = 0


async def preview_reach(
    connection: Connection, caller: Caller, *, request: wire.AdminServiceAccountTokensPreviewReachRequest
) -> wire.AdminServiceAccountTokensPreviewReachResponse:
    """Preview a token's reach now, before or after its creation, even while service accounts are disabled."""
    token = None
    if request.token_id is not None:
        token = await get_token(connection, caller, token_id=request.token_id)
        if token.status is not CredentialStatus.ACTIVE:
            how = "was revoked" if token.status is CredentialStatus.REVOKED else "has expired"
            warning = f"This token {how}: every request with it is refused (401)."
            return _build_response(endpoints=[], reach=Reach(), warnings=[warning])
    bearer = await _require_bearer(connection, caller, of=token or request)
    reach = await _measure_reach(connection, bearer)
    return _build_response(endpoints=callable_by(bearer), reach=reach, warnings=list(_warnings(bearer, reach)))


async def _require_bearer(
    connection: Connection,
    caller: Caller,
    *,
    of: wire.AdminServiceAccountTokensPreviewReachRequest | wire.ServiceAccountToken,
) -> Caller:
    account_id, scopes = of.service_account_id, of.scopes or ()
    bearer = account_id and await load_service_account_caller(connection, caller, account_id=account_id, scopes=scopes)
    if not bearer:
        raise unknown_account()
    return bearer


async def _measure_reach(connection: Connection, bearer: Caller) -> Reach:
    scopes = bearer.scopes or frozenset[str]()
    reach = Reach()
    if Scope.CATALOG_READ in scopes:
        reach = await _measure_reading(connection, bearer)
    if Scope.CATALOG_WRITE in scopes:
        editable = await queries.count_documents(connection, bearer, at_least=Role.EDITOR)
        reach = replace(reach, editable_documents=editable)
    if scopes & {Scope.CATALOG_READ, Scope.CATALOG_WRITE}:
        least = Role.VIEWER if Scope.CATALOG_READ in scopes else Role.EDITOR
        found = await queries.list_reached_collections(connection, bearer, at_least=least, limit=MOST_NAMED)
        reach = replace(reach, collections=found)
    if Scope.AGENT_MESSAGE in scopes:
        without_search = await list_agents_without_search(connection, bearer, limit=MOST_IN_WARNING + 1)
        reach = replace(
            reach,
            agents=await queries.list_reached_agents(connection, bearer, limit=MOST_NAMED),
            through_agents=await count_documents_through_agents(connection, bearer),
            without_search=[name for name, _ in without_search],
            without_search_count=without_search[0][1] if without_search else 0,
        )
    return reach


async def _measure_reading(connection: Connection, bearer: Caller) -> Reach:
    alone = replace(bearer, principals=(bearer.principal_id,))
    documents = await queries.count_documents(connection, bearer)
    through_groups = documents - await queries.count_documents(connection, alone)
    groups = await queries.list_granted_groups(connection, bearer, limit=MOST_IN_WARNING + 1) if through_groups else ()
    fruitless = await queries.count_fruitless_collections(connection, bearer)
    return Reach(documents=documents, through_groups=through_groups, groups=groups, fruitless=fruitless)


def _build_response(
    *, endpoints: list[str], reach: Reach, warnings: list[str]
) -> wire.AdminServiceAccountTokensPreviewReachResponse:
    return wire.AdminServiceAccountTokensPreviewReachResponse(
        endpoints=endpoints,
        document_count=reach.documents,
        editable_document_count=reach.editable_documents,
        collections=list(reach.collections.first),
        collection_count=reach.collections.total,
        agents=list(reach.agents.first),
        agent_count=reach.agents.total,
        agent_document_count=reach.through_agents,
        warnings=warnings,
    )


def _warnings(bearer: Caller, reach: Reach) -> Iterator[str]:
    scopes = bearer.scopes or frozenset[str]()
    if not bearer.service_accounts_enabled:
        yield (
            "Service accounts are not enabled for this organization. Until an admin enables them, every request with "
            "such a token is refused (403)."
        )
    if not scopes:
        yield "Without scopes, a token can't call any operation."
    if Scope.CATALOG_READ in scopes:
        yield from _reading_warnings(reach)
    if Scope.CATALOG_WRITE in scopes and not reach.editable_documents and not reach.collections.noted:
        yield (
            "It may not change any existing document or collection. It can add its own; for others it needs the role "
            "EDITOR."
        )
    if Scope.AGENT_MESSAGE in scopes:
        yield from _messaging_warnings(reach)
        if reach.through_agents and Scope.CATALOG_READ not in scopes:
            yield (
                f"Agents' replies quote documents ({reach.through_agents} at present), even if the token lacks the "
                "scope catalog:read."
            )


def _messaging_warnings(reach: Reach) -> Iterator[str]:
    deployed, closed = reach.agents.total, reach.agents.noted
    if not deployed:
        yield "No agent is deployed to the service account, so it can't send messages."
    if closed:
        yield (
            f"{closed} of the {deployed} agents deployed to the service account have API access off, so they refuse "
            "messages (403). Turn it on with admin/agents/update."
        )
    if reach.without_search:
        named = _list_names(reach.without_search)
        yield (
            f"It may message {reach.without_search_count} of {deployed} agents ({named}), but can't search their "
            "collections, so they find no answer. Grant the service account the role VIEWER in their collections and "
            "in the documents that it needs."
        )


def _reading_warnings(reach: Reach) -> Iterator[str]:
    if not reach.documents:
        yield (
            "It can read no document, because no document is granted to it or to a group it is in. Documents open to "
            "everyone in the organization are open only to its users."
        )
    elif reach.fruitless:
        yield (
            f"It finds nothing in {reach.fruitless} of the collections, because it may not read their documents. A "
            "role in a collection does not open its documents."
        )
    if reach.through_groups:
        yield (
            f"It reads {reach.through_groups} of {reach.documents} documents only through groups "
            f"({_list_names(reach.groups)}). It can also read documents that these groups get later."
        )


def _list_names(names: Sequence[str]) -> str:
    more = ", …" if len(names) > MOST_IN_WARNING else ""
    return ", ".join(repr(name) for name in names[:MOST_IN_WARNING]) + more
