"""Passkeys (WebAuthn, W3C). A challenge expires and contains a code for one browser and purpose, so nothing is stored
before the answer. Authenticators must verify the person by PIN or finger, so a passkey counts as two factors."""

import hashlib
import hmac
import ipaddress
import json
import secrets
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from io import BytesIO
from typing import Any, TypeVar
from uuid import UUID

import cbor2
import webauthn
from webauthn import helpers
from webauthn.helpers import structs

from service.identity_server.signin.factors.queries import Factor, PasskeyUse
from service.identity_server.signin.queries import Person
from service.identity_server.signin.sessions import Visitor
from service.platform.networks import name_loopback, parts_of
from service.platform.settings import Settings

Credential = TypeVar("Credential", structs.AuthenticationCredential, structs.RegistrationCredential)
LIFETIME = timedelta(minutes=5)
_MILLISECONDS = int(LIFETIME.total_seconds() * 1000)
NAME = "Carrel"
# More than any authenticator sends; longer credential ids are invalid (WebAuthn, section 7.1).
MOST_CHARACTERS = 16 * 1024
MOST_ID_BYTES = 1023
_NONCE_BYTES = 16
_TIME_BYTES = 8
# The CBOR of authenticator data begins here, or after the description of a credential (WebAuthn, section 6.1).
_HEAD_BYTES, _AAGUID_BYTES, _LENGTH_BYTES = 37, 16, 2
_FLAGS_AT, _HAS_CREDENTIAL = 32, 0x40


@dataclass(frozen=True)
class RelyingParty:
    """The service as known to authenticators: the host of the public address, and the origin of the pages."""

    host: str
    origin: str

    @classmethod
    def of(cls, settings: Settings) -> "RelyingParty | None":
        """Return the relying party of the public address; None without a host name. A loopback address counts as
        named."""
        parts = parts_of(name_loopback(settings.issuer))
        if parts is None or not parts.hostname or _is_ip(parts.hostname):
            return None
        port = "" if parts.port in {None, {"http": 80, "https": 443}[parts.scheme]} else f":{parts.port}"
        return cls(parts.hostname, f"{parts.scheme}://{parts.hostname}{port}")


@dataclass(frozen=True)
class NewCredential:
    credential_id: bytes
    public_key: bytes
    sign_count: int
    synced: bool
    """Whether the credential may be synced to other devices (backup eligibility, section 6.1.3)."""


