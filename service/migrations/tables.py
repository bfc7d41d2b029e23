"""Every table of the service, imported so that `service.platform.database.metadata` is complete."""

from service.platform.database import metadata
from service.schema import (
    agents,
    audit,
    catalog,
    collections,
    conversations,
    deployment,
    docstore,
    evaluation,
    idempotency,
    identity,
    indexing,
    oauth,
    permissions,
    rebuilds,
    search,
    signin,
    sources,
)

__all__ = [
    "agents",
    "audit",
    "catalog",
    "collections",
    "conversations",
    "deployment",
    "docstore",
    "evaluation",
    "idempotency",
    "identity",
    "indexing",
    "metadata",
    "oauth",
    "permissions",
    "rebuilds",
    "search",
    "signin",
    "sources",
]
