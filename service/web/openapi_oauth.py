"""What OpenAPI says of OAuth's endpoints (RFC 6749, 7009 and 8414), which read and answer forms of their own."""

from typing import Any

from service.web.openapi_answers import SCHEMAS, Json

CLIENT_SCHEME = "oauthClient"
FORM = "application/x-www-form-urlencoded"
REQUEST_ID: Json = {"X-Request-Id": {"$ref": "#/components/headers/X-Request-Id"}}
RETRY: Json = {**REQUEST_ID, "Retry-After": {"$ref": "#/components/headers/Retry-After"}}
# A client proves itself by HTTP Basic, or by client_id and client_secret in the form; never by both. A public one names
# itself by client_id.
CLIENT: list[dict[str, list[str]]] = [{CLIENT_SCHEME: []}, {}]


def _text(description: str, **more: Any) -> Json:
    return {"type": "string", "description": description, **more}


def _parameter(name: str, description: str, *, required: bool = True, **schema: Any) -> Json:
    return {
        "name": name,
        "in": "query",
        "required": required,
        "description": description,
        "schema": {"type": "string", **schema},
    }


def _json(description: str, schema: str, headers: Json = REQUEST_ID) -> Json:
    content = {"application/json": {"schema": {"$ref": SCHEMAS + schema}}}
    return {"description": description, "headers": headers, "content": content}


def _form(schema: Json) -> Json:
    return {"required": True, "content": {FORM: {"schema": schema}}}


_CLIENT_FIELDS: Json = {
    "client_id": _text("Id of the client; with HTTP Basic it may be left out.", format="uuid"),
    "client_secret": _text("Secret of the client, unless it is sent by HTTP Basic.", format="password"),
}
_REFUSED: Json = {
    "400": _json("The request is invalid, or what it brings is unknown, used, expired or revoked.", "OAuthError"),
    "401": _json("The client is unknown or not approved, or its secret is wrong or missing.", "OAuthError"),
    "403": _json("The service is reached without https, so nothing secret is taken.", "OAuthError"),
    "413": _json("The form is too large.", "OAuthError"),
    "429": _json("Too many requests from this address came without a valid credential.", "OAuthError", RETRY),
    "503": _json("The database is away for a moment.", "OAuthError", RETRY),
}
_PAGE: Json = {"text/html": {"schema": _text("The page.")}}
_SENT_BACK: Json = {**REQUEST_ID, "Location": {"$ref": "#/components/headers/Location"}}

