"""Webhooks: messages posted and signed as in https://www.standardwebhooks.com. An admin sets the address, and the
service posts from inside its network. Therefore the service resolves the host's name itself, and connects only to a
checked address. Redirects are not followed."""

import asyncio
import base64
import hashlib
import hmac
import ipaddress
import secrets
import socket
import ssl
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from uuid import UUID

import httpcore
import httpx
from opentelemetry.trace import SpanKind
from pydantic import SecretStr

from service.alerting.wording import one_line
from service.platform import traces
from service.platform.errors import BadRequest, FieldError
from service.platform.networks import AddressDenied, AllowedHosts, GuardedTransport, parts_of
from service.platform.version import VERSION

SECONDS = 20.0
_CONNECT_SECONDS = 10.0
_ANSWER_SECONDS, _ANSWER_BYTES = 2.0, 1000
_PREFIX = "whsec_"
_SECRET_BYTES = 32
_GONE = 410


@dataclass(frozen=True, slots=True)
class Attempt:
    """The result of an attempt: no `error` if the message was accepted; `is_last` rules out a retry."""

    status_code: int | None = None
    error: str | None = None
    is_last: bool = False
    answer: str | None = None


def new_secret() -> SecretStr:
    return SecretStr(_PREFIX + base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode())


def sign(secret: SecretStr, *, message_id: str, timestamp: int, body: bytes) -> str:
    """Return the signature of a message: HMAC-SHA256 of id, time in seconds and body."""
    key = base64.b64decode(secret.get_secret_value().removeprefix(_PREFIX))
    signed = f"{message_id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()


def check_url(url: str, allowed: AllowedHosts) -> None:
    """Raise 400 `webhook_not_allowed` for a forbidden address. Checks without DNS."""
    parts = parts_of(url)
    if parts is None or parts.hostname is None:
        raise _not_allowed("It can't be read. Use an https address without user and password.")
    if not allowed.may_allow(parts.hostname):
        raise _not_allowed("Its host is not public. An operator can allow it with CARREL_WEBHOOK_ALLOWED_HOSTS.")
    if parts.scheme != "https" and not _is_named(parts.hostname, allowed):
        raise _not_allowed("It is not https. Messages go by http only to hosts in CARREL_WEBHOOK_ALLOWED_HOSTS.")


async def post(url: str, body: bytes, *, message_id: UUID, secret: SecretStr, allowed: AllowedHosts) -> Attempt:
    """Post a signed message, within 20 seconds, and return the result."""
    timestamp = int(time.time())
    headers = {
        "Content-Type": "application/json",
        "Accept-Encoding": "identity",
        "User-Agent": f"carrel/{VERSION}",
        "webhook-id": str(message_id),
        "webhook-timestamp": str(timestamp),
        "webhook-signature": sign(secret, message_id=str(message_id), timestamp=timestamp, body=body),
    }
    try:
        async with asyncio.timeout(SECONDS):
            allowed = await asyncio.to_thread(allowed.resolve)
            return await _post(url, body, headers=headers, allowed=allowed)
    except AddressDenied as error:
        return Attempt(error=str(error))
    except (TimeoutError, httpcore.TimeoutException):
        return Attempt(error=f"The receiver did not answer within {SECONDS:.0f} seconds.")
    except socket.gaierror:
        return Attempt(error="The host's name is unknown. Correct the address of the rule.")
    except (httpcore.ConnectError, ssl.SSLError) as error:
        is_tls = isinstance(error, ssl.SSLError) or isinstance(error.__cause__, ssl.SSLError)
        no_tls = "The receiver's certificate is not trusted, or it has no TLS. Correct its certificate."
        return Attempt(error=no_tls if is_tls else "Nothing answers at the address. Check the receiver.")
    except (httpcore.NetworkError, httpcore.ProtocolError, httpx.HTTPError, httpx.InvalidURL, OSError):
        return Attempt(error="The connection broke, or the answer was not HTTP. Check the receiver.")


async def _post(url: str, body: bytes, *, headers: dict[str, str], allowed: AllowedHosts) -> Attempt:
    # Only the host, because the rest of the address may contain a secret.
    with traces.span("post webhook", {"server.address": httpx.URL(url).host}, kind=SpanKind.CLIENT) as span:
        async with (
            httpx.AsyncClient(transport=GuardedTransport(allowed), timeout=_CONNECT_SECONDS) as http,
            http.stream("POST", url, headers=headers, content=body) as response,
        ):
            span.set_attribute("http.response.status_code", response.status_code)
            return replace(_to_attempt(response.status_code), answer=await _read_answer(response))


async def _read_answer(response: httpx.Response) -> str | None:
    """Return the start of a response body as a line; None without text. Only the status decides about success."""
    answer = b""
    with suppress(TimeoutError, httpcore.NetworkError, httpcore.ProtocolError, httpx.HTTPError, OSError):
        async with asyncio.timeout(_ANSWER_SECONDS):
            async for part in response.aiter_raw(_ANSWER_BYTES):
                answer += part
                if len(answer) >= _ANSWER_BYTES:
                    break
    return one_line(answer.decode(errors="replace"), most=_ANSWER_BYTES) or None


def _to_attempt(status: int) -> Attempt:
    if 200 <= status < 300:
        return Attempt(status)
    if status == _GONE:
        return Attempt(status, "The receiver refuses all messages (410). Correct or delete the rule.", is_last=True)
    hint = " Redirects are not followed. Enter the address that it redirects to." if 300 <= status < 400 else ""
    return Attempt(status, f"The receiver answers {status}.{hint}")


def _is_named(host: str, allowed: AllowedHosts) -> bool:
    try:
        return allowed.names_address(ipaddress.ip_address(host))
    except ValueError:
        return host.lower().rstrip(".") in allowed.names


def _not_allowed(message: str) -> BadRequest:
    return BadRequest(message, code="webhook_not_allowed", details=[FieldError("webhookUrl", message)])
