"""What /openapi.json says of credentials: each operation's requirement, from the one table (OpenAPI 3.1, "Security").

OpenAPI 3.1 lets a bearer scheme list role names: here the scope that a service-account token needs, or `admin` for what
only an admin's API key may call. An API key has no scopes, so for one the scope asks nothing.
"""

from typing import Any

from fastapi import FastAPI

from service.authorization import Requirement

SCHEME = "bearer"
ADMIN_ROLE = "admin"
SECURITY_SCHEMES = {
    SCHEME: {
        "type": "http",
        "scheme": "bearer",
        "description": (
            "An organization API key (svc_key_…) or a service-account token (svc_sa_…). The role name of an operation "
            f"is the scope that a token must have; {ADMIN_ROLE}: only the API key of an admin will do."
        ),
    }
}


def security_of(requirement: Requirement) -> list[dict[str, list[str]]]:
    """The `security` of an operation that asks for this."""
    return [{SCHEME: [role_of(requirement)]}]


def role_of(requirement: Requirement) -> str:
    """The role name of a requirement: a scope's, or `admin`; ValueError for one that asks for neither."""
    if requirement.scope is not None:
        return requirement.scope.value
    if requirement.admin:
        return ADMIN_ROLE
    raise ValueError("An operation asks for a scope, for an admin, or for both; this one asks for neither.")


class DescribedApi(FastAPI):
    """An application whose /openapi.json names the security scheme."""

    def openapi(self) -> dict[str, Any]:
        """Describe the API."""
        document = super().openapi()
        document["components"]["securitySchemes"] = SECURITY_SCHEMES
        return document
