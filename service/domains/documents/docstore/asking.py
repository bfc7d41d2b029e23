"""Query an untrusted document database: at allowed addresses, within limits, with explained errors. A collection's
editor names the database, and the service connects from inside its own network. So each address is checked while
connecting, whether from the URI, DNS, or a server's list of replicas (`Egress`). Announcements are limited to the
values of MongoDB's own servers (`bound_announcements`), because the driver believes any server. The driver allocates a
message after its header, watches each replica, and hashes passwords as often as requested, on the event loop."""

import asyncio
import ipaddress
import socket
import struct
import sys
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Any, TypeVar, cast
from weakref import WeakSet

from bson.errors import BSONError
from pymongo.asynchronous import auth
from pymongo.common import MAX_MESSAGE_SIZE
from pymongo.errors import ConnectionFailure, ExecutionTimeout, OperationFailure, ProtocolError, PyMongoError
from pymongo.hello import Hello

from service.domains.documents.docstore.sources import SourceError, unknown_host
from service.platform.logs import logger
from service.platform.networks import AddressDenied, AllowedHosts


class Egress:
    """Restricts connections inside `enforce()` to the allowed addresses, for Python's sockets on any event loop."""

    def __init__(self, allowed: AllowedHosts) -> None:
        self._allowed = allowed
        self._made: WeakSet[socket.socket] = WeakSet()
        self.denied = False

    @contextmanager
    def enforce(self) -> Generator[None]:
        """Check every connection of this context until the block ends."""
        _install()
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)

    def note(self, made: socket.socket) -> None:
        self._made.add(made)

    def close_forgotten(self) -> None:
        """Close sockets without a peer: the driver leaves a socket open when closed during connecting."""
        for connection in list(self._made):
            if connection.fileno() == -1:
                continue
            try:
                connection.getpeername()
            except OSError:
                connection.close()

    def judge(self, address: object) -> None:
        """Raise AddressDenied for a forbidden socket address, and remember the denial."""
        host = str(cast("tuple[object, ...]", address)[0]) if isinstance(address, tuple) and address else ""
        try:
            allowed = self._allowed.allows(ipaddress.ip_address(host.split("%", maxsplit=1)[0]))
        except ValueError:  # not an IP address, such as a Unix socket
            allowed = False
        if not allowed:
            self.denied = True
            raise AddressDenied("The address is not public, and CARREL_DOCSTORE_ALLOWED_HOSTS doesn't allow it.")


_EVENTS = frozenset({"socket.__new__", "socket.connect"})
_current: ContextVar[Egress | None] = ContextVar("carrel_egress", default=None)


def _on_event(event: str, arguments: tuple[Any, ...]) -> None:
    if event in _EVENTS and (egress := _current.get()) is not None:
        if event == "socket.connect":
            egress.judge(arguments[1])
        else:
            egress.note(arguments[0])


@cache
def _install() -> None:
    """Have the interpreter call `_on_event` before each connection (PEP 578), because the driver has no hook."""
    sys.addaudithook(_on_event)


# MongoDB's limit for a replica set.
MOST_MEMBERS = 50
# Several times MongoDB's default; this many take a twentieth of a second.
MOST_ITERATIONS = 100_000

_all_hosts = Hello.all_hosts
# The driver reads a server's authentication messages only in this private function; a test notices if it moves.
_parse_scram = auth._parse_scram_response  # noqa: SLF001 # pyright: ignore[reportPrivateUsage, reportPrivateImportUsage]


@cache
def bound_announcements() -> None:
    """Apply the limits on announcements to all later reads of the driver in this process."""
    Hello.max_message_size = property(_max_message_size)  # pyright: ignore[reportAttributeAccessIssue]
    Hello.all_hosts = property(_some_hosts)  # pyright: ignore[reportAttributeAccessIssue]
    auth._parse_scram_response = _few_iterations  # noqa: SLF001 # pyright: ignore[reportPrivateUsage, reportPrivateImportUsage]


def _max_message_size(hello: Hello[Any]) -> int:
    told = hello.document.get("maxMessageSizeBytes")
    # Other types are refused because NaN would pass any comparison.
    return min(told, MAX_MESSAGE_SIZE) if isinstance(told, int) else MAX_MESSAGE_SIZE


def _some_hosts(hello: Hello[Any]) -> set[tuple[str, int]]:
    return set(islice(_all_hosts.__get__(hello), MOST_MEMBERS))


def _few_iterations(response: bytes) -> dict[bytes, bytes]:
    parsed = _parse_scram(response)
    if int(parsed.get(b"i", b"0")) > MOST_ITERATIONS:
        raise ProtocolError("The server asks for more password hashing rounds than Carrel allows.")
    return parsed


Result = TypeVar("Result")

OnSilence = Callable[[bool], Awaitable[None]]
"""Called when the source has not answered for `SILENT_SECONDS`, and when it answers again or has failed."""

