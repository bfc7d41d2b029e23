"""Every operation is declared once with requirements, and served as declared."""

import re
from inspect import unwrap
from typing import get_type_hints

import pytest
from fastapi import Response
from pydantic import TypeAdapter

from carrel.wire.api import OPERATIONS
from carrel.wire.operations import ADDS_DATA
from carrel.wire.scopes import ApiScope, Scope
from service.main import DOMAINS
from service.web.routing import CheckedRoute, Router
from tests.harness.cases import cases

ROUTES = [route for domain in DOMAINS for route in domain.router.routes]
READING = re.compile("(list|get|count|query|rank|summarize|check)(?![a-z])")
# How the database itself is, only the primary knows. Searches are logged without waiting for the disk, which is what a
# standby's position is compared with, and what has expired the primary's clock says.
NOT_FROM_STANDBYS = {
    *("/admin/status/get", "/admin/searchLog/query", "/admin/searchLog/summarize", "/admin/sessions/list"),
    "/search/listRecentSearches",
}
# The other operations that a scope to write, or to send messages, opens: a test has every one of them in one of both.
NOT_GROWING = frozenset(cases("operations_that_add_no_data"))


def test_every_operation_is_in_the_table_and_no_other() -> None:
    assert all(isinstance(route, CheckedRoute) for route in ROUTES)
    assert {route.path.lstrip("/") for route in ROUTES} == OPERATIONS.keys()
    for version in ("v0", "v1"):
        routes = [route for domain in DOMAINS for route in domain.router.of_version(version).routes]
        declared = {name for name, one in OPERATIONS.items() if one.version in {None, version}}
        assert {route.path.lstrip("/") for route in routes} == declared


@pytest.mark.parametrize("route", ROUTES, ids=[route.path for route in ROUTES])
def test_an_endpoint_takes_and_gives_what_its_operation_says(route: CheckedRoute) -> None:
    operation, hints = route.operation, get_type_hints(unwrap(route.endpoint))
    taken = hints.get("request", operation.request)
    if operation.request is not None and operation.path != "me":
        assert taken is operation.request
    if operation.answer is None:
        assert issubclass(hints["return"], Response)
    elif not isinstance(operation.answer, TypeAdapter):
        assert hints["return"] is operation.answer


def test_what_lists_and_shows_can_be_read_from_standbys() -> None:
    reading = {route.path for route in ROUTES if READING.match(route.operation.path.rpartition("/")[2])}
    assert reading - {route.path for route in ROUTES if route.only_reads} == NOT_FROM_STANDBYS


def test_an_operation_that_is_not_declared_cannot_be_made() -> None:
    """Default deny: the mistake is an error at the start, not an open door."""

    async def endpoint() -> None:
        """Do nothing."""

    with pytest.raises(LookupError, match="catalog/openDoor"):
        Router().post("/catalog/openDoor")(endpoint)


def test_every_operation_that_writes_says_whether_it_adds_data() -> None:
    scopes = {ApiScope.CATALOG_WRITE, ApiScope.AGENT_MESSAGE}
    writing = {name for name, one in OPERATIONS.items() if one.requires.api_scope in scopes}
    assert writing - {name for name, one in OPERATIONS.items() if one.has(ADDS_DATA)} == NOT_GROWING


def test_no_token_calls_what_admins_do() -> None:
    admin = {name for name in OPERATIONS if name.startswith("admin/")}
    admin |= {"permissions/listAuthorizedPrincipalsForResource"}
    admin -= {"admin/oauthClients/request"}  # which every member may call, and a service account isn't one
    assert all(OPERATIONS[name].requires.admin and OPERATIONS[name].requires.scope is None for name in admin)


def test_scopes_are_those_of_the_contract() -> None:
    names = ("catalog/uploadFile", "catalog/downloadDocument", "search/searchDocumentCatalog")
    scopes = [OPERATIONS[name].requires.scope for name in names]
    assert scopes == [Scope.CATALOG_WRITE, Scope.CATALOG_READ, Scope.CATALOG_READ]
