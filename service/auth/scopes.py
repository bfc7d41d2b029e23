"""Scopes of v1 in words. `api:agent:message:*` covers `api:agent:message:<agentId>`; else a scope covers itself."""

from collections.abc import Collection
from uuid import UUID

from carrel.wire.oauth_clients import OAuthAudience, is_api_scope
from carrel.wire.scopes import ApiScope

MESSAGE_PREFIX = ApiScope.AGENT_MESSAGE.removesuffix("*")

_MEANINGS = {
    ApiScope.AGENT_MESSAGE: "Send messages, as you, to the agents that you may use, and read their answers",
    ApiScope.CATALOG_READ: "Search and read the documents and collections you may read",
    ApiScope.CATALOG_WRITE: "Upload documents as you, and change or delete documents that you may change",
    ApiScope.ADMIN: "Act as you do as an admin: manage people, groups, access and credentials, and read the logs",
}
# No tool at /mcp does more for admins.
_ADMIN_AT_MCP = "See, as an admin, who can read a document and why, without changing anything"


def parse_scopes(text: str) -> tuple[str, ...] | None:
    """Parse a space-separated list of scopes, without duplicates and in order; None if a scope is unknown."""
    scopes = tuple(dict.fromkeys(text.split(" "))) if text else ()
    return scopes if all(is_api_scope(scope) for scope in scopes) else None


def covers(granted: Collection[str], scope: str) -> bool:
    return scope in granted or (scope.startswith(MESSAGE_PREFIX) and ApiScope.AGENT_MESSAGE in granted)


def intersect_scopes(scopes: Collection[str], *, to: Collection[str]) -> tuple[str, ...]:
    """Return the scopes allowed by both lists: from each list the scopes covered by the other, without duplicates."""
    theirs = (scope for scope in to if covers(scopes, scope))
    return tuple(dict.fromkeys([*(scope for scope in scopes if covers(to, scope)), *theirs]))


def agent_of(scope: str) -> UUID | None:
    """Return the agent of a scope for a single agent; None for every other scope."""
    is_single = scope.startswith(MESSAGE_PREFIX) and scope != ApiScope.AGENT_MESSAGE
    return UUID(scope.removeprefix(MESSAGE_PREFIX)) if is_single else None


def meaning(scope: str, *, audience: OAuthAudience = OAuthAudience.API, agent_name: str | None = None) -> str:
    """Describe a scope to a person. A scope for a single agent shows `agent_name`, by default the agent's id."""
    if scope == ApiScope.ADMIN and audience is OAuthAudience.MCP:
        return _ADMIN_AT_MCP
    known = _MEANINGS.get(ApiScope(scope)) if scope in set(ApiScope) else None
    agent = agent_name or scope.removeprefix(MESSAGE_PREFIX)
    return known or f"Send messages to the agent {agent}, as you, and read its answers"
