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
    """A browser by the value of its cookie; `known` is False when it came without a usable one."""

    value: SecretStr
    known: bool
    secure: bool

    @classmethod
    def of(cls, request: Request, runtime: Runtime) -> "Browser":
        """Return the browser that sent a request, with a new value if it has no usable cookie."""
        secure = runtime.settings.issuer.startswith("https:")
        value = request.cookies.get(SECURE_COOKIE if secure else COOKIE, "")
        known = value.startswith(secrets.SESSION) and secrets.checksum_matches(value)
        return cls(SecretStr(value) if known else secrets.mint(secrets.SESSION).value, known=known, secure=secure)

    @property
    def hash(self) -> bytes:
        """The hash of the value, as sessions are stored with it."""
        return secrets.hash_secret(self.value.get_secret_value())

    def renew(self) -> "Browser":
        """Return the browser with a new random value, which nobody else can know."""
        return Browser(secrets.mint(secrets.SESSION).value, known=False, secure=self.secure)

    def keep(self, response: Response) -> None:
        """Set the cookie with the browser's value, until the browser is closed."""
        response.set_cookie(
            SECURE_COOKIE if self.secure else COOKIE,
            self.value.get_secret_value(),
            httponly=True,
            samesite="lax",
            secure=self.secure,
            path="/",
        )

    def form_token(self, runtime: Runtime, purpose: str) -> str:
        """Return the token that a form made for this browser and purpose must send back."""
        return base64url.encode(runtime.keys.form_token(browser=self.value.get_secret_value(), purpose=purpose))

    def is_own_form(self, runtime: Runtime, token: str, *, purpose: str) -> bool:
        """Return whether a form's token was made for this browser and purpose."""
        return self.known and hmac.compare_digest(self.form_token(runtime, purpose).encode(), token.encode())
