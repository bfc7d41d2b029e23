"""`python -m scripts.endpoints_reference`: write docs/endpoints.md from the routes and the table of requirements."""

from pathlib import Path

from fastapi.routing import APIRoute

from service.authorization import requirement_of
from service.main import DOMAINS
from service.openapi import ADMIN_ROLE, role_of

PAGE = Path(__file__).parents[1] / "docs" / "endpoints.md"
OPENING = f"""# Endpoints

Every operation of the API is a POST to `/api/v0/` and its name. This page is made from the code by `make docs`;
`/openapi.json` of a running service has the bodies.

*asks for* is what the caller's credential needs before its body is read: a service-account token the scope named, or
`{ADMIN_ROLE}`: the API key of an admin (a service-account token never will do). An API key needs no scope. What the
caller may then reach is asked of the grants, for every kind of credential alike.

| operation | asks for | what it does |
|---|---|---|
"""


def reference() -> str:
    """Return the page: a row an operation, in the order the service declares them."""
    routes = [route for domain in DOMAINS for route in domain.router.routes if isinstance(route, APIRoute)]
    return OPENING + "".join(f"{_row(route)}\n" for route in routes)


def _row(route: APIRoute) -> str:
    told = route.description.splitlines()[0]
    marks = [
        mark for mark, holds in (("extension", "extension" in route.tags), ("deprecated", route.deprecated)) if holds
    ]
    note = f" *({', '.join(marks)})*" if marks else ""
    return f"| `{route.path.lstrip('/')}` | `{role_of(requirement_of(route.path))}` | {told}{note} |"


if __name__ == "__main__":
    PAGE.write_text(reference())
