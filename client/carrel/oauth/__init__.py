"""OAuth for applications that act for people: sign-in, tokens, and keeping them fresh.

>>> from carrel import Carrel
>>> from carrel.oauth import FileTokenStore, OAuthClient
>>> oauth = OAuthClient("client-id", "svc_cs_…", redirect_uri="https://app.example.com/callback")
>>> request = oauth.authorization_request()  # kept in the person's session, whose browser goes to request.url
>>> store = FileTokenStore("/var/lib/app/tokens")
>>> store.put("session", oauth.exchange("https://app.example.com/callback?code=…", request))
>>> client = Carrel(tokens=oauth.token_source(store, "session"))"""

from carrel._credentials import TokenSource
from carrel.errors import (
    AccessDeniedError,
    AuthorizationError,
    CallbackError,
    InvalidClientError,
    InvalidGrantError,
    OAuthError,
    SignInRequiredError,
    TokenRequestError,
)
from carrel.oauth.authorization import AuthorizationRequest, ServerMetadata
from carrel.oauth.client import AsyncOAuthClient, OAuthClient
from carrel.oauth.interactive import LOOPBACK_REDIRECT_URIS, sign_in, sign_out
from carrel.oauth.source import StoredTokens
from carrel.oauth.stores import FileTokenStore, MemoryTokenStore, TokenStore
from carrel.oauth.tokens import Tokens

__all__ = [
    "LOOPBACK_REDIRECT_URIS",
    "AccessDeniedError",
    "AsyncOAuthClient",
    "AuthorizationError",
    "AuthorizationRequest",
    "CallbackError",
    "FileTokenStore",
    "InvalidClientError",
    "InvalidGrantError",
    "MemoryTokenStore",
    "OAuthClient",
    "OAuthError",
    "ServerMetadata",
    "SignInRequiredError",
    "StoredTokens",
    "TokenRequestError",
    "TokenSource",
    "TokenStore",
    "Tokens",
    "sign_in",
    "sign_out",
]
