"""The API's description as a contract: complete, unique names, and correct for its version."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache

import pytest

from scripts import openapi_reference
from scripts.openapi_description import ACCESS_SCHEME, SCHEME
from service.auth.callers import ACTING_MEMBERS
from service.web.openapi import DOCUMENT, read_description
from tests.harness.requirements import REQUIREMENTS, V0_REQUIREMENTS, V1_REQUIREMENTS

VERSIONS = [None, "v0", "v1"]
ON_V0 = {**REQUIREMENTS, **V0_REQUIREMENTS}
# Every v0 operation that the API shares with its published clients; whatever else there is, is an extension.
SHARED = {
    *("catalog/uploadFile", "catalog/uploadDocumentFile", "copilots/sendMessage"),
    *("search/searchDocumentCatalog", "search/submitSearchFeedback"),
    *("permissions/listAuthorizedPrincipalsForResource", "permissions/listAuthorizedResources"),
    *("documentCollections/createDocumentCollection", "documentCollections/docstore/updateDocstoreSync"),
    *("documentCollections/addDocumentToCollection", "documentCollections/addDocumentChunksToCollection"),
    *("documentCollections/reindexDocumentInCollection", "documentCollections/removeDocumentFromCollection"),
}


@cache
def description(version: str | None) -> dict:
    return json.loads(read_description(version))


@pytest.fixture(params=VERSIONS)
def document(request: pytest.FixtureRequest) -> dict:
    return description(request.param)


def operations(document: dict) -> dict[str, dict]:
    every = [one for item in document["paths"].values() for one in item.values()]
    found = {one["operationId"]: one for one in every}
    assert len(found) == len(every)
    return found


def objects(value, path: str = "") -> Iterator[tuple[str, dict]]:
    if isinstance(value, dict):
        yield path, value
        for key, member in value.items():
            yield from objects(member, f"{path}/{key}")
    elif isinstance(value, list):
        for number, member in enumerate(value):
            yield from objects(member, f"{path}/{number}")


def properties(document: dict) -> dict[str, dict]:
    return {
        f"{path}/{name}": member
        for path, one in objects(document)
        if isinstance(one.get("properties"), dict) and not path.endswith("/properties")
        for name, member in one["properties"].items()
    }


def test_what_a_service_answers_is_what_the_code_says() -> None:
    """/openapi.json is served from a file, updated by `make docs`."""
    assert DOCUMENT.read_text() == openapi_reference.reference()
    assert description(None)["openapi"].startswith("3.1")


def needs(prefix: str) -> dict:
    paths = description(None)["paths"]
    below = {path.removeprefix(prefix): item for path, item in paths.items() if path.startswith(prefix)}
    return {path: one["security"] for path, item in below.items() for one in item.values()}


def test_every_operation_says_which_credentials_it_takes() -> None:
    on_v0 = {
        name: [{SCHEME: [one.scope.value] if one.scope else ["admin"] if one.admin else []}]
        for name, one in ON_V0.items()
    }
    on_v1 = {
        name: [{ACCESS_SCHEME: [one.api_scope.value] if one.api_scope else []}]
        for name, one in {**REQUIREMENTS, **V1_REQUIREMENTS}.items()
    }
    assert needs("/api/v0/") == on_v0
    assert needs("/api/v1/") == on_v1
    # Health and metrics take no credential; OAuth takes a client's, in the header or in the form.
    others = {path: needed for path, needed in needs("").items() if not path.startswith(("/api/v0/", "/api/v1/"))}
    assert {path for path in others if "oauth" not in path} == {"/healthz", "/readyz", "/metrics"}
    assert {scheme for needed in others.values() for one in needed for scheme in one} == {"oauthClient"}
    scheme = description(None)["components"]["securitySchemes"][SCHEME]
    assert (scheme["type"], scheme["scheme"]) == ("http", "bearer")


def test_extensions_say_that_they_are() -> None:
    """Exactly the operations unknown to published clients carry the tag `extension`."""
    paths = {path.removeprefix("/api/v0/"): item["post"] for path, item in description("v0")["paths"].items()}
    assert {name for name, one in paths.items() if "extension" in one["tags"]} == ON_V0.keys() - SHARED


def test_everything_is_described(document: dict) -> None:
    members = properties(document)
    assert len(members) > 400
    assert [path for path, member in members.items() if not member.get("description")] == []
    parameters = {path: one for path, one in objects(document) if one.get("in") in {"query", "path", "header"}}
    assert [path for path, one in parameters.items() if not one.get("description")] == []
    assert all(one["description"] for one in document["components"]["headers"].values())
    assert all(one["summary"] and one["description"] for one in operations(document).values())
    assert {tag for one in operations(document).values() for tag in one["tags"]} == {
        one["name"] for one in document["tags"] if one["description"]
    }


def test_every_reference_leads_somewhere_and_every_component_is_used(document: dict) -> None:
    references = {one["$ref"] for _, one in objects(document) if isinstance(one.get("$ref"), str)}
    named = {f"#/components/{kind}/{name}" for kind, members in document["components"].items() for name in members}
    assert references == {name for name in named if "securitySchemes" not in name}


def test_refusals_have_the_one_shape(document: dict) -> None:
    responses = document["components"]["responses"]
    for one in operations(document).values():
        if "oauth" in one["tags"]:
            continue
        refused = {status: answer for status, answer in one["responses"].items() if status != "200"}
        assert any(status.startswith("4") for status in refused)
        for status, answer in refused.items():
            shape = responses[answer["$ref"].rsplit("/", 1)[1]]
            assert shape["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/ErrorResponse"}
            assert "X-Request-Id" in shape["headers"]
            assert ("Retry-After" in shape["headers"]) == (status in {"429", "503", "507"})


def test_ids_say_what_an_operation_does_and_are_the_same_in_both_versions() -> None:
    whole, v0, v1 = (operations(description(version)) for version in VERSIONS)
    assert {"catalog_uploadFile", "documentCollections_docstore_createDocstoreSync", "admin_users_list"} <= v0.keys()
    assert {"catalog_uploadFile", "agents_list", "me_get", "oauth_token"} <= v1.keys()
    assert {f"v1_{name}" for name, one in v1.items() if "oauth" not in one["tags"]} | v0.keys() < whole.keys()
    assert not any(name.endswith("V1") for name in description("v1")["components"]["schemas"])


def test_on_v1_nobody_is_acted_for() -> None:
    assert {
        version: {*ACTING_MEMBERS} & {path.rsplit("/", 1)[1] for path in properties(description(version))}
        for version in ("v0", "v1")
    } == {"v0": {*ACTING_MEMBERS}, "v1": set()}


def test_what_tells_types_apart_is_required(document: dict) -> None:
    schemas = document["components"]["schemas"]
    unions = [one for _, one in objects(document) if "discriminator" in one]
    assert unions
    for union in unions:
        for choice in union["oneOf"]:
            assert union["discriminator"]["propertyName"] in schemas[choice["$ref"].rsplit("/", 1)[1]]["required"]


def test_members_of_answers_are_never_null() -> None:
    """Answers omit members without a value, so no member may be null or have a default."""
    schemas = description(None)["components"]["schemas"]
    answers = {name: one for name, one in schemas.items() if name.endswith("Response") and "properties" in one}
    assert len(answers) > 50
    for name, schema in answers.items():
        for member in schema["properties"].values():
            assert {"type": "null"} not in member.get("anyOf", []), name
            assert "default" not in member, name


@pytest.mark.long
@pytest.mark.parametrize("version", VERSIONS)
def test_a_linter_finds_nothing(version: str | None, tmp_path) -> None:
    npx = shutil.which("npx")
    if npx is None:
        pytest.skip("npx is not here: install Node.js to check the description with @redocly/cli.")
    file = tmp_path / "openapi.json"
    file.write_bytes(read_description(version))
    linted = subprocess.run(
        [npx, "--yes", "@redocly/cli@2", "lint", file.name, "--format", "json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert linted.returncode == 0, linted.stderr
    assert json.loads(linted.stdout)["problems"] == []
