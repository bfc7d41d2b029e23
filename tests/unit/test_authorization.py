"""Every operation says what it asks of its caller, in one table, and is held to it before its body is read."""

import pytest

from carrel.wire.common import Scope
from carrel.wire.oauth_clients import ApiScope
from service.auth.authorization import REQUIREMENTS, V0_REQUIREMENTS, V1_REQUIREMENTS, requirement_of
from service.main import DOMAINS, V0_DOMAINS, V1_DOMAINS
from service.web.growth import GROWING
from service.web.routing import CheckedRoute, Router

# The other operations that a scope to write, or to send messages, opens: a test has every one of them in one of both.
NOT_GROWING = frozenset(
    {
        "catalog/planUpload",
        "catalog/deleteDocument",
        "documentCollections/removeDocumentFromCollection",
        "documentCollections/deleteDocumentCollection",
        "documentCollections/cancelIndexRebuild",
        "documentCollections/docstore/deleteDocstoreSync",
        "copilots/provideMessageFeedback",
        "agents",
        "agents/fetchAgentResponse",
        "agents/streamAgentResponse",
        "agents/provideMessageFeedback",
        "conversations",
        "conversations/{conversationId}",
    }
)


def test_every_operation_is_in_the_table_and_no_other() -> None:
    """A route that isn't declared can't be made, and a declaration without a route is a mistake."""
    tables = ((DOMAINS, REQUIREMENTS), (V0_DOMAINS, V0_REQUIREMENTS), (V1_DOMAINS, V1_REQUIREMENTS))
    for domains, requirements in tables:
        routes = [route for domain in domains for route in domain.router.routes]
        assert all(isinstance(route, CheckedRoute) for route in routes)
        assert {route.path.lstrip("/") for route in routes} == requirements.keys()


def test_an_operation_that_is_not_declared_cannot_be_made() -> None:
    """Default deny: the mistake is an error at the start, not an open door."""

    async def endpoint() -> None:
        """Do nothing."""

    with pytest.raises(LookupError, match="catalog/openDoor"):
        Router(prefix="/catalog").post("/openDoor")(endpoint)


def test_every_operation_that_writes_says_whether_it_adds_data() -> None:
    """What a full disk refuses and what goes on is decided operation by operation, and for none forgotten."""
    operations = {**REQUIREMENTS, **V0_REQUIREMENTS, **V1_REQUIREMENTS}
    writing = {
        name
        for name, requirement in operations.items()
        if requirement.api_scope in {ApiScope.CATALOG_WRITE, ApiScope.AGENT_MESSAGE}
    }
    assert writing == GROWING | NOT_GROWING
    assert not GROWING & NOT_GROWING


def test_no_token_calls_what_admins_do() -> None:
    """Whatever its scopes: who may read what is no service account's business, nor are credentials."""
    admin = {name for name in REQUIREMENTS if name.startswith("admin/")} | {
        "permissions/listAuthorizedPrincipalsForResource"
    }
    admin -= {"admin/oauthClients/request"}  # which every member may call, and a service account isn't one
    assert all(REQUIREMENTS[name].admin and REQUIREMENTS[name].scope is None for name in admin)


@pytest.mark.parametrize(
    ("operation", "scope"),
    [
        ("/catalog/uploadFile", Scope.CATALOG_WRITE),
        ("catalog/downloadDocument", Scope.CATALOG_READ),
        ("/search/searchDocumentCatalog", Scope.CATALOG_READ),
    ],
)
def test_scopes_are_those_of_the_contract(operation: str, scope: Scope) -> None:
    """Writing needs catalog:write, reading and searching catalog:read."""
    assert requirement_of(operation).scope is scope
