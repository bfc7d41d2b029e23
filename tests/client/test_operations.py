"""Every operation sends the contract's request, and reads the response."""

import functools
import inspect
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, get_origin
from uuid import UUID

import pytest
from pydantic.alias_generators import to_camel, to_snake

from carrel import Carrel, InvalidArgumentError, RawResponse, UnexpectedResponseError
from carrel._operations import DownloadOperation, FlowOperation, ListOperation, Operation, Resource, StreamOperation
from carrel.wire.common import PagedResponse, ResourceIdentifier, ResourceType
from tests.client.conftest import ACCESS_TOKEN, API_KEY, Caller, MakeCaller
from tests.client.contract import OPERATIONS, Described
from tests.client.samples import DOCUMENT_ID, OTHER_ID, RESOURCE
from tests.client.server import Received, Server, raw

Members = dict[str, Any]
ANY_OPERATION = Operation, ListOperation, DownloadOperation, FlowOperation, StreamOperation


def methods_of(resource: type, place: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the operations of a client or resource and its sub-resources, by path."""
    for name, member in inspect.getmembers_static(resource):
        getter = getattr(member, "fget", None) or getattr(member, "func", None)
        kind = get_origin(getter.__annotations__.get("return")) if getter else None
        if isinstance(member, ANY_OPERATION):
            yield place + name, member
        elif kind and issubclass(kind, Resource) and name != "with_raw_response":
            yield from methods_of(kind, f"{place}{name}.")


METHODS = dict(methods_of(Carrel))
# Methods with other names than the operations that they call.
NAMES = {
    "agents.list": "agents",
    "agents.fetch_response": "agents/fetchAgentResponse",
    "agents.stream_response": "agents/streamAgentResponse",
    "conversations.list": "conversations",
    "conversations.get": "conversations/{conversationId}",
}
# Methods that send or return no JSON, or that make several calls: other modules are about them.
UPLOADS = {"catalog.upload_file", "catalog.upload_document_file"}
MESSAGES = {"agents.send_message", "agents.provide_message_feedback"}
COMPOSED = {"agents.send_and_wait", "agents.stream", "admin.directory.plan", "admin.directory.apply"}
# Operations for programs from before the SDK, which has a better way for each (docs/existing-clients.md).
FOR_EXISTING_CLIENTS = {"catalog/uploadDocumentContents", "copilots/createConversation", "copilots/streamMessage"}
LISTS = sorted(place for place, method in METHODS.items() if isinstance(method, ListOperation))
DOWNLOADS = sorted(place for place, method in METHODS.items() if isinstance(method, DownloadOperation))
SINGLE = sorted(
    place for place, method in METHODS.items() if isinstance(method, Operation) and place not in UPLOADS | MESSAGES
)

# Members that exclude each other, so that each request leaves some of them out.
LEFT_OUT = {
    "admin/alertRules/create": [{"emails"}, {"webhookUrl"}],
    "admin/evaluationSets/create": [{"agentId"}, {"documentCollectionId"}, {"agentId", "documentCollectionId"}],
    "admin/owners/transfer": [{"resources"}, {"owner", "resourceTypes"}],
    "admin/serviceAccountTokens/previewReach": [{"tokenId"}, {"serviceAccountId", "scopes"}],
    # The SDK has no parameter for input variables.
    "copilots/sendMessage": [{"inputVariables"}, {"inputVariables", "conversationId", "userEmail"}],
}
OAUTH_CLIENT = {"redirectUris": ["https://intranet.example.com/callback"], "scopes": ["api:catalog:read"]}
# Values with more rules than a schema tells.
OWN_VALUES: dict[str, Members] = {
    "admin/oauthClients/create": OAUTH_CLIENT | {"audience": "mcp"},
    "admin/oauthClients/request": OAUTH_CLIENT | {"audience": "mcp"},
    "admin/oauthClients/update": OAUTH_CLIENT,
    "admin/evaluationSets/addRun": {
        "results": [
            {"caseId": OTHER_ID, "ndcg": 0.5, "recall": 1.0, "reciprocalRank": 0.25, "found": ["travel"]},
            {"caseId": DOCUMENT_ID, "found": [], "error": "The model is away."},
        ]
    },
}
# Values that methods send for members that a caller leaves out, where the contract has no default or another.
DEFAULTS = {"action": "READ", "bucket": "day", "principals": [], "pageSize": 100}


def name_of(place: str) -> str:
    return NAMES.get(place, "/".join(map(to_camel, place.split("."))).replace("/indexRebuilds/", "/"))


def requests_of(operation: Described) -> list[Members]:
    whole = operation.request() | OWN_VALUES.get(operation.name, {})
    fewest = (whole.keys() - operation.required) | DEFAULTS.keys()
    return [
        {name: value for name, value in whole.items() if name not in left_out}
        for left_out in LEFT_OUT.get(operation.name, [set(), fewest])
    ]


def in_python(value: Any) -> Any:
    if isinstance(value, dict):
        return {"from_" if name == "from" else to_snake(name): in_python(member) for name, member in value.items()}
    return [in_python(one) for one in value] if isinstance(value, list) else value


def arguments_of(method: Any, request: Members) -> Members:
    """Return the arguments for a request; some methods take an object's members as parameters."""
    parameters = inspect.signature(method).parameters
    takes_any = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
    found: Members = {}
    for name, value in in_python(request).items():
        known = takes_any or name in parameters
        assert known or isinstance(value, dict), f"{method} has no parameter {name}"
        found |= {name: value} if known else value
    return found


def call(client: Any, place: str, request: Members, *, via: str = "") -> Any:
    *path, name = place.split(".")
    method = getattr(functools.reduce(getattr, [*path, *via.split()], client), name)
    return method(**arguments_of(method, request))


def dump(result: Any) -> Any:
    if isinstance(result, list):
        return [dump(one) for one in result]
    return result.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_computed_fields=True)


