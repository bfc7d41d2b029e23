"""Connection addresses. No error or log repeats any part, because it may hold a password."""

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import SecretStr
from pymongo.errors import PyMongoError
from pymongo.uri_parser import parse_uri

from service.domains.documents.docstore.sources import unknown_host
from service.platform.errors import BadRequest, FieldError
from service.platform.networks import AllowedHosts

FIELD = "docstoreURI"
_SCHEME = re.compile(r"mongodb(\+srv)?://", re.ASCII)
# Options that matter for reading.
_USED_OPTIONS: Final = frozenset(
    {
        *("authmechanism", "authsource", "directconnection", "loadbalanced", "maxstalenessseconds"),
        *("readconcernlevel", "readpreference", "replicaset", "ssl", "tls"),
    }
)
# Further options are accepted, because people copy addresses, and ignored. No option that reads files, runs commands,
# calls other hosts or weakens TLS is accepted.
ALLOWED_OPTIONS: Final = _USED_OPTIONS | {
    *("appname", "connecttimeoutms", "journal", "retryreads", "retrywrites", "serverselectiontimeoutms"),
    *("sockettimeoutms", "w", "wtimeoutms"),
}
_MECHANISMS: Final = frozenset({"DEFAULT", "SCRAM-SHA-1", "SCRAM-SHA-256"})
_READING = (
    "Use mongodb://user:password@host:port/database or mongodb+srv://user:password@host/database, with special "
    "characters in user and password percent-encoded."
)


@dataclass(frozen=True, slots=True)
class ConnectionParts:
    """The parts of an address: hosts with ports, the database, and the driver's options with the credential."""

    hosts: tuple[tuple[str, int], ...] = field(repr=False)
    database: str = field(repr=False)
    options: Mapping[str, Any] = field(repr=False)


def check_uri(uri: SecretStr, allowed: AllowedHosts) -> None:
    """Refuse (400 `invalid_docstore_uri`, `docstore_host_not_allowed`) an address, without asking DNS."""
    text = uri.get_secret_value()
    scheme = _SCHEME.match(text)
    if scheme is None:
        raise _invalid("Its scheme must be mongodb or mongodb+srv.")
    _check_options(text)
    is_srv = scheme.group(1) is not None
    try:
        # Read the rest with the plain scheme: with +srv, the parser would query DNS.
        parsed = parse_uri(f"mongodb://{text[scheme.end() :]}", validate=True)
    except (PyMongoError, ValueError, TypeError):
        raise _invalid("It can't be read.") from None
    hosts: list[tuple[str, int | None]] = parsed["nodelist"]
    if is_srv and (len(hosts) != 1 or re.search(r":\d+$", _host_part(text))):
        raise _invalid("With mongodb+srv, give a single host without a port.")
    if parsed["database"] is None or parsed["collection"] is not None:
        raise _invalid("It has no database. Put the database after the slash that follows the host.")
    if not all(port is not None for _, port in hosts):
        raise _invalid("It has a Unix socket, which is not allowed.")
    if not all(allowed.may_allow(host) for host, _ in hosts):
        message = (
            "This host is not public. An operator can allow it with CARREL_DOCSTORE_ALLOWED_HOSTS (hosts, addresses or "
            "networks)."
        )
        raise BadRequest(message, code="docstore_host_not_allowed", details=[FieldError(FIELD, message)])


async def connection_parts(uri: SecretStr, *, seconds: float) -> ConnectionParts:
    """Split a checked address, with mongodb+srv hosts from DNS; raises SourceError `source_host_unknown`."""
    try:
        parsed = await asyncio.to_thread(parse_uri, uri.get_secret_value(), validate=True, connect_timeout=seconds)
    except (PyMongoError, ValueError, TypeError):
        raise unknown_host() from None
    options = {name: value for name, value in parsed["options"].items() if name.lower() in _USED_OPTIONS}
    credential = {name: parsed[name] for name in ("username", "password") if parsed[name] is not None}
    return ConnectionParts(
        hosts=tuple((host, port) for host, port in parsed["nodelist"]),
        database=parsed["database"],
        options=options | credential,
    )


def words_of(uri: SecretStr, parts: ConnectionParts) -> frozenset[str]:
    """Return the parts of an address to hide when a server's error message is repeated."""
    text = uri.get_secret_value()
    secrets = {str(parts.options[name]) for name in ("username", "password") if name in parts.options}
    hosts = {host for host, _ in parts.hosts}
    return frozenset(word for word in {text, _host_part(text), *secrets, *hosts} if word)


def _check_options(text: str) -> None:
    _, _, query = text.partition("?")
    for option in re.split("[&;]", query) if query else ():
        name, _, value = option.partition("=")
        if name.lower() not in ALLOWED_OPTIONS:
            raise _invalid(f"It has an option that is not accepted. Use only {', '.join(sorted(ALLOWED_OPTIONS))}.")
        if name.lower() == "authmechanism" and value.upper() not in _MECHANISMS:
            raise _invalid(f"Its authMechanism is not accepted. Use one of {', '.join(sorted(_MECHANISMS))}.")


def _host_part(text: str) -> str:
    return text.partition("://")[2].partition("/")[0].partition("?")[0].rpartition("@")[2]


def _invalid(reason: str) -> BadRequest:
    message = f"The address is not accepted. {reason} {_READING}"
    return BadRequest(message, code="invalid_docstore_uri", details=[FieldError(FIELD, message)])
