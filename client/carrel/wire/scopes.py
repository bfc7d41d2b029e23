"""Scopes: what a service-account token, or an access token, may be used for (seed, "Scopes")."""

from enum import StrEnum


class Scope(StrEnum):
    """What a service-account token may be used for; it never widens the account's access."""

    AGENT_MESSAGE = "agent:message"
    CATALOG_WRITE = "catalog:write"
    CATALOG_READ = "catalog:read"


class ApiScope(StrEnum):
    """What an access token may be used for on v1, beside `api:agent:message:<agentId>` for a single agent."""

    AGENT_MESSAGE = "api:agent:message:*"
    CATALOG_READ = "api:catalog:read"
    CATALOG_WRITE = "api:catalog:write"
    ADMIN = "api:admin"
