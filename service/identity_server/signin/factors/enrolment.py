"""The form in which somebody sets up an authenticator app: which secret it shows, and how long it may be sent.

The secret follows from the browser and from a nonce in the form, so nothing is stored before a code has proven that the
app has it. The form's token (`Browser.form_token`) is made only once the password was given, and is the proof of that.
"""

import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from pydantic import SecretStr

from service.identity_server.signin.browsers import Browser
from service.identity_server.signin.factors.codes import encode_secret
from service.runtime import Runtime

LIFETIME = timedelta(minutes=10)


@dataclass(frozen=True)
class Enrolment:
    """What the form carries; `until` is when it ends, in seconds since 1970."""

    nonce: str
    until: str

    @classmethod
    def begin(cls, *, now: datetime) -> "Enrolment":
        """Return what a new form carries."""
        return cls(secrets.token_urlsafe(16), str(int((now + LIFETIME).timestamp())))

    def purpose(self, principal_id: UUID) -> str:
        """Return the purpose that binds the form to a person, its secret and its end."""
        return f"addApp\n{principal_id}\n{self.nonce}\n{self.until}"

    def secret(self, runtime: Runtime, browser: Browser) -> SecretStr:
        """Return the secret that the form shows in a browser."""
        value = browser.value.get_secret_value()
        return encode_secret(runtime.keys.new_factor_secret(browser=value, nonce=self.nonce))

    def is_own(
        self, runtime: Runtime, browser: Browser, form: dict[str, str], *, principal_id: UUID, now: datetime
    ) -> bool:
        """Return whether the form was made for this browser and person, and may still be sent."""
        own = browser.is_own_form(runtime, form.get("csrf", ""), purpose=self.purpose(principal_id))
        return own and int(self.until) >= now.timestamp()
