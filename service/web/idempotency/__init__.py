"""`Idempotency-Key`: a request sent twice is done once, with an identical response. `service.web.routing` wraps an
endpoint in `once_per_key` after all checks. The response is stored in the request's transaction (`ConnectionDep`), so
work and response never diverge. Errors are not stored: the key can be used again."""

import functools
import hashlib
import inspect
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any, ParamSpec, TypeVar, cast

from fastapi import Depends, Request
from fastapi.responses import Response
from pydantic import BaseModel
from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from service.platform.errors import BadRequest, Conflict
from service.web.dependencies import CallerDep, ConnectionDep
from service.web.idempotency import queries
from service.web.idempotency.queries import Kept, Key

HEADER = "Idempotency-Key"
REPLAYED = "Idempotent-Replayed"
KEY_SHAPE = re.compile(r"[\x21-\x7e]{1,255}", re.ASCII)
PARAMETER = "idempotency"

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result", bound=BaseModel)
Endpoint = Callable[Parameters, Awaitable[Result]]


@dataclass(frozen=True)
class Attempt:
    """A request, with or without an idempotency key, in its transaction."""

    request: Request
    response: Response
    connection: Connection
    key: Key | None

    async def claim(self) -> Kept | None:
        """Claim the key (None; also without a key), or return the stored response. Raises Conflict if it is foreign."""
        if self.key is None:
            return None
        digest = hashlib.sha256(self.request.url.path.encode() + b"\n" + await self.request.body()).digest()
        response = await queries.claim(self.connection, self.key, request_digest=digest)
        if response is not None and response.request_digest != digest:
            raise Conflict(f"This {HEADER} was used for another request. Use a new key.", code="idempotency_key_reused")
        return response

    async def keep(self, body: bytes) -> None:
        """Store `body` and the response's headers under the key claimed by the transaction, if any."""
        if self.key is not None:
            await queries.keep(self.connection, self.key, body=body, headers=dict(self.response.headers))


def idempotency_key(request: Request) -> str | None:
    """Return the request's key, None without a key. Raises 400 unless the key is 1 to 255 visible ASCII characters."""
    value = request.headers.get(HEADER)
    if value is not None and not KEY_SHAPE.fullmatch(value):
        raise BadRequest(f"{HEADER} must have 1 to 255 visible ASCII characters.", code="invalid_idempotency_key")
    return value


async def attempt_of(request: Request, response: Response, caller: CallerDep, connection: ConnectionDep) -> Attempt:
    """Read the request's key, if any; it belongs to the caller. Raises BadRequest like `idempotency_key`."""
    value = idempotency_key(request)
    if value is None:
        return Attempt(request, response, connection, None)
    # A key may be any text, even a secret, so store only its digest.
    digest = hashlib.sha256(value.encode()).hexdigest()
    key = Key(organization_id=caller.organization_id, principal_id=caller.principal_id, digest=digest)
    return Attempt(request, response, connection, key)


AttemptDep = Annotated[Attempt, Depends(attempt_of)]


def once_per_key(endpoint: Endpoint[Parameters, Result], *, shows_secret: bool) -> Endpoint[Parameters, Result]:
    """Run requests with an equal key once, and replay the response for 24 hours. A response that `shows_secret` isn't
    stored: a replay is 409 `already_done`. Requests without a key run each time."""

    @functools.wraps(endpoint)
    async def once(*args: Any, **kwargs: Any) -> Any:
        attempt = cast("Attempt", kwargs.pop(PARAMETER))
        if attempt.key is None:
            return await endpoint(*args, **kwargs)
        if response := await attempt.claim():
            if response.body is None:
                raise Conflict(
                    "This request was already done. Its response showed a secret once. If you lost it, create another.",
                    code="already_done",
                )
            return Response(response.body, media_type="application/json", headers=response.headers | {REPLAYED: "true"})
        body = (await endpoint(*args, **kwargs)).model_dump_json(by_alias=True, exclude_none=True).encode()
        if not shows_secret:
            await attempt.keep(body)
        return Response(body, media_type="application/json", headers=dict(attempt.response.headers))

    # FastAPI reads this signature: the endpoint's, with another dependency.
    signature = inspect.signature(endpoint, eval_str=True)
    more = inspect.Parameter(PARAMETER, inspect.Parameter.KEYWORD_ONLY, annotation=AttemptDep)
    parameters = [*signature.parameters.values(), more]
    once.__signature__ = signature.replace(parameters=parameters)  # pyright: ignore[reportAttributeAccessIssue]
    return once
