"""The wire models: what requests refuse, what responses tolerate, and how both look as JSON."""

import inspect
import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, get_args, get_origin

import pytest
from pydantic import BaseModel, ValidationError

from carrel.wire import admin, catalog, collections, common, docstore, permissions, search, sources, uploads
from carrel.wire.admin import AdminUsersUpsertRequest
from carrel.wire.api_keys import AdminApiKeysCreateResponse
from carrel.wire.catalog import DocumentVersion
from carrel.wire.collections import AddDocumentToCollectionRequest, CreateDocumentCollectionRequest
from carrel.wire.common import ErrorResponse, RequestModel, ResponseModel, Tabular
from carrel.wire.fields import NO_NUL
from carrel.wire.oversight import AdminAuditLogQueryRequest, AuditEntry
from carrel.wire.search import SearchDocumentCatalogRequest, SearchDocumentCollectionRequest
from carrel.wire.uploads import UploadFileForm

MODULES = [common, uploads, catalog, collections, search, permissions, admin, docstore, sources]
ID = "0190c1c0-0000-7000-8000-000000000001"


def _models(base: type[BaseModel]) -> list[type[BaseModel]]:
    found = {
        value
        for module in MODULES
        for value in vars(module).values()
        if inspect.isclass(value) and issubclass(value, base) and value.__module__ == module.__name__
    }
    return sorted(found - {base}, key=lambda model: model.__name__)


