"""Making clients, repr, errors, and calls of the real service."""

import copy
import logging
import pickle
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pandas as pd
import pytest
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, use_span

import carrel
from carrel import AsyncCarrel, AuthenticationError, Carrel, ConflictError, NotFoundError, PermissionDeniedError, errors
from carrel._connect import normalize
from carrel._logging import log_if_configured
from carrel._operations import session_of
from carrel.wire.common import ErrorDetail
from carrel.wire.permissions import ListAuthorizedResourcesResponse
from carrel.wire.uploads import PlanAction, UploadStatus
from tests.client.conftest import API_KEY, Caller, MakeCaller, delete
from tests.client.contract import OPERATIONS
from tests.client.samples import DELETED, DOCUMENT_ID, FOUND, FOUND_CHUNKS
from tests.client.server import Server, raw, refuse
from tests.client.test_operations import LISTS, SINGLE, name_of, requests_of
from tests.harness.cases import cases, script

PUBLIC = script("client_public.txt")


def _python(code: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)


def test_public_names() -> None:
    assert sorted(carrel.__all__) == sorted(PUBLIC.split())
    assert all(hasattr(carrel, name) for name in carrel.__all__)
    with pytest.warns(DeprecationWarning, match="EditConflictError"):
        assert vars(errors)["__getattr__"]("ChangedMeanwhileError") is carrel.EditConflictError


def test_error_tree_has_one_root_and_is_documented() -> None:
    documented = re.findall(r"(\w+Error)\b", errors.__doc__)
    classes = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Exception)]
    assert {kind.__name__ for kind in classes} <= set(documented)
    assert all(issubclass(kind, errors.CarrelError) for kind in classes)
    assert len(KINDS) == 12


# Each status that `errors` documents, and others of the same kinds.
KINDS = {int(status): getattr(errors, name) for name, status in re.findall(r"(\w+Error) +(4\d\d|507)", errors.__doc__)}
KINDS |= {418: errors.APIError, 500: errors.ServerError, 503: errors.ServerError}


@pytest.mark.parametrize(("status", "kind"), KINDS.items())
async def test_errors(make_caller: MakeCaller, server: Server, status: int, kind: type[errors.APIError]) -> None:
    server.will(refuse(status, "some_code", details=[{"field": "pageSize", "message": "too large"}]))
    with pytest.raises(kind) as caught:
        await make_caller(max_retries=0)(delete)
    error = caught.value
    assert type(error) is kind
    assert (error.status, error.code, error.request_id) == (status, "some_code", "request-1")
    assert error.details == (ErrorDetail(field="pageSize", message="too large"),)
    assert str(error) == f"refused with {status}; pageSize: too large ({status} some_code, request request-1)"


@pytest.mark.parametrize(("message", "detail", "said"), cases("errors_with_details"))
def test_an_error_says_nothing_twice(message: str, detail: dict[str, str], said: str) -> None:
    details = [ErrorDetail.model_validate(detail)]
    assert str(errors.BadRequestError(message, status=400, code="c", details=details)) == said


def test_an_error_names_each_wrong_member() -> None:
    details = [ErrorDetail(field=name, message="Give a value") for name in ("due date", "end date")]
    error = errors.BadRequestError("due date: Give a value", status=400, code="c", details=details)
    assert str(error) == "due date: Give a value; end date: Give a value (400 c)"


async def test_error_without_the_services_shape(caller: Caller, server: Server) -> None:
    server.will(raw(b"gone", status=410))
    with pytest.raises(errors.UnexpectedResponseError, match="HTTP 410"):
        await caller(delete)


def test_errors_cross_processes() -> None:
    error = errors.NotFoundError("no", status=404, code="not_found", request_id="r", retry_after=1.0)
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):  # noqa: S301 - our own bytes
        assert (type(twin), vars(twin), str(twin)) == (errors.NotFoundError, vars(error), str(error))


