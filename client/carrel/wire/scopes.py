"""Scopes of service-account tokens and access tokens (seed, "Scopes")."""

from enum import StrEnum


class Scope(StrEnum):
    """Allowed use of a service-account token; never more than the account's access."""

    AGENT_MESSAGE = "agent:message"
    CATALOG_WRITE = "catalog:write"
    CATALOG_READ = "catalog:read"


class ApiScope(StrEnum):
    """Allowed use of an access token on v1, in addition to `api:agent:message:<agentId>` for a single agent."""

    AGENT_MESSAGE = "api:agent:message:*"
    CATALOG_READ = "api:catalog:read"
    CATALOG_WRITE = "api:catalog:write"
    ADMIN = "api:admin"
