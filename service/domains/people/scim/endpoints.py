"""SCIM's endpoints, and the admin extension admin/scimTokens. The protocol's library loads at the first request."""

import asyncio
import json
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qsl

from anyio import to_thread
from fastapi import APIRouter, Request, Response

from carrel.wire import scim_tokens as wire
from service.domains.people.scim import tokens
from service.domains.people.scim.queries import ScimCaller
from service.domains.people.scim.tokens import PATH
from service.platform import errors
from service.platform.bodies import read_at_most
from service.platform.logs import logger
from service.runtime import Runtime
from service.web.dependencies import RuntimeDep
from service.web.routing import Router, decode

if TYPE_CHECKING:
    from scim2_server.requests import ScimRequest
    from scim2_server.responses import ScimResponse

router = Router()
scim_router = APIRouter(include_in_schema=False)
MEDIA_TYPE = "application/scim+json"
MOST_OPERATIONS = 1000
LONGEST_FILTER = 10_000
METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]


router.serve(wire.ADMIN_SCIM_TOKENS_CREATE, tokens.create_token)
router.read(wire.ADMIN_SCIM_TOKENS_LIST, tokens.list_tokens)
router.serve(wire.ADMIN_SCIM_TOKENS_REVOKE, tokens.revoke_token)


@scim_router.api_route(PATH, methods=METHODS)
@scim_router.api_route(f"{PATH}/{{path:path}}", methods=METHODS)
async def scim(request: Request, runtime: RuntimeDep, path: str = "") -> Response:
    """Answer an identity provider (RFC 7644). Errors also have SCIM's form."""
    serving = await asyncio.to_thread(import_module, "service.domains.people.scim.serving")
    try:
        caller = await _authenticate_or_count_failure(request, runtime)
        await runtime.rate_limits.count_request(caller.token_id)
        return _to_response(await _answer_or_record(runtime, caller, await _read_request(request, runtime, path)))
    except serving.Refused as refused:
        return _to_response(refused.answer)
    except errors.ServiceError as error:
        return _to_response(serving.refusal_of(error))
    except errors.DATABASE_ERRORS as error:
        return _to_response(serving.refusal_of(errors.answer_for_database(request, error)))


async def _authenticate_or_count_failure(request: Request, runtime: Runtime) -> ScimCaller:
    try:
        async with runtime.database.transaction(None) as connection:
            return await tokens.authenticate(connection, request.headers.get("authorization"))
    except errors.Unauthenticated:
        await runtime.rate_limits.count_failure(request.client.host if request.client else None)
        raise


async def _read_request(request: Request, runtime: Runtime, path: str) -> "ScimRequest":
    from scim2_server.requests import ScimRequest  # noqa: PLC0415 - see above

    limit = runtime.settings.max_json_bytes
    body = await read_at_most(request.stream(), most_bytes=limit)
    if body is None:
        raise errors.TooLarge(f"The body is larger than {limit} bytes. Send fewer members at a time.")
    if body:
        _refuse_long(await to_thread.run_sync(decode, body))
    try:
        query = dict(parse_qsl(request.scope["query_string"].decode(), keep_blank_values=True, max_num_fields=100))
    except ValueError as exc:
        raise errors.BadRequest("The address has too many parameters, or they are not UTF-8.") from exc
    return ScimRequest(
        method=request.method,
        base_url=tokens.base_url(runtime.settings),
        path=f"/{path}",
        query=query,
        headers=request.headers.items(),
        body=body,
    )


def _refuse_long(decoded: Any) -> None:
    """Refuse slow requests for the library: a PATCH with too many operations, or a filter that is too long."""
    given = cast("dict[str, Any]", decoded) if isinstance(decoded, dict) else {}
    members = {name.lower(): value for name, value in given.items()}
    operations, text = members.get("operations"), members.get("filter")
    if isinstance(operations, list) and len(cast("list[Any]", operations)) > MOST_OPERATIONS:
        raise errors.TooLarge(f"There are more than {MOST_OPERATIONS} operations. Put more members in each operation.")
    if isinstance(text, str) and len(text) > LONGEST_FILTER:
        raise errors.TooLarge(f"The filter has more than {LONGEST_FILTER} characters. Split it into smaller filters.")


async def _answer_or_record(runtime: Runtime, caller: ScimCaller, asked: "ScimRequest") -> "ScimResponse":
    from service.domains.people.scim.serving import answer  # noqa: PLC0415 - see above
    from service.domains.people.scim.storage import Storage  # noqa: PLC0415 - likewise

    organization_id = caller.organization_id
    reads = asked.method == "GET" or asked.path.endswith("/.search")
    options: dict[str, Any] = {"isolation": "REPEATABLE READ", "read_only": True} if reads else {}
    try:
        async with runtime.database.transaction(organization_id, **options) as connection:
            storage = Storage(connection, caller, writes=not reads, trash_days=runtime.settings.trash_days)
            return await to_thread.run_sync(answer, storage, asked)
    except errors.ServiceError as error:
        logger.warning("provisioning_refused", code=error.code, method=asked.method)
        async with runtime.database.transaction(organization_id) as connection:
            await tokens.record_refusal(connection, caller, error=error, method=asked.method, path=asked.path)
        raise


def _to_response(answer: "ScimResponse") -> Response:
    content = b"" if answer.body is None else json.dumps(answer.body, ensure_ascii=False).encode()
    headers = {**answer.headers, "Content-Type": MEDIA_TYPE}
    return Response(content, status_code=int(answer.status), headers=headers)
