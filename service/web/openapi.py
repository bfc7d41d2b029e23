"""What /openapi.json says of credentials: each operation's requirement, from the one table (OpenAPI 3.1, "Security").

OpenAPI 3.1 lets a bearer scheme list role names: here the scope that a service-account token needs, or `admin` for what
only an admin's API key may call. An API key has no scopes, so for one the scope asks nothing. The same operations on v1
name the scope that an access token needs.

The description is written by `make docs`, and a test compares it with the code: to derive it takes two seconds, in
which a service would answer nobody.
"""

from functools import cache
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from carrel.wire.oauth_clients import ApiScope
from service.auth.authorization import Requirement, requirement_of
from service.auth.scopes import meaning

DOCUMENT = Path(__file__).with_name("openapi.json")
SCHEME = "bearer"
ACCESS_SCHEME = "accessToken"
V1_PREFIX = "/api/v1/"
ADMIN_ROLE = "admin"
SECURITY_SCHEMES = {
    SCHEME: {
        "type": "http",
        "scheme": "bearer",
        "description": (
            "An organization API key (svc_key_…) or a service-account token (svc_sa_…). The role name of an operation "
            f"is the scope that a token must have; {ADMIN_ROLE}: only the API key of an admin will do."
        ),
    },
    ACCESS_SCHEME: {
        "type": "oauth2",
        "description": "An access token (svc_at_…) of the person it acts for.",
        "flows": {
            "authorizationCode": {
                "authorizationUrl": "/api/oauth/authorize",
                "tokenUrl": "/api/oauth/token",
                "refreshUrl": "/api/oauth/token",
                "scopes": {scope.value: meaning(scope) for scope in ApiScope},
            }
        },
    },
}


def security_of(requirement: Requirement) -> list[dict[str, list[str]]]:
    """The `security` of an operation that asks for this."""
    role = role_of(requirement)
    return [{SCHEME: [] if role is None else [role]}]


def role_of(requirement: Requirement) -> str | None:
    """The role name of a requirement on v0: a scope's, or `admin`; None for what every member may call with a key."""
    if requirement.scope is not None:
        return requirement.scope.value
    return ADMIN_ROLE if requirement.admin else None


def access_security_of(requirement: Requirement) -> list[dict[str, list[str]]]:
    """The `security` of the same operation on v1."""
    return [{ACCESS_SCHEME: [] if requirement.api_scope is None else [requirement.api_scope.value]}]


@cache
def read_description() -> bytes:
    """Return the API's description as `make docs` has written it down."""
    return DOCUMENT.read_bytes()


class DescribedApi(FastAPI):
    """An application whose description names the security scheme."""

    def openapi(self) -> dict[str, Any]:
        """Derive the API's description from the code; a service answers with `read_description`."""
        document = super().openapi()
        document["components"]["securitySchemes"] = SECURITY_SCHEMES
        for path, methods in document["paths"].items():
            if path.startswith(V1_PREFIX):
                security = access_security_of(requirement_of(path.removeprefix(V1_PREFIX)))
                for operation in methods.values():
                    operation["security"] = security
        return document
