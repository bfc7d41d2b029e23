"""Routers with JSON bodies read only for known callers, and checked after their rights. FastAPI decodes a body first;
here a stranger's body costs no memory (30 MB of brackets take a gigabyte). An unreadable body is noted, so its 400, 413
or 415 keeps its place: 401, rights (403), room (507, or 503 while others are added), body."""

import inspect
import json
import re
from collections.abc import Awaitable, Callable, Coroutine
from email.message import Message as Headers
from functools import partial, wraps
from itertools import islice
from typing import Annotated, Any, Protocol, TypeAlias, TypeVar, cast

from fastapi import APIRouter, Query, Request, Response
from fastapi.routing import APIRoute
from sqlalchemy.ext.asyncio import AsyncConnection as Connection
from starlette.routing import Match
from starlette.types import Message, Receive, Scope

from carrel.wire.api import OPERATIONS
from carrel.wire.common import ActingRequest, RequestModel
from carrel.wire.operations import ADDS_DATA, CONFIRMED, KEYED, SECRET, ApiOperation
from service.auth.authorization import authorize, may_have_to_confirm, require_confirmation
from service.auth.callers import ACTING_MEMBERS, Caller, acting_for, acts_as_its_user
from service.platform.bodies import read_at_most
from service.platform.disk import Promise
from service.platform.errors import BadRequest, ServiceError, TooLarge, UnsupportedMedia, require
from service.runtime import Runtime
from service.web import dependencies
from service.web.existing_clients import body_of, complete_answer, rename_members
from service.web.guidance import sent_as
from service.web.idempotency import once_per_key
from service.web.multipart import declared_length

UNREADABLE = "carrel.unreadable_body"
PROMISE = "carrel.promise_of_room"
# A value needs up to seventy bytes and a microsecond, however short it is; a large body could contain ten million.
MOST_VALUES = 500_000
# Matches up to the next mark of a value, over whole strings (to the end if a string has none). It matches at any
# position, so it reads every byte once.
TO_NEXT_VALUE = re.compile(rb'[^",\[{]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)[^",\[{]*+)*+(?:[,\[{]|\Z)', re.DOTALL)
# Never valid where a model is wanted, so that an unreadable body always fails its validation.
NOT_A_BODY = object()

Endpoint: TypeAlias = Callable[..., Coroutine[Any, Any, Any]]
Decorator: TypeAlias = Callable[[Endpoint], Endpoint]
Sent = TypeVar("Sent", bound=RequestModel)
Answer = TypeVar("Answer")
_Sent_contra = TypeVar("_Sent_contra", bound=RequestModel, contravariant=True)
_Answer_co = TypeVar("_Answer_co", covariant=True)


# The parameters of a rule: request and caller, and the request's transaction, the runtime, or both.
class _OnConnection(Protocol[_Sent_contra, _Answer_co]):
    def __call__(self, *, connection: Connection, caller: Caller, request: _Sent_contra) -> Awaitable[_Answer_co]: ...


class _OnRuntime(Protocol[_Sent_contra, _Answer_co]):
    def __call__(self, *, runtime: Runtime, caller: Caller, request: _Sent_contra) -> Awaitable[_Answer_co]: ...


class _OnBoth(Protocol[_Sent_contra, _Answer_co]):
    def __call__(
        self, *, runtime: Runtime, connection: Connection, caller: Caller, request: _Sent_contra
    ) -> Awaitable[_Answer_co]: ...


class _WithoutRequest(Protocol[_Answer_co]):
    def __call__(self, *, connection: Connection, caller: Caller) -> Awaitable[_Answer_co]: ...


Rule: TypeAlias = (
    _OnConnection[Sent, Answer] | _OnRuntime[Sent, Answer] | _OnBoth[Sent, Answer] | _WithoutRequest[Answer]
)


