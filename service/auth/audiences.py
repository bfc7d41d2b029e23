"""The audiences of access tokens, v1 and /mcp: each refuses the other's tokens. RFC 8707 (`resource`), RFC 9728."""

from urllib.parse import urlsplit

from carrel.wire.oauth_clients import OAuthAudience
from service.platform.secrets import ACCESS_TOKEN, MCP_ACCESS_TOKEN, Prefix, hash_secret

MCP_PATH = "/mcp"
WELL_KNOWN = "/.well-known/oauth-protected-resource"
_PATHS = {OAuthAudience.API: "/api/v1", OAuthAudience.MCP: MCP_PATH}

PREFIXES: dict[OAuthAudience, Prefix] = {OAuthAudience.API: ACCESS_TOKEN, OAuthAudience.MCP: MCP_ACCESS_TOKEN}


def hash_client_secret(value: str, audience: OAuthAudience) -> bytes:
    """Hash a client's secret. The hash differs for /mcp, so that an older release in parallel issues no v1 tokens."""
    return hash_secret(value if audience is OAuthAudience.API else f"{audience.value} {value}")


def resource_of(audience: OAuthAudience, issuer: str) -> str:
    """Return the `resource` address of an audience's tokens (RFC 8707, section 2)."""
    return issuer + _PATHS[audience]


def names_resource(resource: str, audience: OAuthAudience, issuer: str) -> bool:
    """Return whether a request's `resource` names the audience; a trailing slash is allowed."""
    return resource.removesuffix("/") == resource_of(audience, issuer)


def metadata_address(issuer: str) -> str:
    """Return the address of /mcp's metadata: the well-known part precedes the address's path (RFC 9728, section 3)."""
    parts = urlsplit(issuer)
    return f"{parts.scheme}://{parts.netloc}{WELL_KNOWN}{parts.path}{MCP_PATH}"


def challenge(issuer: str | None, *, error: str | None = None, scope: str | None = None) -> str:
    """Return the `WWW-Authenticate` of a refusal (RFC 6750, section 3), by /mcp with an `issuer` (RFC 9728, 5.1)."""
    given = {"error": error, "scope": scope, "resource_metadata": metadata_address(issuer) if issuer else None}
    parts = ", ".join(f'{name}="{value}"' for name, value in given.items() if value is not None)
    return f"Bearer {parts}".strip()