@pytest.mark.parametrize("kind", [Carrel, AsyncCarrel])
def test_credential_and_address_from_the_environment(kind, monkeypatch):
    monkeypatch.delenv("CARREL_API_KEY", raising=False)
    monkeypatch.delenv("CARREL_BASE_URL", raising=False)
    with pytest.raises(errors.ConfigurationError, match="CARREL_API_KEY"):
        kind()
    monkeypatch.setenv("CARREL_API_KEY", " key-of-environment\n")
    monkeypatch.setenv("CARREL_BASE_URL", "https://carrel.example.com/api/v0/")
    client = kind()
    assert client.base_url == "https://carrel.example.com"
    assert client._session.connection.headers["authorization"] == "Bearer key-of-environment"
    assert kind("key", "http://localhost:1/").base_url == "http://localhost:1"


@pytest.mark.parametrize(("given", "expected"), cases("addresses"))
def test_addresses(given: str, expected: str) -> None:
    assert normalize(given) == expected


@pytest.mark.parametrize("given", cases("odd_addresses"))
def test_odd_addresses(given: str) -> None:
    with pytest.raises(errors.ConfigurationError) as caught:
        normalize(given)
    assert "pw" not in str(caught.value)


@pytest.mark.parametrize("name", ["api_key", "access_token"])
@pytest.mark.parametrize("value", ["", "  ", "svc key", "svc_key\nX-Evil: 1", "schlüssel", "a\0b"])
def test_odd_credentials(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CARREL_API_KEY", "key")
    with pytest.raises(errors.ConfigurationError) as caught:
        Carrel(**{name: value})
    assert not value.strip() or value not in str(caught.value)


async def test_secrets_stay_out_of_sight(caller, server, caplog, monkeypatch):
    """Neither repr, nor errors, nor debug logs show the key or a body."""
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr(logging.getLogger("carrel"), "propagate", True)
    server.will(refuse(503), refuse(401), FOUND)
    with pytest.raises(errors.AuthenticationError) as caught:
        await caller(delete)
    signing = caller.client.with_options(headers={"X-Signature": "header-in-confidence"})
    await caller(lambda _: signing.search.search_document_catalog("query-in-confidence"))
    assert server.received[-1].headers["x-signature"] == "header-in-confidence"
    shown = [repr(signing), repr(signing.catalog), repr(signing._session.connection), repr(caught.value), caplog.text]
    assert "/api/v0/catalog/deleteDocument attempt 2: 401" in caplog.text
    assert not [text for text in shown if API_KEY in text or API_KEY[-8:] in text or "-in-confidence" in text]
    with pytest.raises(TypeError, match="credential"):
        pickle.dumps(caller.client)


def test_log_by_environment() -> None:
    code = "import carrel._logging as l; l.log_if_configured(); l.log_if_configured(); l.logger.debug('hello')"
    lines = {}
    for level in ("debug", "info", ""):
        lines[level] = _python(code, CARREL_LOG=level).stderr.count("hello")
    assert lines == {"debug": 1, "info": 0, "": 0}
    log_if_configured({})


async def test_headers(make_caller: MakeCaller, server: Server) -> None:
    server.will(DELETED, DELETED)
    caller = make_caller(headers={"X-Tenant": "north"})
    await caller(lambda _: delete(caller.client.with_options(headers={"X-Request-Id": "mine"})))
    await caller(delete)
    first, second = (request.headers for request in server.received)
    assert first["user-agent"].startswith(f"carrel-python/{carrel.__version__} ")
    assert (first["x-tenant"], second["x-tenant"]) == ("north", "north")
    assert first["x-request-id"] == "mine"
    assert "x-request-id" not in second


@pytest.mark.parametrize(("name", "value", "said"), cases("headers_that_are_refused"))
async def test_headers_that_are_refused(make_caller: MakeCaller, name: str, value: str, said: str) -> None:
    for take in (make_caller, make_caller().client.with_options):
        with pytest.raises(errors.ConfigurationError, match=said) as caught:
            take(headers={name: value})
        assert "of-somebody-else" not in str(caught.value)


async def test_own_http_client(caller: Caller, server: Server) -> None:
    seen: list[str] = []
    if caller.is_async:

        async def hook(request: httpx.Request) -> None:
            seen.append(request.url.path)

        http: Any = httpx.AsyncClient(headers={"X-Trace": "1"}, event_hooks={"request": [hook]})
        client: Any = AsyncCarrel(API_KEY, server.base_url, http_client=http)
    else:
        http = httpx.Client(headers={"X-Trace": "1"}, event_hooks={"request": [lambda r: seen.append(r.url.path)]})
        client = Carrel(API_KEY, server.base_url, http_client=http)
    server.will(DELETED)
    await caller(lambda _: delete(client))
    await caller(lambda _: client.close())
    assert seen == ["/api/v0/catalog/deleteDocument"]
    assert server.received[0].headers["x-trace"] == "1"
    assert not http.is_closed
    await caller(lambda _: http.aclose() if caller.is_async else http.close())


async def test_a_programs_trace_goes_on_in_the_service(caller, server, monkeypatch):
    """A request within a span of OpenTelemetry names the span; requests outside name none."""
    server.will(DELETED, DELETED, DELETED)
    with use_span(NonRecordingSpan(SpanContext(0xA1, 0xB2, is_remote=False, trace_flags=TraceFlags.get_default()))):
        await caller(delete)
    await caller(delete)
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", ModuleType("half imported"))
    await caller(delete)
    within, outside, before = server.received
    assert within.headers["traceparent"] == f"00-{'a1':0>32}-{'b2':0>16}-00"
    assert "traceparent" not in outside.headers
    assert "traceparent" not in before.headers


async def test_close(make_caller: MakeCaller, server: Server) -> None:
    caller = make_caller()
    server.will(DELETED)
    await caller(lambda c: c.with_options(timeout=1).close())
    await caller(delete)
    assert await caller.enter(caller.client) is caller.client
    with pytest.raises(errors.ConfigurationError, match="closed"):
        await caller(delete)


def test_threads_share_a_client(server: Server) -> None:
    server.will(*[FOUND] * 64)
    with Carrel(API_KEY, server.base_url) as client, ThreadPoolExecutor(8) as threads:
        found = threads.map(lambda _: client.search.search_document_catalog("trains"), range(64))
        assert [one.results[0].score for one in found] == [0.9] * 64
        assert {session_of(client.search): "found"}
    assert len(server.received) == 64


def test_negative_retries() -> None:
    with pytest.raises(errors.ConfigurationError, match="max_retries"):
        Carrel(API_KEY, max_retries=-1)


async def test_frames(caller: Caller, server: Server, tmp_path: Path) -> None:
    server.will(FOUND, FOUND_CHUNKS, {"resources": []})
    frame = (await caller(lambda c: c.search.search_document_catalog("trains"))).to_frame()
    row = frame.iloc[0]
    assert (row["document_id"], row["resource.resource_type"]) == (DOCUMENT_ID, "CONFLUENCE_PAGE")
    assert (row["custom_metadata.team"], row["snippet.matches"]) == ("ops", [{"start": 7, "end": 12}])
    assert str(row["updated_at"].tzinfo) == "UTC"
    chunks = await caller(lambda c: c.search.search_document_collection("x", document_collection_id=DOCUMENT_ID))
    assert list(chunks.to_frame()["text"]) == ["book a train", "or a ferry"]
    assert list(chunks.to_frame()["document_name"]) == ["Travel", "Travel"]
    # A member that one row has and another lacks has the same columns in both.
    assert list(chunks.to_frame()["place.rows.first"].isna()) == [False, True]
    assert "place" not in chunks.to_frame().columns
    derived = frame.assign(at=pd.Timestamp("2026-03-01T12:00+02:00"), name="=1+1\0", many=[["a", "b"]])
    assert pickle.loads(pickle.dumps(derived)).equals(derived)  # noqa: S301
    derived.to_excel(tmp_path / "frame.xlsx", index=False)
    read = pd.read_excel(tmp_path / "frame.xlsx", engine="openpyxl").iloc[0]
    assert (read["at"], read["name"], read["many"]) == (pd.Timestamp("2026-03-01T10:00"), "'=1+1", "['a', 'b']")
    assert [name for name in frame.columns if name.startswith("snippet.place.boxes")] == ["snippet.place.boxes"]
    empty = await caller(lambda c: c.permissions.list_authorized_resources().to_frame())
    assert list(empty.columns) == ["resource_id", "resource_type"]


async def test_a_call_takes_its_own_timeout_and_headers_and_answers_tell_their_request(caller, server) -> None:
    listed = raw(b'{"resources": []}', headers={"x-request-id": "r-1"})
    server.will(listed, listed, DELETED)
    for pager in (caller.client.permissions.list_authorized_resources(timeout=3, headers={"X-Trace": "t-1"}),):
        assert repr(pager).startswith(f"<{type(pager).__name__} of permissions/listAuthorizedResources")
        assert await caller(lambda _, pager=pager: pager.first()) is None
        page = (await caller.walk(pager.pages()))[0]
    assert page.request_id == "r-1"
    await caller(delete)
    assert [one.headers.get("x-trace") for one in server.received] == ["t-1", "t-1", None]
    with pytest.raises(errors.ConfigurationError, match="timeout"):
        await caller(lambda c: c.catalog.delete_document(DOCUMENT_ID, timeout=0))


@pytest.mark.parametrize("timeout", [-1, 0, float("nan"), "5", httpx.Timeout(5, read=-1)], ids=repr)
def test_a_timeout_that_is_none_is_refused_when_a_client_is_made(timeout: Any) -> None:
    with pytest.raises(errors.ConfigurationError, match="timeout is in seconds"):
        Carrel(API_KEY, timeout=timeout)


@pytest.mark.parametrize("file", [("a.txt", b""), 1, None, ["a.txt"]], ids=repr)
def test_what_is_no_file_is_refused_with_what_to_give(file: Any) -> None:
    with Carrel(API_KEY) as client, pytest.raises(errors.InvalidArgumentError, match="file_name="):
        client.catalog.upload_file(file, document_external_id="x")


def test_frames_without_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install pandas"):
        ListAuthorizedResourcesResponse(resources=[]).to_frame()


def test_import_brings_no_service() -> None:
    code = (
        "import sys, carrel, carrel.directory; print(sorted({m.split('.')[0] for m in sys.modules} "
        "& {'pandas', 'service', 'flows', 'app', 'cli', 'typer', 'sqlalchemy', 'fastapi', 'starlette'}))"
    )
    assert _python(code).stdout.strip() == "[]"


TRAVEL = "# Travel\n\nBook the night train to Vienna three weeks ahead.\n"


@pytest.fixture
def real(service, open_client: MakeCaller) -> Caller:
    return open_client(service.api_key, service.base_url)


async def _upload(real: Caller, tmp_path: Path, **options):
    path = tmp_path / "travel.md"
    path.write_text(TRAVEL)
    given = {"document_external_id": "travel", "await_vector_store_sync": True, **options}
    return await real(lambda c: c.catalog.upload_file(path, **given))


async def _document(real: Caller, tmp_path: Path):
    uploaded = await _upload(real, tmp_path)
    return await real(lambda c: c.catalog.get_document(uploaded.document_id))


async def test_from_upload_to_search(real: Caller, tmp_path: Path) -> None:
    uploaded = await _upload(real, tmp_path, fingerprint="one")
    assert (uploaded.status, uploaded.indexing) == (UploadStatus.CREATED, "DONE")
    found = await real(lambda c: c.search.search_document_catalog("how do I get to Vienna"))
    assert [result.document_id for result in found.results] == [uploaded.document_id]
    document = await real(lambda c: c.catalog.get_document(uploaded.document_id))
    assert (document.document_name, document.file_size, document.document_version) == ("Travel", len(TRAVEL), 1)
    planned = {"document_external_id": "travel", "fingerprint": "one"}
    plan = await real(lambda c: c.catalog.plan_upload([planned, {**planned, "document_external_id": "new"}]))
    assert [item.action for item in plan.documents] == [PlanAction.UNCHANGED, PlanAction.CREATE]
    listed = await real.walk(real.client.catalog.list_documents())
    assert [item.document_id for item in listed] == [uploaded.document_id]
    download = await real(lambda c: c.catalog.download_document(uploaded.document_id))
    assert (await real(lambda _: download.save(tmp_path / "again.md"))).read_text() == TRAVEL
    await real(lambda c: c.catalog.delete_document(uploaded.document_id))
    with pytest.raises(NotFoundError):
        await real(lambda c: c.catalog.get_document(uploaded.document_id))


async def test_collections(real: Caller, tmp_path: Path) -> None:
    uploaded = await _upload(real, tmp_path)
    schema = {"fields": [{"name": "team", "type": "STRING"}]}
    shelves = real.client.document_collections
    made = await real(lambda _: shelves.create_document_collection("Policies", custom_metadata_schema=schema))
    with pytest.raises(ConflictError):
        await real(lambda _: shelves.create_document_collection("Policies"))
    where = {"document_id": uploaded.document_id, "document_collection_id": made.document_collection_id}
    added = await real(lambda _: shelves.add_document_to_collection(**where, custom_metadata={"team": "ops"}))
    assert (added.status, added.embedded_chunk_count) == ("INDEXED", 0)
    shelf = {"document_collection_id": made.document_collection_id}
    found = await real(lambda c: c.search.search_document_collection("night train", **shelf))
    assert "Vienna" in found.results[0].chunks[0].text
    inside = await real.walk(shelves.list_documents_in_collection(**shelf))
    assert [(item.stale, item.custom_metadata) for item in inside] == [(False, {"team": "ops"})]
    await real(lambda _: shelves.remove_document_from_collection(**where))
    with pytest.raises(NotFoundError):
        await real(lambda _: shelves.remove_document_from_collection(**where))


async def test_people_see_what_they_may(real: Caller, tmp_path: Path) -> None:
    document = await _document(real, tmp_path)
    await real(lambda c: c.admin.users.upsert([{"email": "ada@example.test", "name": "Ada"}]))
    as_ada = {"user_email": "ada@example.test"}

    async def found() -> int:
        return len((await real(lambda c: c.search.search_document_catalog("train", **as_ada))).results)

    assert await found() == 0
    grant = {"principal": {"type": "user", "email": "ada@example.test"}, "role": "VIEWER"}
    await real(lambda c: c.admin.grants.set(document.resource, [grant]))
    assert await found() == 1
    readers = await real.walk(
        real.client.permissions.list_authorized_principals_for_resource(document.resource, page_size=1)
    )
    assert "ada@example.test" in [reader.email for reader in readers]
    assert await real.walk(real.client.permissions.list_authorized_resources(**as_ada)) == [document.resource]
    await real(lambda c: c.admin.grants.set(document.resource, []))
    assert await found() == 0


async def test_keys_and_audit(real: Caller, service) -> None:
    await real(lambda c: c.admin.users.upsert([{"email": "ada@example.test", "name": "Ada"}]))
    made = await real(lambda c: c.admin.api_keys.create("Ada's", owner_email="ada@example.test"))
    assert made.api_key not in repr(made)
    with Carrel(made.api_key, service.base_url) as ada:
        assert list(ada.catalog.list_documents()) == []
        with pytest.raises(PermissionDeniedError):
            ada.admin.organization.get()
    await real(lambda c: c.admin.api_keys.revoke(made.api_key_id))
    rows = await real.walk(real.client.admin.api_keys.list(page_size=1))
    assert {row.status for row in rows if row.api_key_id == made.api_key_id} == {"revoked"}
    assert len(await real.walk(real.client.admin.audit_log.query(target_id=str(made.api_key_id)))) == 2


async def test_service_accounts_and_their_tokens(real: Caller, service, tmp_path: Path) -> None:
    with pytest.raises(PermissionDeniedError) as caught:
        await real(lambda c: c.admin.service_accounts.create("Reader"))
    assert caught.value.code == "service_accounts_disabled"
    await real(lambda c: c.admin.organization.update(service_accounts_enabled=True))
    document = await _document(real, tmp_path)
    account = await real(lambda c: c.admin.service_accounts.create("Reader"))
    member = {"type": "serviceAccount", "id": account.service_account_id}
    await real(lambda c: c.admin.grants.set(document.resource, [{"principal": member, "role": "VIEWER"}]))
    tokens, account_id = real.client.admin.service_account_tokens, account.service_account_id
    planned = await real(lambda _: tokens.preview_reach(account_id, ["catalog:read"]))
    assert (planned.document_count, planned.editable_document_count) == (1, 0)
    assert "catalog/getDocument" in planned.endpoints
    minted = await real(lambda _: tokens.mint(account_id, "one", scopes=["catalog:read"]))
    assert minted.token not in repr(minted)
    assert await real(lambda _: tokens.preview_reach(token_id=minted.token_id)) == planned
    with Carrel(minted.token, service.base_url) as robot:
        own = robot.permissions.who_am_i()
        assert (own.kind, own.credential_name, own.email) == ("serviceAccountToken", "one", account.email)
        assert (own.scopes, own.expires_at, own.is_admin) == (["catalog:read"], minted.expires_at, False)
        assert [one.document_id for one in robot.catalog.list_documents()] == [document.document_id]
        with pytest.raises(PermissionDeniedError):
            robot.catalog.delete_document(document.document_id)
        await real(lambda _: tokens.revoke(minted.token_id))
        with pytest.raises(AuthenticationError):
            robot.search.search_document_catalog("train")
    listed = await real.walk(tokens.list(account_id))
    assert [(token.token_id, token.status) for token in listed] == [(minted.token_id, "revoked")]
    assert [one.email for one in await real.walk(real.client.admin.service_accounts.list())] == [account.email]
    await real(lambda c: c.admin.service_accounts.delete(account_id))
    assert await real.walk(real.client.admin.service_accounts.list()) == []


async def test_why_and_whether(real: Caller, tmp_path: Path) -> None:
    document = await _document(real, tmp_path)
    ada = {"type": "user", "email": "ada@example.test"}
    await real(lambda c: c.admin.users.upsert([{"email": "ada@example.test", "name": "Ada"}]))
    made = await real(lambda c: c.admin.groups.upsert([{"name": "Ops", "members": [ada]}]))
    why = await real(lambda c: c.permissions.explain_authorization(document.resource, ada))
    assert (why.authorized, why.paths) == (False, [])
    assert why.missing
    group = {"type": "group", "id": made.groups[0].id}
    await real(lambda c: c.admin.grants.set(document.resource, [{"principal": group, "role": "VIEWER"}]))
    why = await real(lambda c: c.permissions.explain_authorization(document.resource, ada))
    assert why.authorized
    assert [[step.type for step in path] for path in why.paths] == [["user", "group", "grant", "resource"]]
    checked = await real(
        lambda c: c.permissions.check_resource_authorization_for_user(document.resource, user_email="ada@example.test")
    )
    assert checked.authorized
    nothing = {"resource_id": "nothing", "resource_type": "BOX_FILE"}
    both = await real(lambda c: c.permissions.check_bulk_resources_authorization_for_user([nothing, document.resource]))
    assert [one.authorized for one in both.results] == [False, True]
    assert both.to_frame()["resource.resource_id"].tolist()[0] == "nothing"
    members = await real.walk(real.client.admin.groups.list_members(made.groups[0].id))
    assert [(member.type, member.email) for member in members] == [("user", "ada@example.test")]


async def test_the_search_log(real: Caller, tmp_path: Path) -> None:
    await _upload(real, tmp_path)
    found = await real(lambda c: c.search.search_document_catalog("train to Vienna", mode="LEXICAL"))
    await real(lambda c: c.search.search_document_catalog("zeppelins", mode="LEXICAL"))
    await real(lambda c: c.search.submit_search_feedback(search_id=found.search_id, feedback="THUMBS_UP"))
    log = await real.walk(real.client.admin.search_log.query())
    assert [(one.query, one.result_count, one.feedback) for one in log] == [
        ("zeppelins", 0, None),
        ("train to Vienna", 1, "THUMBS_UP"),
    ]
    without = await real.walk(real.client.admin.search_log.query(without_results=True))
    assert [one.query for one in without] == ["zeppelins"]
    liked = await real.walk(real.client.admin.search_log.query(feedback="THUMBS_UP"))
    assert [one.search_id for one in liked] == [found.search_id]


AS_KEY_OWNER_ONLY = set(cases("operations_of_the_key_owner_alone"))


TAKEN_AS_TEXT = {"search/submitSearchFeedback", "copilots/provideMessageFeedback"}


def test_a_named_user_is_never_passed_over(service) -> None:
    names = {name_of(place) for place in SINGLE + LISTS} - AS_KEY_OWNER_ONLY - TAKEN_AS_TEXT
    acting = [OPERATIONS[name] for name in names if OPERATIONS[name].version == "v0" and not name.startswith("admin/")]
    assert len(acting) > 12
    for operation in acting:
        answer = service.call(operation.name, requests_of(operation)[0] | {"userEmail": "nobody@example.test"})
        code = answer.json()["error"]["code"]
        assert (operation.name, answer.status_code, code) == (operation.name, 400, "unknown_user")
