"""`python -m scripts.endpoints_reference`: write docs/endpoints.md from the routes and their operations."""

from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

from carrel.wire.operations import SHARED, Requirement
from carrel.wire.scopes import ApiScope
from scripts.openapi_description import ADMIN_ROLE, role_of
from service.main import DOMAINS, V0_DOMAINS, V1_DOMAINS
from service.web.routing import CheckedRoute

PAGE = Path(__file__).parents[1] / "docs" / "endpoints.md"
OPENING = f"""# Endpoints

Every operation of the API is a POST to `/api/v0/` and its name, with an API key or a service-account token, and the
same to `/api/v1/` with a person's access token. This page is made from the code by `make docs`. A running service has
the bodies: as a page at `/docs`, and for generators of clients at `/openapi.json`, or of one version alone at
`/api/v0/openapi.json` and `/api/v1/openapi.json`. Clients written before Carrel may send
[older forms](existing-clients.md) of some requests.

*asks for* is what the caller's credential needs before its body is read: a service-account token the scope named, or
`{ADMIN_ROLE}`: the API key of an admin (a service-account token never will do). An API key needs no scope. *on v1* is
the scope that an access token needs; for `{ApiScope.ADMIN}` its person must be an admin, too. What the caller may then
reach is asked of the grants, for every kind of credential alike.

| operation | asks for | on v1 | what it does |
|---|---|---|---|
"""
V0_OPENING = """
## On v0 alone

| operation | asks for | what it does |
|---|---|---|
"""
V1_OPENING = """
## On v1 alone

| operation | method | asks for | what it does |
|---|---|---|---|
"""


def reference() -> str:
    """Return the page: a row an operation, in the order the service declares them."""
    parts = ((OPENING, DOMAINS, _row), (V0_OPENING, V0_DOMAINS, _v0_row), (V1_OPENING, V1_DOMAINS, _v1_row))
    return "".join(
        opening + "".join(f"{row(route)}\n" for route in _routes(domains)) for opening, domains, row in parts
    )


def _routes(domains: Iterable[ModuleType]) -> list[CheckedRoute]:
    return [route for domain in domains for route in domain.router.routes if isinstance(route, CheckedRoute)]


def _row(route: CheckedRoute) -> str:
    requirement = route.operation.requires
    return f"| `{route.operation.path}` | {_role(requirement)} | {_api_scope(requirement)} | {_summary(route)} |"


def _v0_row(route: CheckedRoute) -> str:
    return f"| `{route.operation.path}` | {_role(route.operation.requires)} | {_summary(route)} |"


def _v1_row(route: CheckedRoute) -> str:
    operation = route.operation
    return f"| `{operation.path}` | {operation.method} | {_api_scope(operation.requires)} | {_summary(route)} |"


def _role(requirement: Requirement) -> str:
    if requirement.any_token:
        return "any key or token"
    role = role_of(requirement)
    return "any member's API key" if role is None else f"`{role}`"


def _api_scope(requirement: Requirement) -> str:
    return "any access token" if requirement.api_scope is None else f"`{requirement.api_scope}`"


def _summary(route: CheckedRoute) -> str:
    told = route.description.splitlines()[0]
    operation = route.operation
    known = (("extension", not operation.has(SHARED)), ("deprecated", operation.is_deprecated))
    marks = [mark for mark, holds in known if holds]
    note = f" *({', '.join(marks)})*" if marks else ""
    return f"{told}{note}"


if __name__ == "__main__":
    PAGE.write_text(reference())
