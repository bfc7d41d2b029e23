"""Requests and responses as JSON: refusals, tolerance, and unstorable values."""

import contextlib
import inspect
import itertools
import json
import time
from collections.abc import Sequence
from typing import Annotated, Any, Literal, get_args, get_origin

import pytest
from pydantic import BaseModel, ValidationError

from carrel.wire import admin, catalog, collections, common, docstore, permissions, search, sources, uploads
from carrel.wire.admin import AdminUsersUpsertRequest
from carrel.wire.api_keys import AdminApiKeysCreateResponse
from carrel.wire.catalog import DocumentVersion
from carrel.wire.common import ErrorResponse, RequestModel, ResponseModel, Tabular
from carrel.wire.fields import NO_NUL
from carrel.wire.oversight import AdminAuditLogQueryRequest, AuditEntry
from carrel.wire.permissions import ListAuthorizedResourcesRequest
from carrel.wire.search import SearchDocumentCollectionRequest
from carrel.wire.uploads import UploadFileForm
from service.platform.errors import BadRequest, TooLarge
from service.web import routing
from service.web.routing import decode
from tests.harness.cases import cases
from tests.unit.test_openapi import objects

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


def _is_unbounded(schema: dict[str, Any]) -> bool:
    """Return whether a part of a schema takes free text, a list or a map of any size."""
    is_fixed = {"enum", "const"} & schema.keys() or schema.get("format") in {"uuid", "date-time"}
    return (
        (schema.get("type") == "string" and not is_fixed and "maxLength" not in schema)
        or (schema.get("type") == "array" and "maxItems" not in schema)
        or (bool(schema.get("additionalProperties")) and "maxProperties" not in schema)
    )


REQUESTS = {model.__name__: model for model in (*_models(RequestModel), AdminAuditLogQueryRequest)}


@pytest.mark.parametrize("model", _models(RequestModel), ids=lambda model: model.__name__)
def test_requests_are_bounded(model: type[BaseModel]) -> None:
    assert [path for path, part in objects(model.model_json_schema()) if _is_unbounded(part)] == []
    unknown = {"unheardOf", *(name for name, field in model.model_fields.items() if name != field.alias)}
    with pytest.raises(ValidationError) as caught:
        model.model_validate(dict.fromkeys(unknown))
    assert {error["loc"] for error in caught.value.errors() if error["type"] == "extra_forbidden"} == {*zip(unknown)}


@pytest.mark.parametrize("model", _models(RequestModel), ids=lambda model: model.__name__)
def test_null_is_as_good_as_nothing(model: type[BaseModel]) -> None:
    names = {field.alias: field.is_required() for field in model.model_fields.values()}
    with pytest.raises(ValidationError) as caught:
        model.model_validate(dict.fromkeys([*names, "unheardOf"]))
    refused = {error["loc"][0] for error in caught.value.errors() if error["loc"]}
    assert refused == {name for name, is_required in names.items() if is_required} | {"unheardOf"}


@pytest.mark.parametrize("model", _models(ResponseModel), ids=lambda model: model.__name__)
def test_responses_are_in_camel_case(model: type[BaseModel]) -> None:
    assert all("_" not in (field.alias or "") for field in model.model_fields.values())
    assert model.model_config["extra"] == "ignore"


@pytest.mark.parametrize(("name", "body"), cases("bodies_with_nul"))
def test_nul_is_refused(name: str, body: dict[str, Any]) -> None:
    model = REQUESTS[name]
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
    fields = [(m.__name__, name, f) for m in _models(RequestModel) for name, f in m.model_fields.items()]
    assert [(model, name) for model, name, f in fields if _takes_any_text(f.annotation, f.metadata)] == []


ENDLESS = [
    ("SearchDocumentCatalogRequest", {"searchQuery": "x" * 8193}, "error"),
    ("UploadFileForm", {"documentExternalId": "a", "allowedUsersEmailAddresses": "[" * 100_000}, "error"),
]


