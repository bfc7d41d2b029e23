"""Every operation of the API, by its path."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, cast

from carrel.wire.operations import ApiOperation

MODULES = [
    import_module(f"carrel.wire.{name}")
    for name in (
        "uploads",
        "catalog",
        "document_changes",
        "trash",
        "pages",
        "collections",
        "rebuilds",
        "docstore",
        "sources",
        "search",
        "own_searches",
        "permissions",
        "messages",
        "conversations",
        "agents",
        "me",
        "organization",
        "admin",
        "people",
        "api_keys",
        "access",
        "owners",
        "service_accounts",
        "scim_tokens",
        "oauth_clients",
        "oversight",
        "question_log",
        "sessions",
        "sign_in_providers",
        "evaluation",
        "evaluation_runs",
        "alerts",
    )
]
_ALL = [
    cast("ApiOperation[Any, Any]", var)
    for module in MODULES
    for var in vars(module).values()
    if isinstance(var, ApiOperation)
]
OPERATIONS: Mapping[str, ApiOperation[Any, Any]] = {one.path: one for one in _ALL}