def _strings(schema: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Walk a JSON schema and give every place that takes free text."""
    if isinstance(schema, dict):
        is_fixed = {"enum", "const"} & schema.keys() or schema.get("format") in {"uuid", "date-time"}
        if schema.get("type") == "string" and not is_fixed:
            yield path, schema
        for key, value in schema.items():
            yield from _strings(value, f"{path}/{key}")
    elif isinstance(schema, list):
        for number, value in enumerate(schema):
            yield from _strings(value, f"{path}/{number}")


def _unbounded_lists(schema: Any, path: str = "") -> Iterator[str]:
    if isinstance(schema, dict):
        if schema.get("type") == "array" and "maxItems" not in schema:
            yield path
        if schema.get("additionalProperties") and "maxProperties" not in schema:
            yield path
        for key, value in schema.items():
            yield from _unbounded_lists(value, f"{path}/{key}")
    elif isinstance(schema, list):
        for number, value in enumerate(schema):
            yield from _unbounded_lists(value, f"{path}/{number}")


@pytest.mark.parametrize("model", _models(RequestModel), ids=lambda model: model.__name__)
def test_requests_are_bounded(model: type[BaseModel]) -> None:
    """Every string, list and map of a request has a largest size, and unknown members are refused by name."""
    schema = model.model_json_schema()
    assert [path for path, text in _strings(schema) if "maxLength" not in text] == []
    assert list(_unbounded_lists(schema)) == []
    with pytest.raises(ValidationError) as caught:
        model.model_validate({"unheardOf": 1})
    assert ("unheardOf",) in [error["loc"] for error in caught.value.errors() if error["type"] == "extra_forbidden"]


@pytest.mark.parametrize("model", _models(RequestModel), ids=lambda model: model.__name__)
def test_null_is_as_good_as_nothing(model: type[BaseModel]) -> None:
    """Every optional member may be null; a member that must be there, or that nobody knows, may not."""
    names = {field.alias: field.is_required() for field in model.model_fields.values()}
    with pytest.raises(ValidationError) as caught:
        model.model_validate(dict.fromkeys([*names, "unheardOf"]))
    refused = {error["loc"][0] for error in caught.value.errors() if error["loc"]}
    assert refused == {name for name, is_required in names.items() if is_required} | {"unheardOf"}


@pytest.mark.parametrize("model", _models(ResponseModel), ids=lambda model: model.__name__)
def test_responses_are_in_camel_case(model: type[BaseModel]) -> None:
    """Every member of a response is camelCase, and one the client doesn't know is ignored."""
    assert all("_" not in (field.alias or "") for field in model.model_fields.values())
    assert model.model_config["extra"] == "ignore"


@pytest.mark.parametrize(
    ("model", "body"),
    [
        (SearchDocumentCatalogRequest, {"searchQuery": "a\0b"}),
        (
            AddDocumentToCollectionRequest,
            {"documentId": ID, "documentCollectionId": ID, "customMetadata": {"a\0": "b"}},
        ),
        (AddDocumentToCollectionRequest, {"documentId": ID, "documentCollectionId": ID, "customMetadata": {"a": "\0"}}),
        (AdminUsersUpsertRequest, {"users": [{"email": "a@b.c\0"}]}),
        (AdminUsersUpsertRequest, {"users": [{"email": "a@b.c", "password": "long enough\0"}]}),
        (CreateDocumentCollectionRequest, {"collectionName": "\0"}),
        (UploadFileForm, {"documentExternalId": "a\0"}),
        (UploadFileForm, {"documentExternalId": "a", "customMetadata": '{"a": "\\u0000"}'}),
        (UploadFileForm, {"documentExternalId": "a", "allowedUsersEmailAddresses": "a@b.c\0,d@e.f"}),
    ],
)
def test_nul_is_refused(model: type[BaseModel], body: dict[str, Any]) -> None:
    """No string of a request, deep inside or in a map's key, may hold what PostgreSQL can't."""
    for validate in (lambda: model.model_validate(body), lambda: model.model_validate_json(json.dumps(body))):
        with pytest.raises(ValidationError, match="NUL"):
            validate()


def _takes_any_text(annotation: Any, metadata: Sequence[Any] = ()) -> bool:
    if get_origin(annotation) is Annotated:
        return _takes_any_text(annotation.__origin__, annotation.__metadata__)
    if annotation is str:
        return NO_NUL not in metadata
    return any(_takes_any_text(argument) for argument in get_args(annotation) if get_origin(annotation) is not Literal)


def test_every_text_refuses_nul() -> None:
    """Each text that requests are made of carries the refusal of NUL, so that a new member can't forget it."""
    fields = [(m.__name__, name, f) for m in _models(RequestModel) for name, f in m.model_fields.items()]
    assert [(model, name) for model, name, f in fields if _takes_any_text(f.annotation, f.metadata)] == []


@pytest.mark.parametrize("text", ["\ud800", "x" * 8193, ""])
def test_odd_queries(text: str) -> None:
    """A lone surrogate, an endless query and an empty one are refused, not passed on."""
    with pytest.raises(ValidationError):
        SearchDocumentCatalogRequest.model_validate({"searchQuery": text})


@pytest.mark.parametrize(
    "options", [{"maxResults": 0}, {"maxResults": 101}, {"maxResults": "10"}, {"maxResults": True}, {"mode": "MAGIC"}]
)
def test_search_bounds(options: dict[str, Any]) -> None:
    """maxResults is a number from 1 to 100, not its text nor a truth value; a mode is one of three."""
    with pytest.raises(ValidationError):
        SearchDocumentCatalogRequest.model_validate({"searchQuery": "x", "searchOptions": options})


def test_switches_of_a_collection_search() -> None:
    """The switches that published clients send with a collection search are accepted."""
    switches = {"enableSmartFiltering": True, "enableQueryExtraction": False, "enableReranking": True}
    body = {"documentCollectionId": ID, "searchQuery": "x", "searchOptions": switches}
    options = SearchDocumentCollectionRequest.model_validate(body).search_options
    assert (options.max_chunks, options.merge_contents, options.enable_reranking) == (10, False, True)


@pytest.mark.parametrize("size", [0, 1001, "10", 1.5])
def test_page_sizes(size: object) -> None:
    """A page has 1 to 1000 items; 10 when nothing is said."""
    assert permissions.ListAuthorizedResourcesRequest.model_validate({"action": "READ"}).page_size == 10
    with pytest.raises(ValidationError):
        permissions.ListAuthorizedResourcesRequest.model_validate({"action": "READ", "pageSize": size})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-01-31T09:30:00Z", "2026-01-31T09:30:00Z"),
        ("2026-01-31T09:30:00.5+02:00", "2026-01-31T07:30:00.500000Z"),
        ("2026-01-31t09:30:00z", "2026-01-31T09:30:00Z"),
    ],
)
def test_times(text: str, expected: str) -> None:
    """A time is RFC 3339 with its offset, and goes on in UTC with Z."""
    request = AdminAuditLogQueryRequest.model_validate({"from": text})
    assert json.loads(request.to_json())["from"] == expected


@pytest.mark.parametrize(
    "text",
    ["2026-01-31", "2026-01-31T09:30:00", "1700000000", 1700000000, "0001-01-01T00:00:00+14:00", "yesterday", "", True],
)
def test_odd_times(text: object) -> None:
    """A date, a time without offset, a bare number, and what leaves the calendar are refused."""
    with pytest.raises(ValidationError):
        AdminAuditLogQueryRequest.model_validate({"from": text})