def check(sent: Received, operation: Described, request: Members) -> None:
    in_path = {name: value for name, value in request.items() if f"{{{name}}}" in operation.path}
    assert (sent.method, sent.path) == (operation.method, operation.path.format(**in_path))
    assert sent.headers["authorization"] == f"Bearer {API_KEY if operation.version == 'v0' else ACCESS_TOKEN}"
    assert ("idempotency-key" in sent.headers) == operation.is_keyed
    members = sent.query if operation.method == "GET" else sent.json
    always = operation.required | ({"pageSize"} & operation.members.keys())
    own_defaults = {name: value for name, value in DEFAULTS.items() if name in always}
    defaults = operation.defaults() | own_defaults
    expected = own_defaults | {name: defaults[name] for name in members.keys() - request.keys()} | request
    if operation.method == "GET":
        assert (sent.body, {"content-type", "content-length"} & sent.headers.keys()) == (b"", set())
        written = {name: "true" if value is True else str(value) for name, value in expected.items()}
        expected = {name: value for name, value in written.items() if name not in in_path}
    assert members == expected


@pytest.fixture
def client_for(make_caller: MakeCaller) -> Callable[[Described], Caller]:
    person = {"api_key": None, "access_token": ACCESS_TOKEN}
    return lambda operation: make_caller(**person if operation.version == "v1" else {})


@pytest.mark.parametrize("place", SINGLE)
async def test_operation(client_for: Callable[[Described], Caller], server: Server, place: str) -> None:
    operation = OPERATIONS[name_of(place)]
    client, answer = client_for(operation), operation.response()
    for request in requests_of(operation):
        server.will(answer)
        result = await client(lambda c, request=request: call(c, place, request))
        check(server.received.pop(), operation, request)
        assert type(result).__name__ == operation.answer_type
        assert dump(result) == answer