@dataclass(frozen=True)
class Ceremony:
    """A request for a passkey: the browser and the purpose."""

    visitor: Visitor
    purpose: str

    @property
    def party(self) -> RelyingParty | None:
        return RelyingParty.of(self.visitor.runtime.settings)

    def ask(self, *, now: datetime, factors: Collection[Factor] = ()) -> str | None:
        """Return the request for a passkey of `factors` (empty: any), as JSON; None if passkeys can't be used."""
        if self.party is None:
            return None
        options = webauthn.generate_authentication_options(
            rp_id=self.party.host,
            challenge=self._challenge(now),
            timeout=_MILLISECONDS,
            allow_credentials=_descriptors(factors),
            user_verification=structs.UserVerificationRequirement.REQUIRED,
        )
        return webauthn.options_to_json(options)

    def ask_for_new(self, person: Person, factors: Collection[Factor], *, now: datetime) -> str | None:
        """Return the page's request to the browser for a new passkey, as JSON; None if passkeys can't be used."""
        if self.party is None:
            return None
        options = webauthn.generate_registration_options(
            rp_id=self.party.host,
            rp_name=NAME,
            user_id=self.visitor.runtime.keys.user_handle(person.principal_id),
            user_name=person.email,
            user_display_name=person.name,
            challenge=self._challenge(now),
            timeout=_MILLISECONDS,
            exclude_credentials=_descriptors(factors),
            authenticator_selection=structs.AuthenticatorSelectionCriteria(
                resident_key=structs.ResidentKeyRequirement.REQUIRED,
                user_verification=structs.UserVerificationRequirement.REQUIRED,
            ),
        )
        return webauthn.options_to_json(options)

    def challenge_of(
        self, answer: structs.AuthenticationCredential | structs.RegistrationCredential, *, now: datetime
    ) -> bytes | None:
        """Return the answered challenge if made for this browser and purpose, and not expired."""
        challenge = helpers.parse_client_data_json(answer.response.client_data_json).challenge
        said, code = challenge[: _NONCE_BYTES + _TIME_BYTES], challenge[_NONCE_BYTES + _TIME_BYTES :]
        own = self.visitor.browser.known and hmac.compare_digest(self._code(said), code)
        return challenge if own and expiry_of(challenge) >= now else None

    def verify(
        self, answer: structs.AuthenticationCredential, challenge: bytes, *, public_key: bytes
    ) -> PasskeyUse | None:
        """Return the authenticator's data on this use of the passkey; None unless the passkey signed the challenge."""
        if self.party is None or helpers.parse_client_data_json(answer.response.client_data_json).cross_origin:
            return None
        try:
            _refuse_tags_beside(answer.response.authenticator_data)
            verified = webauthn.verify_authentication_response(
                credential=answer,
                expected_challenge=challenge,
                expected_rp_id=self.party.host,
                expected_origin=self.party.origin,
                credential_public_key=public_key,
                # The database compares the count, so that only one of two concurrent uses succeeds.
                credential_current_sign_count=0,
                require_user_verification=True,
            )
        except Exception:  # noqa: BLE001 - forged input fails anywhere in the library
            return None
        return PasskeyUse(
            verified.new_sign_count, verified.credential_device_type is structs.CredentialDeviceType.MULTI_DEVICE
        )

    def verify_new(self, answer: structs.RegistrationCredential, challenge: bytes) -> NewCredential | None:
        """Return the new credential; None unless it was made for this challenge on a page of the service."""
        if self.party is None or helpers.parse_client_data_json(answer.response.client_data_json).cross_origin:
            return None
        try:
            [attested] = _read_cbor(answer.response.attestation_object)
            _refuse_tags_beside(attested["authData"])
            made = webauthn.verify_registration_response(
                credential=answer,
                expected_challenge=challenge,
                expected_rp_id=self.party.host,
                expected_origin=self.party.origin,
                require_user_verification=True,
            )
        except Exception:  # noqa: BLE001 - likewise
            return None
        if len(made.credential_id) > MOST_ID_BYTES:
            return None
        synced = made.credential_device_type is structs.CredentialDeviceType.MULTI_DEVICE
        return NewCredential(made.credential_id, made.credential_public_key, made.sign_count, synced)

    def _challenge(self, now: datetime) -> bytes:
        ends = int((now + LIFETIME).timestamp()).to_bytes(_TIME_BYTES)
        said = secrets.token_bytes(_NONCE_BYTES) + ends
        return said + self._code(said)

    def _code(self, said: bytes) -> bytes:
        return self.visitor.derive("passkey challenge", f"{self.purpose}\n{said.hex()}")


def new_passkey_purpose(principal_id: UUID) -> str:
    return f"newPasskey\n{principal_id}"


def read_answer(text: str) -> structs.AuthenticationCredential | None:
    return _read(text, helpers.parse_authentication_credential_json)


def read_new(text: str) -> structs.RegistrationCredential | None:
    return _read(text, helpers.parse_registration_credential_json)


def _read(text: str, parse: Callable[[dict[str, Any]], Credential]) -> Credential | None:
    if len(text) > MOST_CHARACTERS:
        return None
    try:
        answer = parse(json.loads(text))
        helpers.parse_client_data_json(answer.response.client_data_json)
    except Exception:  # noqa: BLE001 - forged input fails anywhere in the library
        return None
    return answer


def hash_challenge(challenge: bytes) -> bytes:
    return hashlib.sha256(challenge).digest()


def expiry_of(challenge: bytes) -> datetime:
    seconds = int.from_bytes(challenge[_NONCE_BYTES : _NONCE_BYTES + _TIME_BYTES])
    return datetime.fromtimestamp(seconds, UTC)


def _descriptors(factors: Collection[Factor]) -> list[structs.PublicKeyCredentialDescriptor]:
    return [
        structs.PublicKeyCredentialDescriptor(id=one.credential_id) for one in factors if one.credential_id is not None
    ]


class _NoTags(dict[int, Any]):
    """No CBOR tag decoders: authenticators use none (CTAP 2.1, section 8), and the library's may take minutes."""

    def __missing__(self, tag: int) -> Any:
        raise ValueError


def _read_cbor(content: bytes) -> list[Any]:
    items, stream = list[Any](), BytesIO(content)
    while stream.tell() < len(content):
        items.append(cbor2.load(stream, semantic_decoders=_NoTags()))
    return items


def _refuse_tags_beside(data: bytes) -> None:
    rest = data[_HEAD_BYTES:]
    if data[_FLAGS_AT] & _HAS_CREDENTIAL:
        begins = _AAGUID_BYTES + _LENGTH_BYTES
        rest = rest[begins + int.from_bytes(rest[_AAGUID_BYTES:begins]) :]
    _read_cbor(rest)


def _is_ip(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