class CheckedRoute(APIRoute):
    """A route for authorized callers. Absent members are left out of the response."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        self.operation = OPERATIONS[path.removeprefix("/")]
        options["response_model_exclude_none"] = True
        super().__init__(path, endpoint, **options)
        self.only_reads = any(item.call is dependencies.request_snapshot for item in self.dependant.dependencies)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Before the endpoint, check the caller's rights, confirmation and encoding, and promise room for added data.
        Endpoints with a body get a `CheckedRequest`."""
        handler = super().get_route_handler()

        async def checked(request: Request) -> Response:
            runtime = await dependencies.current_runtime(request)
            caller = await dependencies.current_caller(request, runtime)
            authorize(caller, self.operation.requires)
            if self.operation.has(CONFIRMED) and may_have_to_confirm(caller):
                async with runtime.database.transaction(caller.organization_id, read_only=True) as connection:
                    now = await runtime.clock.now(connection)
                    await require_confirmation(connection, caller, now=now, issuer=runtime.settings.issuer)
            _refuse_encoded(request)
            kind = CheckedRequest if self.body_field else Request
            if self.only_reads:
                request = kind(request.scope, request.receive)
                if self.body_field:
                    await request.json()
                answer = await dependencies.answer_from_snapshot(request, runtime, caller, partial(handler, request))
                return complete_answer(request.scope, answer)
            if not self.operation.has(ADDS_DATA):
                return complete_answer(request.scope, await handler(kind(request.scope, request.receive)))
            length = declared_length(request)
            with runtime.disk.room_for(length or 0) as promise:
                request.scope[PROMISE] = promise
                receive = request.receive if length is not None else _promise_pieces(request.receive, promise)
                return complete_answer(request.scope, await handler(kind(request.scope, receive)))

        return checked


def _promise_pieces(receive: Receive, promise: Promise) -> Receive:
    """Extend a promise of room with each piece of a body without a declared length."""

    async def receive_piece() -> Message:
        message = await receive()
        if piece := message.get("body"):
            promise.grow(len(piece))
        return message

    return receive_piece


def promise_of(request: Request) -> Promise:
    """Return the storage room promised to an adding request."""
    return cast("Promise", request.scope[PROMISE])


