"""The scopes that a message needs and its token lacks, requested by a challenge (RFC 6750, section 3.1)."""

from collections.abc import Sequence
from typing import Any, cast

from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.requests import Request

from carrel.wire.catalog import GET_DOCUMENT, LIST_DOCUMENTS
from carrel.wire.operations import ApiOperation
from carrel.wire.scopes import ApiScope
from service.auth.audiences import challenge
from service.auth.authorization import authorize
from service.auth.callers import Caller
from service.auth.queries import get_grantable
from service.auth.scopes import covers
from service.mcp.server import TOOLS
from service.platform.errors import Forbidden
from service.runtime import Runtime

_OF_METHODS: dict[str, Sequence[ApiOperation[Any, Any]]] = {
    "resources/list": (LIST_DOCUMENTS,),
    "resources/read": (GET_DOCUMENT,),
}


async def require_scopes(request: Request, runtime: Runtime, caller: Caller, message: object) -> None:
    """Raise Forbidden `missing_scope` with a challenge if the person could grant the missing scopes. Asking is
    pointless if the client may not request them or only an admin grants them: the message's handler refuses later."""
    operations = _operations_of(message)
    refused = next((error for item in operations if (error := _refusal(caller, item)) is not None), None)
    if refused is None or refused.code != "missing_scope":
        return
    scopes = {str(scope) for operation in operations if (scope := operation.requires.api_scope) is not None}
    async with runtime.database.transaction(caller.organization_id) as connection:
        grantable = await get_grantable(connection, caller.organization_id, token_id=caller.credential_id)
    if grantable is None or not all(covers(grantable.client_scopes, scope) for scope in scopes):
        return
    if ApiScope.ADMIN in scopes and not grantable.is_admin:
        return
    revision = request.headers.get(MCP_PROTOCOL_VERSION_HEADER)
    if revision is None or revision in HANDSHAKE_PROTOCOL_VERSIONS:
        # Clients of these revisions request exactly the named scopes, and would lose the scopes that they have.
        scopes |= caller.scopes or frozenset()
    wanted = " ".join(sorted(scopes))
    refused.headers["WWW-Authenticate"] = challenge(runtime.settings.issuer, error="insufficient_scope", scope=wanted)
    raise refused


def _operations_of(message: object) -> Sequence[ApiOperation[Any, Any]]:
    """Return the operations behind a call of a tool or a look at resources; none for other messages."""
    if not isinstance(message, dict):
        return ()
    said = cast("dict[str, object]", message)
    method, params = said.get("method"), said.get("params")
    if not isinstance(method, str):
        return ()
    if method != "tools/call" or not isinstance(params, dict):
        return _OF_METHODS.get(method, ())
    name = cast("dict[str, object]", params).get("name")
    tool = TOOLS.get(name) if isinstance(name, str) else None
    return () if tool is None else tool.operations


def _refusal(caller: Caller, operation: ApiOperation[Any, Any]) -> Forbidden | None:
    try:
        authorize(caller, operation.requires)
    except Forbidden as error:
        return error
    return None
