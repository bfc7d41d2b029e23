"""A software authenticator, also with wrong behaviour (WebAuthn, sections 6 and 7)."""

import hashlib
import json
import secrets
from dataclasses import dataclass, field

import cbor2
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256

from service.platform.base64url import decode, encode

PRESENT, VERIFIED, SYNCED, HAS_CREDENTIAL, EXTENDED = 0x01, 0x04, 0x08, 0x40, 0x80


@dataclass
class Authenticator:
    """A device with a single passkey; `count` is the number of uses, or stays 0."""

    origin: str
    count: int = 0
    handle: bytes = b""
    credential_id: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))

    def make(self, asked: str, **wrong) -> str:
        options: dict = json.loads(asked)
        self.handle = decode(options["user"]["id"])
        rp = wrong.get("rp", options["rp"]["id"])
        flags = wrong.get("flags", PRESENT | VERIFIED) | HAS_CREDENTIAL
        length = len(self.credential_id).to_bytes(2)
        data = self._data(rp, flags) + bytes(16) + length + self.credential_id + self._public_key()
        attested = cbor2.dumps({"fmt": "none", "attStmt": {}, "authData": data, **wrong.get("beside", {})})
        client = self._client(options, "webauthn.create", wrong)
        return self._answer(client, attestationObject=wrong.get("attested", attested))

    def sign(self, asked: str, **wrong) -> str:
        options: dict = json.loads(asked)
        if self.count:
            self.count += 1
        data = self._data(wrong.get("rp", options["rpId"]), wrong.get("flags", PRESENT | VERIFIED))
        data += wrong.get("extensions", b"")
        client = self._client(options, wrong.get("kind", "webauthn.get"), wrong)
        signature = self.key.sign(data + hashlib.sha256(client).digest(), ec.ECDSA(SHA256()))
        given = {"authenticatorData": data, "signature": wrong.get("signature", signature)}
        handle: bytes = wrong.get("handle", self.handle)
        return self._answer(client, **given, **({"userHandle": handle} if handle else {}))

    def _client(self, options: dict, kind: str, wrong: dict) -> bytes:
        content = {
            "type": kind,
            "challenge": wrong.get("challenge", options["challenge"]),
            "origin": wrong.get("origin", self.origin),
            "crossOrigin": wrong.get("framed", False),
        }
        return json.dumps(content).encode()

    def _data(self, rp: str, flags: int) -> bytes:
        return hashlib.sha256(rp.encode()).digest() + bytes([flags]) + self.count.to_bytes(4)

    def _public_key(self) -> bytes:
        numbers = self.key.public_key().public_numbers()
        return cbor2.dumps({1: 2, 3: -7, -1: 1, -2: numbers.x.to_bytes(32), -3: numbers.y.to_bytes(32)})

    def _answer(self, client: bytes, **given: bytes) -> str:
        response = {"clientDataJSON": client, **given}
        own = encode(self.credential_id)
        values = {name: encode(value) for name, value in response.items()}
        return json.dumps({"id": own, "rawId": own, "type": "public-key", "response": values})