OAUTH_SCHEMAS: Json = {
    "OAuthError": {
        "type": "object",
        "description": "Why OAuth refused a request (RFC 6749, section 5.2).",
        "required": ["error"],
        "properties": {
            "error": _text("Stable code of the error, such as `invalid_grant`."),
            "error_description": _text("What is wrong and what to do about it, for people."),
        },
    },
    "OAuthTokens": {
        "type": "object",
        "description": "Tokens (RFC 6749, section 5.1).",
        "required": ["access_token", "token_type", "expires_in", "refresh_token"],
        "properties": {
            "access_token": _text("Token for v1, or for /mcp, as the client is registered (svc_at_… or svc_mt_…)."),
            "token_type": {"const": "Bearer", "description": "How the access token is sent."},
            "expires_in": {"type": "integer", "description": "Seconds for which the access token works; 3600."},
            "refresh_token": _text("Token for the next tokens; works once, for 30 days."),
            "scope": _text("What the tokens may be used for, separated by spaces."),
        },
    },
    "OAuthServerMetadata": {
        "type": "object",
        "description": "The authorization server's description of itself (RFC 8414, section 2).",
        "required": ["issuer", "authorization_endpoint", "token_endpoint", "revocation_endpoint"],
        "properties": {
            "issuer": _text("Address of the server; also the `iss` of its answers.", format="uri"),
            "authorization_endpoint": _text("Where people are sent to.", format="uri"),
            "token_endpoint": _text("Where codes and refresh tokens are exchanged.", format="uri"),
            "revocation_endpoint": _text("Where tokens are stopped.", format="uri"),
        },
        "additionalProperties": True,
    },
    "OAuthResourceMetadata": {
        "type": "object",
        "description": "The description of /mcp as what tokens are for (RFC 9728, section 2).",
        "required": ["resource", "authorization_servers"],
        "properties": {
            "resource": _text("Address of what the tokens are for.", format="uri"),
            "authorization_servers": {
                "type": "array",
                "items": _text("Address of a server that gives tokens.", format="uri"),
                "description": "The servers that give tokens.",
            },
        },
        "additionalProperties": True,
    },
}
OAUTH_PATHS: Json = {
    "/api/oauth/authorize": {
        "get": {
            "tags": ["oauth"],
            "operationId": "oauth_authorize",
            "summary": "Authorize",
            "description": (
                "Where a person's browser is sent, to sign in and to allow what the client asks for. It is sent back "
                "to `redirect_uri` with `code`, `state` and `iss`, or with `error`."
            ),
            "security": [],
            "parameters": [
                _parameter("response_type", "Always `code`.", enum=["code"]),
                _parameter("client_id", "Id of the client.", format="uuid"),
                _parameter("redirect_uri", "One of the client's addresses, character by character.", format="uri"),
                _parameter(
                    "scope",
                    "What is asked for, separated by spaces; absent: all that the client is registered for.",
                    required=False,
                ),
                _parameter("state", "A random value, which comes back unchanged.", required=False),
                _parameter("code_challenge", "SHA-256 of the code verifier in base64url without padding (RFC 7636)."),
                _parameter("code_challenge_method", "Always `S256`.", enum=["S256"]),
                _parameter("resource", "What the tokens are for (RFC 8707); what the client's are.", required=False),
                _parameter(
                    "prompt", "`none`, `login`, `consent` or `select_account`; absent: as needed.", required=False
                ),
            ],
            "responses": {
                "200": {"description": "A page that asks the person.", "headers": REQUEST_ID, "content": _PAGE},
                "302": {"description": "Back to the client.", "headers": _SENT_BACK},
                "400": {"description": "Neither a client nor an address of its is proven.", "content": _PAGE},
                "403": {"description": "The service is reached without https.", "content": _PAGE},
            },
        }
    },
    "/api/oauth/token": {
        "post": {
            "tags": ["oauth"],
            "operationId": "oauth_token",
            "summary": "Get tokens",
            "description": "Exchange a code, or a refresh token, for tokens (RFC 6749, sections 4.1.3 and 6).",
            "security": CLIENT,
            "requestBody": _form(
                {
                    "type": "object",
                    "required": ["grant_type"],
                    "properties": {
                        "grant_type": _text("What is exchanged.", enum=["authorization_code", "refresh_token"]),
                        **_CLIENT_FIELDS,
                        "code": _text("The code; for `authorization_code`. Works once, for 10 minutes."),
                        "redirect_uri": _text("Where the code came to; for `authorization_code`.", format="uri"),
                        "code_verifier": _text("What the code challenge was made from; for `authorization_code`."),
                        "refresh_token": _text("The refresh token; for `refresh_token`."),
                        "resource": _text("What the tokens are for (RFC 8707); what the client's are.", format="uri"),
                        "scope": _text("Less than was allowed, separated by spaces; for `refresh_token`."),
                    },
                }
            ),
            "responses": {
                "200": _json("New tokens; a refresh token that was exchanged stops.", "OAuthTokens"),
                **_REFUSED,
            },
        }
    },
    "/api/oauth/revoke": {
        "post": {
            "tags": ["oauth"],
            "operationId": "oauth_revoke",
            "summary": "Revoke a token",
            "description": "Stop a token (RFC 7009).",
            "security": CLIENT,
            "requestBody": _form(
                {
                    "type": "object",
                    "required": ["token"],
                    "properties": {
                        **_CLIENT_FIELDS,
                        "token": _text("The access token or refresh token."),
                        "token_type_hint": _text("Which of them it is.", enum=["access_token", "refresh_token"]),
                    },
                }
            ),
            "responses": {
                "200": {
                    "description": "The token doesn't work, whether or not it did.",
                    "headers": REQUEST_ID,
                    "content": {"application/json": {"schema": {"type": "object", "maxProperties": 0}}},
                },
                **_REFUSED,
            },
        }
    },
    "/.well-known/oauth-authorization-server": {
        "get": {
            "tags": ["oauth"],
            "operationId": "oauth_getMetadata",
            "summary": "Get server metadata",
            "description": "Describe the authorization server (RFC 8414).",
            "security": [],
            "responses": {
                "200": _json("The description.", "OAuthServerMetadata"),
                "414": {"$ref": "#/components/responses/AddressTooLong"},
                "431": {"$ref": "#/components/responses/HeadersTooLarge"},
            },
        }
    },
    "/.well-known/oauth-protected-resource/mcp": {
        "get": {
            "tags": ["oauth"],
            "operationId": "oauth_getResourceMetadata",
            "summary": "Get resource metadata",
            "description": "Describe the endpoint /mcp, and name the server that gives tokens for it (RFC 9728).",
            "security": [],
            "responses": {
                "200": _json("The description.", "OAuthResourceMetadata"),
                "414": {"$ref": "#/components/responses/AddressTooLong"},
                "431": {"$ref": "#/components/responses/HeadersTooLarge"},
            },
        }
    },
}