class Router(APIRouter):
    """The router of every domain. A route without a declared operation can't be created."""

    def __init__(self) -> None:
        super().__init__(route_class=CheckedRoute)
        self._ends: tuple[str, ...] = ()

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Compare a path with each route only if a route ends so: to compare it with all takes 7 % of a search."""
        return super().matches(scope) if scope["path"].endswith(self._ends) else (Match.NONE, {})

    def of_version(self, version: str) -> "Router":
        """Return the part of the router with the operations of a version of the API."""
        part = Router()
        part._ends = self._ends
        checked = (route for route in self.routes if isinstance(route, CheckedRoute))
        part.routes.extend(route for route in checked if route.operation.version in {None, version})
        return part

    def serve(
        self, operation: ApiOperation[Sent, Answer], rule: Rule[Sent, Answer], *, acting: bool = True, name: str = ""
    ) -> None:
        """Serve an operation with a rule. The rule's transaction commits before the response. The first paragraph of
        the rule's docstring describes the operation. `caller` is the user acted for, unless `acting=False`."""
        self._serve(operation, rule, dependencies.ConnectionDep, acting=acting, name=name)

    def read(
        self, operation: ApiOperation[Sent, Answer], rule: Rule[Sent, Answer], *, acting: bool = True, name: str = ""
    ) -> None:
        """Serve an operation, like `serve`, with a read-only rule on a `SnapshotDep`."""
        self._serve(operation, rule, dependencies.SnapshotDep, acting=acting, name=name)

    def _serve(
        self,
        operation: ApiOperation[Any, Any],
        rule: Callable[..., Awaitable[Any]],
        connection: object,
        *,
        acting: bool,
        name: str,
    ) -> None:
        signature = inspect.signature(rule, eval_str=True)
        model = cast("type[RequestModel]", operation.request)
        sources = {"runtime": dependencies.RuntimeDep, "connection": connection, "caller": dependencies.CallerDep}
        annotations = {parameter: sources[parameter] for parameter in signature.parameters if parameter != "request"}
        annotations["request"] = Annotated[model, Query()] if operation.method == "GET" else model
        acts = acting and issubclass(model, ActingRequest)
        if acts and "connection" not in annotations:
            msg = f"{rule.__name__} has no connection: let it call acting_for, and serve it with acting=False"
            raise TypeError(msg)
        wants_request = "request" in signature.parameters

        @wraps(rule)
        async def endpoint(request: Any, **values: Any) -> Any:
            if acts:
                values["caller"] = await acting_for(values["connection"], values["caller"], request.user_email)
            if wants_request:
                values["request"] = request
            return await rule(**values)

        # FastAPI reads this signature.
        parameters = [
            inspect.Parameter(parameter, inspect.Parameter.KEYWORD_ONLY, annotation=annotation)
            for parameter, annotation in annotations.items()
        ]
        endpoint.__signature__ = signature.replace(parameters=parameters)  # pyright: ignore[reportAttributeAccessIssue]
        endpoint.__doc__ = (rule.__doc__ or "").partition("\n\n")[0]
        self.operation(operation, name=name or rule.__name__)(endpoint)

    def operation(self, operation: ApiOperation[Any, Any], *, own_key: bool = False, **options: Any) -> Decorator:
        """Serve an operation with the decorated function, from request to response. An Idempotency-Key runs the
        function once if the operation says so; with `own_key` the function handles the key. `options` are FastAPI's."""

        def serve(endpoint: Endpoint) -> Endpoint:
            once = endpoint
            if operation.has(KEYED) and not own_key:
                once = once_per_key(endpoint, shows_secret=operation.has(SECRET))
            route = {"methods": [operation.method], "deprecated": operation.is_deprecated or None}
            self._ends += ("" if "{" in operation.path else f"/{operation.path}",)
            self.add_api_route(f"/{operation.path}", once, **route, **options)
            return endpoint

        return serve


class CheckedRequest(Request):
    """A request with a limited body of strict JSON in UTF-8. Faults are stored in the scope, not raised."""

    async def body(self) -> bytes:
        """Return the body, read up to the limit, with an older query as JSON; a placeholder if it is unreadable."""
        if not hasattr(self, "_body"):
            try:
                self._body = await self._read_json()
            except ServiceError as error:
                self._body = self._note_unreadable(error)
        return self._body

    async def json(self) -> Any:
        """Return the decoded body with newer names, cached; `NOT_A_BODY` if it is unreadable."""
        if not hasattr(self, "_json"):
            self._json = self._decode(await self.body())
        return self._json

    def _decode(self, content: bytes) -> Any:
        if UNREADABLE in self.scope:
            return NOT_A_BODY
        try:
            decoded = decode(content)
            return (
                _refuse_acting(decoded)
                if dependencies.version_of(self) == "v1"
                else rename_members(self.scope, decoded)
            )
        except ServiceError as error:
            self._note_unreadable(error)
            return NOT_A_BODY

    def _note_unreadable(self, error: ServiceError) -> bytes:
        self.scope[UNREADABLE] = error
        return b"unreadable"

    async def _read_json(self) -> bytes:
        limit = cast("int", self.app.state.runtime.settings.max_json_bytes)
        if (declared_length(self) or 0) > limit:
            raise _too_large(limit)
        received = require(await read_at_most(self.stream(), most_bytes=limit), _too_large(limit))
        content = body_of(self.scope, received)
        if content and not _is_json(self.headers.get("content-type", "")):
            raise UnsupportedMedia(
                f"This endpoint accepts JSON in UTF-8. Send it with Content-Type: application/json{sent_as(self)}."
            )
        if not content:
            raise BadRequest("The request has no body. Send a JSON object, or {} if it needs no members.")
        return content


