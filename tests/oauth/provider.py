"""A small OpenID Connect provider on loopback with real signatures; it checks secret, code and verifier."""

import base64
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, quote_plus, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import OctKey, RSAKey

from service.platform import base64url
from tests.harness import http_servers
from tests.oauth.flow import Pkce

CLIENT_ID, CLIENT_SECRET = "carrel", "a secret of the provider's"
KEY = RSAKey.generate_key(2048, {"kid": "one"})
Claims = dict[str, Any]


@dataclass
class OpenIdProvider:
    """The claims of the next person to sign in, and changes of the token or its signature."""

    issuer: str = ""
    person: Claims = field(default_factory=dict)
    change: Callable[[Claims], Claims] = lambda claims: claims
    key: Any = field(default_factory=lambda: KEY)
    signing_key: Any = None
    algorithm: str = "RS256"
    describes: Claims = field(default_factory=dict)
    answers: dict[str, Callable[[], Iterator[bytes]]] = field(default_factory=dict)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    asked: list[dict[str, str]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    requests: Counter[str] = field(default_factory=Counter)
    secret: str = CLIENT_SECRET

    def behave(self) -> None:
        vars(self).update(vars(OpenIdProvider(self.issuer)))

    def metadata(self) -> Claims:
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/jwks",
            **self.describes,
        }

    def authorize(self, asked: dict[str, str]) -> str:
        self.asked.append(asked)
        code = f"code-{len(self.asked)}"
        self.codes[code] = asked
        return f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state']})}"

    def token(self, form: dict[str, str], authorization: str) -> Claims | None:
        asked = self.codes.pop(form.get("code", ""), None)
        pair = base64.b64encode(f"{CLIENT_ID}:{quote_plus(self.secret)}".encode()).decode()
        is_posted = self.describes.get("token_endpoint_auth_methods_supported") == ["client_secret_post"]
        posted = (form.get("client_id"), form.get("client_secret")) == (CLIENT_ID, self.secret) and not authorization
        challenge = Pkce(form.get("code_verifier", "")).challenge
        problems = {
            "code": asked is None,
            "client": not posted if is_posted else authorization != f"Basic {pair}",
            "redirect": asked is not None and asked["redirect_uri"] != form.get("redirect_uri"),
            "verifier": asked is not None and asked["code_challenge"] != challenge,
        }
        if asked is None or any(problems.values()):
            self.refused += [name for name, holds in problems.items() if holds]
            return None
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": CLIENT_ID, "iat": now, "exp": now + 300, "nonce": asked["nonce"]}
        if "max_age" in asked:
            claims["auth_time"] = now
        return {"id_token": self.signed(self.change({**claims, **self.person})), "token_type": "Bearer"}

    def signed(self, claims: Claims) -> str:
        if self.algorithm == "none":
            parts = [json.dumps(one).encode() for one in ({"alg": "none"}, claims)]
            return ".".join([*map(base64url.encode, parts), ""])
        key = self.signing_key or self.key
        if self.algorithm == "HS256":
            key = OctKey.import_key(CLIENT_SECRET)
        return jwt.encode({"alg": self.algorithm, "kid": "one"}, claims, key, algorithms=[self.algorithm])


@contextmanager
def serving() -> Iterator[OpenIdProvider]:
    provider = OpenIdProvider()

    class Endpoint(http_servers.Handler):
        protocol_version = "HTTP/1.0"  # an answer has no length, and ends with its connection

        def answer(self, body: bytes) -> None:
            parts = urlsplit(self.path)
            provider.requests[parts.path] += 1
            if self.command == "POST":
                tokens = provider.token(dict(parse_qsl(body.decode())), self.headers.get("Authorization", ""))
                self.tell(200 if tokens else 400, tokens or {"error": "invalid_grant"})
            elif parts.path == "/.well-known/openid-configuration":
                self.tell(200, provider.metadata())
            elif parts.path == "/jwks":
                self.tell(200, {"keys": [provider.key.as_dict(private=False)]})
            elif parts.path == "/authorize":
                self.respond(302, Location=provider.authorize(dict(parse_qsl(parts.query))))
            else:
                self.tell(404, {})

        def tell(self, status: int, content: Claims) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            pieces = provider.answers.get(urlsplit(self.path).path, lambda: iter([json.dumps(content).encode()]))
            for piece in pieces():
                self.wfile.write(piece)

    with http_servers.serving(Endpoint) as provider.issuer:
        yield provider
