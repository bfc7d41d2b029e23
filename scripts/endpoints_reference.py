"""`python -m scripts.endpoints_reference`: write docs/endpoints.md from the routes and their operations."""

import re
from collections.abc import Callable, Iterable
from pathlib import Path

from carrel.wire.operations import SHARED, Requirement
from carrel.wire.scopes import ApiScope
from scripts.openapi_description import ADMIN_ROLE, role_of
from service.main import DOMAINS
from service.web.routing import CheckedRoute

PAGE = Path(__file__).parents[1] / "docs" / "endpoints.md"
_END = re.compile(r"; |(?<=\.) (?=[A-Z0-9`])")
OPENING = f"""# Endpoints

After this page you know every operation of the API and what a caller needs for it. An operation is a POST to `/api/v0/`
and its name, with an API key or a service-account token, and the same to `/api/v1/` with a person's access token.
`make docs` writes this page. A running service has bodies and errors at `/docs` and `/openapi.json`, or for one version
at `/api/v0/openapi.json` and `/api/v1/openapi.json`. Some requests have [older forms](existing-clients.md).

Headings name the scope that a service-account token needs, or `{ADMIN_ROLE}`: the API key of an admin, and no
service-account token. API keys need no scope. On v1, an access token needs the same scope with `api:` before it,
unless the heading says another; for `{ApiScope.ADMIN}` its person must be an admin, too. Grants decide what the caller
may then reach, whatever the credential.

*Shared* operations are part of the original API. All others are extensions.
"""


def reference() -> str:
    """Return the page: a list for each requirement, with the operations in the order of declaration."""
    parts = (("", None, _needs), ("On v0 alone: ", "v0", _role), ("On v1 alone: ", "v1", _api_scope))
    return OPENING + "".join(_lists(opening, _routes(version), needs) for opening, version, needs in parts)


def _lists(opening: str, routes: Iterable[CheckedRoute], needs: Callable[[Requirement], str]) -> str:
    rows: dict[str, list[str]] = {}
    for route in routes:
        rows.setdefault(needs(route.operation.requires), []).append(_row(route))
    return "".join(f"\n## {opening}{needed}\n\n{''.join(found)}" for needed, found in rows.items())


def _routes(version: str | None) -> list[CheckedRoute]:
    routes = [route for domain in DOMAINS for route in domain.router.routes if isinstance(route, CheckedRoute)]
    return [route for route in routes if route.operation.version == version]


def _row(route: CheckedRoute) -> str:
    method = "" if route.operation.method == "POST" else f"{route.operation.method}: "
    return f"- `{route.operation.path}`: {method}{_summary(route)}\n"


def _needs(requirement: Requirement) -> str:
    role, scope = _role(requirement), _api_scope(requirement)
    return role if scope == f"`api:{role.strip('`')}`" else f"{role}; on v1 {scope}"


def _role(requirement: Requirement) -> str:
    if requirement.any_token:
        return "any key or token"
    role = role_of(requirement)
    return "any member's API key" if role is None else f"`{role}`"


def _api_scope(requirement: Requirement) -> str:
    return "any access token" if requirement.api_scope is None else f"`{requirement.api_scope}`"


def _summary(route: CheckedRoute) -> str:
    """Return the start of an operation's description, up to a semicolon, for a deprecated operation all of it."""
    operation = route.operation
    told = " ".join(route.description.partition("\n\n")[0].split())
    first = told if operation.is_deprecated else f"{_END.split(told)[0].removesuffix('.')}."
    known = (("shared", operation.has(SHARED)), ("deprecated", operation.is_deprecated))
    marks = [mark for mark, holds in known if holds]
    note = f" *({', '.join(marks)})*" if marks else ""
    return f"{first}{note}"


if __name__ == "__main__":
    PAGE.write_text(reference())
