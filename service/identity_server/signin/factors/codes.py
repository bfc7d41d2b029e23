"""The codes of authenticator apps (TOTP, RFC 6238) and recovery codes, and the form that sets up an app."""

import base64
import hashlib
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

import segno
from pydantic import SecretStr
from pyotp.exceptions import OTPVerificationError
from pyotp.totp import TOTP

from service.identity_server.signin.sessions import Visitor

ISSUER = "Carrel"
# The most steps of 30 seconds by which the phone's clock may differ from the service's.
SKEW = 1
RECOVERY_CODES = 10
_SECRET_BYTES = 20
# Without similar letters and digits (Crockford's base 32): 80 bits in 16 characters.
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_LENGTH = 16
_GROUP = 4


def find_step(secret: SecretStr, code: str, *, now: datetime) -> int | None:
    """Return the time step of an app's code; None unless the code is from the current, previous or next step."""
    try:
        return TOTP(secret.get_secret_value()).verify_and_get_timecode(code, for_time=now, valid_window=SKEW)
    except OTPVerificationError:
        return None


def draw_qr_code(secret: SecretStr, *, email: str, organization_name: str) -> str:
    issuer = f"{ISSUER} ({organization_name})".replace(":", " ")
    address = TOTP(secret.get_secret_value()).provisioning_uri(name=email, issuer_name=issuer)
    code = segno.make(address, error="m", micro=False)
    return code.svg_inline(scale=4, border=4, dark="#000", light="#fff", title="QR code for your authenticator app")


def make_recovery_codes() -> list[str]:
    codes = ("".join(secrets.choice(_ALPHABET) for _ in range(_LENGTH)) for _ in range(RECOVERY_CODES))
    return ["-".join(code[place : place + _GROUP] for place in range(0, _LENGTH, _GROUP)) for code in codes]


def hash_recovery_code(code: str, *, principal_id: UUID) -> bytes:
    """Hash a person's recovery code for storage. One round of SHA-256 is enough: random codes can't be guessed."""
    return hashlib.sha256(principal_id.bytes + normal_code(code).encode()).digest()


def normal_code(text: str) -> str:
    """Return a typed code in its original form: lower case, without spaces and hyphens."""
    return "".join(text.split()).replace("-", "").lower()[:100]


def is_app_code(code: str) -> bool:
    """Return whether a normalized code is an app's rather than a recovery code."""
    return len(code) != _LENGTH


LIFETIME = timedelta(minutes=10)


@dataclass(frozen=True)
class Enrolment:
    """The fields of the form for setting up an app; `until` is the form's expiry, in seconds since 1970."""

    nonce: str
    until: str

    @classmethod
    def begin(cls, *, now: datetime) -> "Enrolment":
        return cls(secrets.token_urlsafe(16), str(int((now + LIFETIME).timestamp())))

    def purpose(self, principal_id: UUID) -> str:
        """Return the purpose binding the form to a person, the secret and the expiry."""
        return f"addApp\n{principal_id}\n{self.nonce}\n{self.until}"

    def secret(self, visitor: Visitor) -> SecretStr:
        """Return the app's secret, different for each `nonce`, in base 32, as apps expect (RFC 4226, section 4)."""
        return SecretStr(base64.b32encode(visitor.derive("new second factor", self.nonce)[:_SECRET_BYTES]).decode())

    def is_own(self, visitor: Visitor, form: dict[str, str], *, principal_id: UUID, now: datetime) -> bool:
        return visitor.is_own_form(form, self.purpose(principal_id)) and int(self.until) >= now.timestamp()