def decode(content: bytes) -> Any:
    """Decode strict JSON: UTF-8, unique members, no NaN or Infinity, only characters (no NUL, no half of a surrogate
    pair). Raises BadRequest, which names the fault without contents, and TooLarge for too many values."""
    if _holds_too_much(content):
        raise TooLarge(f"The body holds more than {MOST_VALUES:,} values. Send fewer values at a time.")
    try:
        decoded = json.loads(
            content.decode("utf-8"), parse_constant=_refuse_constant, object_pairs_hook=_unique_members
        )
        if b"\\u" in content:
            _refuse_unstorable(decoded)
    except UnicodeDecodeError as exc:
        raise BadRequest("The body is not UTF-8. Encode it as UTF-8, without a byte order mark.") from exc
    except json.JSONDecodeError as exc:
        raise BadRequest(f"The body is not JSON: {exc.msg} at character {exc.pos}.{_guess_slip(exc)}") from exc
    except (ValueError, RecursionError) as exc:
        raise BadRequest("The JSON has a number that is too long, or is nested too deeply. Send simpler JSON.") from exc
    return decoded


def _guess_slip(error: json.JSONDecodeError) -> str:
    text, start = error.doc.rstrip(), error.doc[:1]
    if start == "\ufeff":
        return " Send the body without the byte order mark."
    if error.pos >= len(text) and start in {"{", "["}:
        return " It ends too early: it is incomplete, or a bracket is missing."
    if "'" in text[:2] or text[error.pos : error.pos + 1] == "'":
        return " Put names and texts in double quotes instead of single quotes."
    if "=" in text[:100] and start not in {"{", "["}:
        return " It looks like a form. Send a JSON object instead."
    return ""


def _refuse_acting(decoded: Any) -> Any:
    """Return a body of v1. Raises BadRequest for a member that names a user to act for, which only v0 has."""
    members = cast("dict[str, Any]", decoded) if isinstance(decoded, dict) else {}
    for name in ACTING_MEMBERS:
        if name in members:
            raise acts_as_its_user(name)
    return cast("Any", decoded)


def _holds_too_much(content: bytes) -> bool:
    # Counting bytes is enough for most bodies; in larger bodies, marks inside strings don't count.
    if sum(content.count(mark) for mark in (b",", b"[", b"{")) <= MOST_VALUES:
        return False
    # After the last mark, the pattern matches twice more: the rest, and the empty end.
    return next(islice(TO_NEXT_VALUE.finditer(content), MOST_VALUES + 2, None), None) is not None


def _unique_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise BadRequest("An object in the body has a member twice. Send each member once.")
    return members


def _refuse_constant(_name: str) -> None:
    raise BadRequest("NaN and Infinity are not JSON. Send a number, or leave out the member.")


def _refuse_unstorable(decoded: Any) -> None:
    text = json.dumps(decoded, ensure_ascii=False)
    # json.dumps escapes NUL again, and a backslash before a harmless "u0000" too.
    if "\\u0000" in text.replace("\\\\", ""):
        raise BadRequest("A string contains a NUL character. Remove it.")
    try:
        text.encode()
    except UnicodeEncodeError as exc:
        raise BadRequest("A string contains half of a surrogate pair, so it is not Unicode text.") from exc


def _refuse_encoded(request: Request) -> None:
    """Refuse a compressed body: the real size would be known too late."""
    if request.headers.get("content-encoding", "identity").strip().lower() not in {"", "identity"}:
        raise UnsupportedMedia(
            "Send the body without a Content-Encoding.",
            code="content_encoding_unsupported",
            headers={"Accept-Encoding": "identity"},
        )


def _is_json(content_type: str) -> bool:
    """Return whether a Content-Type is JSON in UTF-8, with or without a charset (RFC 8259, sections 8.1 and 11)."""
    header = Headers()
    header["Content-Type"] = content_type
    charset = str(header.get_param("charset", "utf-8")).lower()
    return header.get_content_type() == "application/json" and charset in {"utf-8", "utf8"}


def _too_large(limit: int) -> TooLarge:
    return TooLarge(f"The body is larger than {limit} bytes. Send less at a time.")