def test_response_times_in_utc() -> None:
    """A response's time is written in UTC with Z, whatever zone the database speaks."""
    at = datetime.fromisoformat("2026-01-31T09:30:00+02:00")
    entry = AuditEntry(audit_log_id=ID, at=at, action="x", details={})  # type: ignore[arg-type]
    assert json.loads(entry.model_dump_json())["at"] == "2026-01-31T07:30:00Z"
    assert entry.at == datetime(2026, 1, 31, 7, 30, tzinfo=UTC)
    assert DocumentVersion.model_fields["created_at"].is_required()


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("internalPublic", "yes"),
        ("internalPublic", "True"),
        ("forceUpdate", "1"),
        ("allowedGroupIds", "[1]"),
        ("allowedGroupIds", "not-an-id"),
        ("allowedUsersEmailAddresses", '["a@b.c"'),
        ("allowedUsersEmailAddresses", "nobody"),
        ("allowedUsersEmailAddresses", "[" * 100_000),
        ("customMetadata", "[]"),
        ("customMetadata", '{"a": 1}'),
        ("customMetadata", "{"),
        ("collectionId", "x"),
        ("sourceSystemUpdated", "2026-01-31"),
        ("resourceType", "BOX_FILE"),
        ("resourceId", "alone"),
        ("fingerprint", "x" * 129),
        ("documentExternalUrl", "javascript:alert(1)"),
        ("documentExternalUrl", "/relative"),
        ("documentExternalUrl", "https://a b"),
        ("document_name_", "x"),
    ],
)
def test_odd_parts(part: str, value: str) -> None:
    """A part that isn't what it should be is refused by the part's name."""
    with pytest.raises(ValidationError):
        UploadFileForm.model_validate({"documentExternalId": "a", part: value})


def test_parts_parse() -> None:
    """Lists may be JSON or separated by commas; an empty list is one; absent parts are None."""
    read = UploadFileForm.model_validate
    assert read({"documentExternalId": "a", "allowedUsersEmailAddresses": "a@b.c, d@e.f,"}).names_access
    as_json = read({"documentExternalId": "a", "allowedUsersEmailAddresses": ' ["a@b.c", "d@e.f"]'})
    assert as_json.allowed_users_email_addresses == ["a@b.c", "d@e.f"]
    assert read({"documentExternalId": "a", "allowedGroupIds": ""}).allowed_group_ids == []
    assert read({"documentExternalId": "a", "internalPublic": "false"}).names_access
    plain = read({"documentExternalId": "a"})
    assert not plain.names_access
    assert (plain.force_update, plain.reindex_collections, plain.await_vector_store_sync) == (False, True, False)
    assert plain.parts() == {"documentExternalId": "a"}


@pytest.mark.parametrize("kind", ["DOCUMENT_COLLECTION", "AGENT", "DOCSTORE_SYNC"])
def test_documents_pose_as_nothing_else(kind: str) -> None:
    """An upload can't claim the identity of a collection, an agent or a sync."""
    with pytest.raises(ValidationError, match="source system"):
        UploadFileForm.model_validate({"documentExternalId": "a", "resourceId": "x", "resourceType": kind})


def test_schema_names_are_unique() -> None:
    """A collection's schema names each field once."""
    fields = [{"name": "a", "type": "STRING"}, {"name": "a", "type": "INT"}]
    with pytest.raises(ValidationError, match="same name"):
        CreateDocumentCollectionRequest.model_validate(
            {"collectionName": "x", "customMetadataSchema": {"fields": fields}}
        )


def test_principals_are_told_apart_by_type() -> None:
    """A principal's type decides what it must have; another type is refused."""
    for principal in ({"type": "user", "id": ID}, {"type": "group", "email": "a@b.c"}, {"type": "robot", "id": ID}, {}):
        with pytest.raises(ValidationError):
            admin.AdminGroupsAddMembersRequest.model_validate({"groupId": ID, "members": [principal]})


def test_secrets_hide() -> None:
    """A password is in the request's JSON and nowhere else, and errors repeat nothing of a request."""
    body = {"users": [{"email": "a@b.c", "password": "correct horse"}]}
    request = AdminUsersUpsertRequest.model_validate(body)
    assert "correct horse" not in repr(request) + str(request.model_dump())
    assert json.loads(request.to_json()) == body
    assert not AdminApiKeysCreateResponse.model_fields["api_key"].repr
    with pytest.raises(ValidationError) as caught:
        AdminUsersUpsertRequest.model_validate({"users": [{"email": "a@b.c", "password": "short12", "x": "hidden"}]})
    assert "short12" not in str(caught.value)
    assert "hidden" not in str(caught.value)


def test_error_body() -> None:
    """The error shape reads with and without what is optional."""
    assert ErrorResponse.model_validate({"error": {"message": "no"}}).error.code == "error"
    full: dict[str, dict[str, object]] = {
        "error": {"message": "no", "code": "c", "requestId": "r", "confirmationUrl": "https://carrel.example.com/"}
    }
    full["error"] |= {"details": [{"field": "a", "message": "b"}]}
    assert ErrorResponse.model_validate(full).model_dump(by_alias=True) == full


def test_tables_name_their_rows() -> None:
    """Every response that is a table says which member holds its rows."""
    for model in _models(Tabular):
        if model is not common.PagedResponse:
            assert issubclass(model, Tabular)
            assert model.rows_in in model.model_fields
            assert model.row_type()