@pytest.mark.parametrize("place", LISTS)
async def test_list_operation(client_for: Callable[[Described], Caller], server: Server, place: str) -> None:
    operation = OPERATIONS[name_of(place)]
    client, answer = client_for(operation), operation.response() | {"nextPageToken": "a+b &c=/é"}
    last = {name: value for name, value in answer.items() if name != "nextPageToken"}
    [rows] = [value for value in answer.values() if isinstance(value, list) and isinstance(value[0], dict)]
    for request in requests_of(operation):
        server.will(answer, last, answer)
        assert dump(await client.walk(call(client.client, place, request))) == rows * 2
        page = await client(lambda c, request=request: call(c, place, request, via="with_raw_response"))
        assert type(page.parsed).__name__ == operation.answer_type
        assert dump(page.parsed) == answer
        first, second, again = server.received
        check(first, operation, request)
        check(second, operation, request | {"pageToken": answer["nextPageToken"]})
        check(again, operation, request)
        server.received.clear()


@pytest.mark.parametrize("place", DOWNLOADS)
async def test_download_operation(client_for: Callable[[Described], Caller], server: Server, place: str) -> None:
    operation = OPERATIONS[name_of(place)]
    client = client_for(operation)
    for request in requests_of(operation):
        server.will(raw(b"file"))
        await client.enter(await client(lambda c, request=request: call(c, place, request)))
        check(server.received.pop(), operation, request)


def test_every_operation_has_a_described_method() -> None:
    names = [name_of(place) for place in METHODS.keys() - COMPOSED]
    assert sorted([*names, *FOR_EXISTING_CLIENTS]) == sorted(OPERATIONS)
    assert all(method.__doc__ for method in METHODS.values())


def test_arguments_by_position_stand_in_the_contracts_order() -> None:
    """Programs rely on the position of positional arguments."""
    by_position = 0
    for place in SINGLE + LISTS:
        method = METHODS[place]._call
        parameters = inspect.signature(method).parameters.values()
        found = [one.name for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD and one.name != "self"]
        arguments = arguments_of(method, OPERATIONS[name_of(place)].request() | {"inputVariables": {}})
        assert found == [name for name in arguments if name in found], place
        by_position += len(found)
    assert by_position > 100


JUDGED = {"question": " Dogs? ", "judgements": [{"document_external_id": "travel", "grade": 2}]}
JANUARY = {"from_": "2026-01-01T02:00:00+02:00", "to": datetime(2026, 2, 1, tzinfo=UTC)}


@pytest.mark.parametrize(
    ("operate", "sent"),
    [
        (
            lambda c: c.admin.evaluation_sets.put_judgements(OTHER_ID, [JUDGED]),
            {"cases": [{"question": "Dogs?", "judgements": [{"documentExternalId": "travel", "grade": 2}]}]},
        ),
        (lambda c: c.admin.sign_in_providers.update(OTHER_ID, domains=["Example.com"]), {"domains": ["example.com"]}),
        (
            lambda c: c.admin.search_log.summarize(**JANUARY),
            {"from": "2026-01-01T00:00:00Z", "to": "2026-02-01T00:00:00Z"},
        ),
        (lambda c: c.admin.agents.update(UUID(OTHER_ID), model=None), {"agentId": OTHER_ID, "model": None}),
        (
            lambda c: c.admin.grants.set_many([{"resource": RESOURCE, "grants": []}]),
            {"resources": [{"resource": RESOURCE, "grants": [], "organizationWide": False}]},
        ),
    ],
)
async def test_values_are_converted(caller, server, operate, sent) -> None:
    server.will({})
    with pytest.raises(UnexpectedResponseError):
        await caller(operate)
    assert server.received[0].json.items() >= sent.items()


async def test_with_raw_response(caller: Caller, server: Server) -> None:
    server.will({"documentId": DOCUMENT_ID}, {"documents": [], "nextPageToken": "more"})
    answer = await caller(lambda c: c.catalog.with_raw_response.delete_document(DOCUMENT_ID))
    assert isinstance(answer, RawResponse)
    assert (answer.status_code, answer.parsed.document_id) == (200, UUID(DOCUMENT_ID))
    assert answer.content.startswith(b"{")
    assert answer.headers["content-type"] == "application/json"
    page = await caller(lambda c: c.catalog.with_raw_response.list_documents())
    assert isinstance(page.parsed, PagedResponse)
    assert page.parsed.next_page_token == "more"


