"""What a browser holds: one cookie, random from its first page on, new at every sign-in; and tokens bound to it.

A browser that nobody has signed in with leaves nothing in the database: its cookie only ties forms to it (OWASP,
"Cross-Site Request Forgery Prevention": signed double-submit).
"""

import hmac
from dataclasses import dataclass

from fastapi import Request, Response
from pydantic import SecretStr

from service.platform import base64url, secrets
from service.runtime import Runtime

COOKIE = "carrel_session"
# Only a host itself can set a cookie of this name, and only over https (RFC 6265bis, section 4.1.3.2).
SECURE_COOKIE = "__Host-carrel_session"


@dataclass(frozen=True)
class Browser:
    """A browser by its cookie's value; `known` is whether it came with one."""

    value: SecretStr
    known: bool
    secure: bool

    @classmethod
    def of(cls, request: Request, runtime: Runtime) -> "Browser":
        """The browser a request comes from; one without a usable cookie is given a value."""
        secure = runtime.settings.issuer.startswith("https:")
        value = request.cookies.get(SECURE_COOKIE if secure else COOKIE, "")
        known = value.startswith(secrets.SESSION) and secrets.checksum_matches(value)
        return cls(SecretStr(value) if known else secrets.mint(secrets.SESSION).value, known=known, secure=secure)

    @property
    def hash(self) -> bytes:
        """What is kept of the value once somebody is signed in."""
        return secrets.hash_secret(self.value.get_secret_value())

    def renew(self) -> "Browser":
        """Return the browser with a new value, which nobody can have planted."""
        return Browser(secrets.mint(secrets.SESSION).value, known=False, secure=self.secure)

    def keep(self, response: Response) -> None:
        """Give the browser its value, until it is closed."""
        response.set_cookie(
            SECURE_COOKIE if self.secure else COOKIE,
            self.value.get_secret_value(),
            httponly=True,
            samesite="lax",
            secure=self.secure,
            path="/",
        )

    def form_token(self, runtime: Runtime, purpose: str) -> str:
        """What a form must send back that was made for this browser and purpose."""
        return base64url.encode(runtime.keys.form_token(browser=self.value.get_secret_value(), purpose=purpose))

    def is_own_form(self, runtime: Runtime, token: str, *, purpose: str) -> bool:
        """Whether a form comes from a page that this browser was shown."""
        return self.known and hmac.compare_digest(self.form_token(runtime, purpose).encode(), token.encode())