@pytest.mark.parametrize(("name", "body", "words"), [*itertools.chain(*cases("odd_requests").values()), *ENDLESS])
def test_odd_requests_are_refused(name: str, body: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        REQUESTS[name].model_validate(body)


def test_what_is_not_said_has_a_default_and_switches_are_taken() -> None:
    switches = {"enableSmartFiltering": True, "enableQueryExtraction": False, "enableReranking": True}
    body = {"documentCollectionId": ID, "searchQuery": "x", "searchOptions": switches}
    options = SearchDocumentCollectionRequest.model_validate(body).search_options
    assert (options.max_chunks, options.merge_contents, options.enable_reranking) == (10, False, True)
    assert ListAuthorizedResourcesRequest.model_validate({"action": "READ"}).page_size == 10


@pytest.mark.parametrize(("text", "expected"), cases("times_are_written_in_utc"))
def test_times_are_written_in_utc(text: str, expected: str) -> None:
    assert json.loads(AdminAuditLogQueryRequest.model_validate({"from": text}).to_json())["from"] == expected
    entry = AuditEntry.model_validate({"auditLogId": ID, "at": text, "action": "x", "details": {}})
    assert json.loads(entry.model_dump_json())["at"] == expected
    assert DocumentVersion.model_fields["created_at"].is_required()


def test_parts_parse() -> None:
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


def test_secrets_hide() -> None:
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
    assert ErrorResponse.model_validate({"error": {"message": "no"}}).error.code == "error"
    error = {"message": "no", "code": "c", "requestId": "r", "confirmationUrl": "https://carrel.example.com/"}
    meanwhile = {"current": {"name": "Log"}, "changedAt": None, "changedBy": "Ada"}
    full = {"error": {**error, "details": [{"field": "a", "message": "b"}], "meanwhile": meanwhile}}
    assert ErrorResponse.model_validate(full).model_dump(by_alias=True) == full


def test_tables_name_their_rows() -> None:
    for model in _models(Tabular):
        if model is not common.PagedResponse:
            assert model.rows_in in model.model_fields
            assert model.row_type()


NOT_STRICT = [
    *(b"", b"{", b"\xff", b'"\\ud800"', b'"\\u0000"', b'{"\\u0000": 1}', b"NaN", b"-Infinity", b"9" * 5000),
    b"[" * 100_000,
]
MANY = {
    "lists": b"[" + b"[]," * 200 + b"1]",
    "objects": b"[" + b"{}," * 200 + b"1]",
    "members": b"{" + b",".join(b'"%d": 1' % number for number in range(200)) + b"}",
    "numbers": b"[" + b"1," * 200 + b"1]",
    "strings": b"[" + b'"[,\\"{",' * 200 + b"1]",
}


@pytest.mark.parametrize("content", NOT_STRICT)
def test_what_is_not_strict_json_is_refused(content: bytes) -> None:
    with pytest.raises(BadRequest) as caught:
        decode(content)
    assert caught.value.status == 400
    assert len(caught.value.message) < 200


@pytest.mark.parametrize(("content", "value"), cases("strict_json"))
def test_whole_characters_and_escaped_backslashes_are_fine(content: str, value: object) -> None:
    assert decode(content.encode()) == value


@pytest.mark.parametrize("content", MANY.values(), ids=MANY)
def test_a_body_holds_only_so_many_values(content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values cost memory and time, however short: the count comes before parsing."""
    monkeypatch.setattr(routing, "MOST_VALUES", 100)
    with pytest.raises(TooLarge, match="more than 100 values"):
        decode(content)
    monkeypatch.setattr(routing, "MOST_VALUES", 1000)
    assert decode(content)


@pytest.mark.parametrize("text", ["[,{" * 500, '\\"[,{' * 500, "\\\\" * 500 + "[" * 500, '",' * 500])
def test_what_stands_in_strings_is_no_value(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing, "MOST_VALUES", 3)
    content = json.dumps([text, {"a": text}]).encode()
    assert decode(content) == [text, {"a": text}]
    monkeypatch.setattr(routing, "MOST_VALUES", 2)
    with pytest.raises(TooLarge):
        decode(content)


@pytest.mark.parametrize(
    "content",
    [
        b'"' + b'\\"' * 4_000_000 + b"," * 600_000,
        b'"' * 4_000_001 + b"," * 600_000,
        b'["' + b"x," * 4_000_000 + b'"]',
        b"," * 600_000 + b'"' + b"\\" * 8_000_001,
        b"," * 600_000 + b" " * 8_000_000,
    ],
)
def test_counting_takes_time_in_proportion(content: bytes) -> None:
    began = time.monotonic()
    with contextlib.suppress(BadRequest, TooLarge):
        decode(content)
    assert time.monotonic() - began < 10
