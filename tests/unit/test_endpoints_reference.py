"""docs/endpoints.md, /openapi.json and the table of requirements are one."""

import json
from typing import Any, cast

import pytest

from scripts import openapi_reference
from scripts.endpoints_reference import PAGE, reference
from service.main import create_app
from service.runtime import Runtime
from service.web.openapi import ACCESS_SCHEME, DOCUMENT, SCHEME, read_description
from service.web.openapi_oauth import CLIENT_SCHEME, OAUTH_PATHS
from tests.harness.requirements import REQUIREMENTS, V0_REQUIREMENTS, V1_REQUIREMENTS

PREFIX = "/api/v0/"
V1_PREFIX = "/api/v1/"
ON_V0 = {**REQUIREMENTS, **V0_REQUIREMENTS}
# Every v0 operation that the API shares with its published clients; whatever else there is, is an extension.
SHARED = {
    "catalog/uploadFile",
    "catalog/uploadDocumentFile",
    "copilots/sendMessage",
    "search/searchDocumentCatalog",
    "search/submitSearchFeedback",
    "permissions/listAuthorizedPrincipalsForResource",
    "permissions/listAuthorizedResources",
    "documentCollections/createDocumentCollection",
    "documentCollections/addDocumentToCollection",
    "documentCollections/addDocumentChunksToCollection",
    "documentCollections/reindexDocumentInCollection",
    "documentCollections/removeDocumentFromCollection",
    "documentCollections/docstore/updateDocstoreSync",
}


@pytest.fixture(scope="module")
def described() -> dict[str, Any]:
    """What /openapi.json says; a description needs none of the parts of a running service."""
    return create_app(cast("Runtime", None)).openapi()


def operations(described: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The operations of v0 by their names."""
    paths = described["paths"]
    return {path.removeprefix(PREFIX): item["post"] for path, item in paths.items() if path.startswith(PREFIX)}


def test_the_page_is_what_the_code_says() -> None:
    """Every operation is on the page with what it asks for; `make docs` brings it there."""
    assert PAGE.read_text() == reference()
    assert all(f"| `{name}` |" in reference() for name in [*ON_V0, *V1_REQUIREMENTS])


def test_what_a_service_answers_is_what_the_code_says(described: dict[str, Any]) -> None:
    """/openapi.json, which is read from a file, is the description that the code has; `make docs` brings it there."""
    assert DOCUMENT.read_text() == openapi_reference.reference()
    assert json.loads(read_description()) == described


def test_every_operation_declares_its_security(described: dict[str, Any]) -> None:
    """The bearer scheme, with the scope or the admin of the one table as its role; nothing for what is any member's."""
    expected = {
        name: [{SCHEME: [requirement.scope.value] if requirement.scope else ["admin"] if requirement.admin else []}]
        for name, requirement in ON_V0.items()
    }
    assert {name: one.get("security") for name, one in operations(described).items()} == expected
    assert described["openapi"].startswith("3.1")
    scheme = described["components"]["securitySchemes"][SCHEME]
    assert (scheme["type"], scheme["scheme"]) == ("http", "bearer")


def test_the_same_operations_on_v1_declare_the_scope_of_an_access_token(described: dict[str, Any]) -> None:
    """One definition, two mounts: every operation is there again, for access tokens and their scopes alone."""
    found = {
        path.removeprefix(V1_PREFIX): one["security"]
        for path, item in described["paths"].items()
        if path.startswith(V1_PREFIX)
        for one in item.values()
    }
    expected = {
        name: [{ACCESS_SCHEME: [requirement.api_scope.value] if requirement.api_scope else []}]
        for name, requirement in {**REQUIREMENTS, **V1_REQUIREMENTS}.items()
    }
    assert found == expected


def test_what_operators_ask_declares_no_security(described: dict[str, Any]) -> None:
    """Health and metrics take no credential, and say so; OAuth takes a client's, in the header or in the form."""
    others = {path: item for path, item in described["paths"].items() if not path.startswith((PREFIX, V1_PREFIX))}
    assert others.keys() - OAUTH_PATHS.keys() == {"/healthz", "/readyz", "/metrics"}
    asked = {scheme for item in others.values() for one in item.values() for need in one["security"] for scheme in need}
    assert asked == {CLIENT_SCHEME}


def test_extensions_say_that_they_are(described: dict[str, Any]) -> None:
    """Exactly the operations that aren't shared carry the tag `extension`."""
    tagged = {name for name, one in operations(described).items() if "extension" in one["tags"]}
    assert tagged == ON_V0.keys() - SHARED