SILENT_SECONDS = 2.0
MOST_ATTEMPTS = 3
FIRST_WAIT_SECONDS = 0.5
LONGEST_QUOTE = 300
# Error codes for a wrong query; their messages are about the query.
_BAD_QUERY = frozenset({2, 9, 14, 40, 168, 16410, 17287})
_UNAUTHENTICATED, _UNAUTHORIZED, _OF_ATLAS = 18, 13, 8000
# The errors that the driver raises on a malformed answer.
_MALFORMED = (LookupError, TypeError, ValueError, AttributeError, RecursionError, struct.error)


@dataclass(frozen=True, slots=True)
class SourceClient:
    """A client that connects only to allowed addresses, tries MOST_ATTEMPTS times, and repeats no secret in errors."""

    egress: Egress
    words: frozenset[str]
    seconds: float
    hosts: tuple[str, ...] = ()
    on_silence: OnSilence | None = None

    async def ask(self, question: Callable[[], Awaitable[Result]]) -> Result:
        """Return the result of a query, or SourceError. Tells `on_silence` when the source is slow, and after."""
        if self.on_silence is None:
            return await self._ask_with_retries(question)
        watcher = asyncio.create_task(self._tell_silence(self.on_silence))
        try:
            return await self._ask_with_retries(question)
        finally:
            watcher.cancel()
            await asyncio.wait({watcher})
            if not watcher.cancelled() and watcher.exception() is None:
                await self.on_silence(False)

    async def _tell_silence(self, tell: OnSilence) -> None:
        await asyncio.sleep(SILENT_SECONDS)
        await tell(True)

    async def _ask_with_retries(self, question: Callable[[], Awaitable[Result]]) -> Result:
        for attempt in range(1, MOST_ATTEMPTS + 1):
            try:
                with self.egress.enforce():
                    return await question()
            except ConnectionFailure as error:
                if self.egress.denied or attempt == MOST_ATTEMPTS:
                    unknown = not self.egress.denied and await self._is_host_unknown()
                    raise self.to_source_error(error, is_host_unknown=unknown) from None
            except (PyMongoError, BSONError, OSError) as error:
                raise self.to_source_error(error) from None
            except _MALFORMED as error:
                logger.warning("docstore_answer_malformed", kind=type(error).__name__)
                raise self.to_source_error(error) from None
            await asyncio.sleep(FIRST_WAIT_SECONDS * 2 ** (attempt - 1))
        raise AssertionError

    def to_source_error(self, error: Exception, *, is_host_unknown: bool = False) -> SourceError:
        """Convert an error without the driver's text, because the text names hosts and may quote the address."""
        if self.egress.denied and isinstance(error, (ConnectionFailure, OSError)):
            return SourceError(
                "source_host_not_allowed",
                "The document database, or another server that it names, has an address that is not public. An operator"
                " can allow it with CARREL_DOCSTORE_ALLOWED_HOSTS.",
            )
        if isinstance(error, ConnectionFailure):
            return unknown_host() if is_host_unknown else _connection_error(error)
        if isinstance(error, ExecutionTimeout):
            return SourceError(
                "source_too_slow",
                f"The document database took longer than {self.seconds:g} seconds for a page. Index the fields that"
                " filterExpression and sourceSystemUpdated name.",
            )
        if isinstance(error, OperationFailure):
            return self._refusal(error)
        return SourceError("source_failed", "The document database's answer can't be read. Check its address.")

    async def _is_host_unknown(self) -> bool:
        try:
            async with asyncio.timeout(self.seconds):
                for host in self.hosts:
                    await asyncio.get_running_loop().getaddrinfo(host, None)
        except OSError as error:
            # Other errors, such as an unreachable DNS, don't mean that the host is unknown.
            return isinstance(error, socket.gaierror) and error.errno in {socket.EAI_NONAME, socket.EAI_NODATA}
        return False

    def _refusal(self, error: OperationFailure) -> SourceError:
        # The server's code may be of any type.
        code = error.code if isinstance(error.code, int) else None
        said = str((error.details or {}).get("errmsg", ""))
        words = self._repeatable(said)
        if code == _UNAUTHENTICATED or (code == _OF_ATLAS and said.startswith("bad auth")):
            return SourceError(
                "source_login_refused",
                "The document database refused the user or password in the address. Update the sync.",
            )
        if code in {_UNAUTHORIZED, _OF_ATLAS}:
            return SourceError("source_refused", f"The user in the address may not read the collection: {words}")
        if code in _BAD_QUERY:
            return SourceError("source_refused_filter", f"The document database refused the filterExpression: {words}")
        return SourceError("source_failed", f"The document database refused to answer (code {code}): {words}")

    def _repeatable(self, said: str) -> str:
        """Return a server's error message as plain text, or a general text if it contains a part of the URI."""
        if not said or any(word in said for word in self.words):
            return "it gave no readable reason"
        return "".join(item if item.isprintable() else " " for item in said[:LONGEST_QUOTE])


def _connection_error(error: ConnectionFailure) -> SourceError:
    # The driver keeps the reason only as text.
    if "SSL handshake failed" in str(error):
        return SourceError(
            "source_tls_failed",
            "The TLS connection to the document database failed. It has no TLS, or its certificate isn't trusted. "
            "Check tls in the address and update the sync.",
        )
    return SourceError(
        "source_unreachable",
        "The document database does not answer at its host and port. The next run continues from here.",
    )