async def test_pages(caller: Caller, server: Server) -> None:
    one, two = {"resources": [RESOURCE], "nextPageToken": "more"}, {"resources": []}
    pager = caller.client.permissions.list_authorized_resources(page_size=1)
    assert not server.received
    for _ in range(2):
        server.will(one, two)
        assert [len(page.resources) for page in await caller.walk(pager.pages())] == [1, 0]
    assert [request.json.get("pageToken") for request in server.received] == [None, "more"] * 2


async def test_pager_that_does_not_advance(caller: Caller, server: Server) -> None:
    """A repeated token raises an error instead of an endless loop."""
    server.will(*[{"resources": [RESOURCE], "nextPageToken": "same"}] * 3)
    with pytest.raises(Exception, match="can't continue"):
        await caller.walk(caller.client.permissions.list_authorized_resources())
    assert len(server.received) == 2


@pytest.mark.parametrize(
    ("operate", "named"),
    [
        (lambda c: c.catalog.get_document("not-an-id"), "document_id"),
        (lambda c: c.search.search_document_catalog("x", max_results=101), "max_results"),
        (lambda c: c.search.search_document_catalog("a\0b"), "search_query"),
        (lambda c: c.search.search_document_catalog("x", resource_types="AGENT"), "resource_types"),
        (lambda c: c.admin.users.upsert([{"email": "ada@example.com", "rank": 1}]), "users.0.rank"),
        (lambda c: c.permissions.check_bulk_resources_authorization_for_user([RESOURCE] * 1001), "resources"),
        (lambda c: c.admin.service_account_tokens.mint(OTHER_ID, "x", scopes="catalog:read"), "scopes"),
        (lambda c: c.admin.service_account_tokens.preview_reach(OTHER_ID), "scopes"),
        (lambda c: c.admin.service_account_tokens.preview_reach(OTHER_ID, [], token_id=OTHER_ID), "tokenId"),
    ],
)
async def test_arguments_are_checked(caller: Caller, server: Server, operate: Callable[[Any], Any], named: str) -> None:
    with pytest.raises(InvalidArgumentError, match=named) as refused:
        await caller(operate)
    assert "Value error" not in str(refused.value)
    assert not server.received


async def test_a_token_is_shown_by_asking_for_it_alone(caller: Caller, server: Server) -> None:
    """The token's value is not in the repr, which often ends in logs and notebooks."""
    server.will(OPERATIONS["admin/serviceAccountTokens/mint"].response() | {"token": "svc_sa_new"})
    minted = await caller(lambda c: c.admin.service_account_tokens.mint(OTHER_ID, "loader", scopes=[]))
    assert minted.token == "svc_sa_new"
    assert "svc_sa_new" not in repr(minted)


async def test_arguments_of_coroutines_are_checked_when_awaited(make_caller: MakeCaller) -> None:
    caller = make_caller()
    if not caller.is_async:
        pytest.skip("about coroutines")
    coroutine = caller.client.catalog.get_document("not-an-id")
    with pytest.raises(InvalidArgumentError):
        await coroutine


async def test_unknown_members_and_types_are_tolerated(caller: Caller, server: Server) -> None:
    """A newer service's members are ignored, and an unknown resource type reads as UNKNOWN."""
    server.will({"resources": [{"resourceId": "x", "resourceType": "HOLOGRAM", "planet": "Mars"}], "weather": "fine"})
    items = await caller.walk(caller.client.permissions.list_authorized_resources())
    assert items == [ResourceIdentifier(resource_id="x", resource_type=ResourceType.UNKNOWN)]


@pytest.mark.parametrize("body", [b"<html>login</html>", b"", b"[1]", b'{"documentId": 1}', b"\xff\xfe"])
async def test_unreadable_answer(caller: Caller, server: Server, body: bytes) -> None:
    server.will(raw(body, headers={"x-request-id": "r-1"}))
    with pytest.raises(UnexpectedResponseError, match="base_url") as caught:
        await caller(lambda c: c.catalog.delete_document(DOCUMENT_ID))
    assert (caught.value.status, caught.value.request_id, len(server.received)) == (200, "r-1", 1)
