"""Every table of the service, imported so that `service.database.metadata` is complete."""

from service.agents import tables as agents
from service.audit import tables as audit
from service.catalog import tables as catalog
from service.collections import tables as collections
from service.conversations import tables as conversations
from service.database import metadata
from service.deployment import tables as deployment
from service.docstore import tables as docstore
from service.idempotency import tables as idempotency
from service.identity import tables as identity
from service.indexing import tables as indexing
from service.oauth import tables as oauth
from service.permissions import tables as permissions
from service.rebuilds import tables as rebuilds
from service.search import tables as search
from service.signin import tables as signin

__all__ = [
    "agents",
    "audit",
    "catalog",
    "collections",
    "conversations",
    "deployment",
    "docstore",
    "idempotency",
    "identity",
    "indexing",
    "metadata",
    "oauth",
    "permissions",
    "rebuilds",
    "search",
    "signin",
]
