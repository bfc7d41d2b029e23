"""Querying a document database: at allowed addresses only, again when the connection broke, with explained errors."""

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from bson.errors import BSONError
from pymongo.errors import ConnectionFailure, ExecutionTimeout, OperationFailure, PyMongoError

from service.domains.documents.docstore.addresses import Egress
from service.domains.documents.docstore.sources import SourceError, unknown_host
from service.platform.logs import logger

Result = TypeVar("Result")

MOST_ATTEMPTS = 3
FIRST_WAIT_SECONDS = 0.5
LONGEST_QUOTE = 300
# Codes by which a server says that the query itself is wrong; what it says then is about the query.
_BAD_QUERY = frozenset({2, 9, 14, 40, 168, 16410, 17287})
_UNAUTHENTICATED, _UNAUTHORIZED, _OF_ATLAS = 18, 13, 8000
# What the driver trips over when an answer is not of the form that it takes for granted.
_MALFORMED = (LookupError, TypeError, ValueError, AttributeError, RecursionError, struct.error)


@dataclass(frozen=True, slots=True)
class SourceClient:
    """A client of a document database: only allowed addresses, one retry on a broken connection, no secrets in errors.

    `hosts` are the hosts in the URI, for the error that a host name is unknown.
    """

    egress: Egress
    words: frozenset[str]
    seconds: float
    hosts: tuple[str, ...] = ()

    async def ask(self, question: Callable[[], Awaitable[Result]]) -> Result:
        """Return the result of a query; raise SourceError when there is none."""
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
        """Convert an error to a SourceError without the driver's text, which names hosts and may quote the address."""
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
        return SourceError("source_failed", "The document database gave an answer that can't be read.")

    async def _is_host_unknown(self) -> bool:
        try:
            async with asyncio.timeout(self.seconds):
                for host in self.hosts:
                    await asyncio.get_running_loop().getaddrinfo(host, None)
        except OSError as error:
            # Anything else, such as a DNS that doesn't answer, says nothing of the host.
            return isinstance(error, socket.gaierror) and error.errno in {socket.EAI_NONAME, socket.EAI_NODATA}
        return False

    def _refusal(self, error: OperationFailure) -> SourceError:
        # A server may call anything a code.
        code = error.code if isinstance(error.code, int) else None
        said = str((error.details or {}).get("errmsg", ""))
        if code == _UNAUTHENTICATED or (code == _OF_ATLAS and said.startswith("bad auth")):
            return SourceError(
                "source_login_refused",
                "The document database does not accept the user or the password of the address. Update the sync.",
            )
        if code in {_UNAUTHORIZED, _OF_ATLAS}:
            return SourceError(
                "source_refused",
                "The document database does not let the user of the address read the collection. Update the sync.",
            )
        if code in _BAD_QUERY:
            said = self._repeatable(error.details or {})
            return SourceError("source_refused_filter", f"The document database refuses the filterExpression: {said}")
        return SourceError("source_failed", f"The document database refuses to answer (code {code}).")

    def _repeatable(self, answer: Mapping[str, Any]) -> str:
        """Return a server's error message as plain text, or a general text if it contains a part of the URI."""
        said = str(answer.get("errmsg", ""))
        if any(word in said for word in self.words):
            return "no reason that can be repeated"
        return "".join(one if one.isprintable() else " " for one in said[:LONGEST_QUOTE])


def _connection_error(error: ConnectionFailure) -> SourceError:
    # Of why a server could not be reached, the driver keeps nothing but words.
    if "SSL handshake failed" in str(error):
        return SourceError(
            "source_tls_failed",
            "The document database can't be connected to over TLS, as the address has it: it speaks none, or its"
            " certificate isn't trusted. Update the sync.",
        )
    return SourceError(
        "source_unreachable",
        "The document database does not answer at its host and port. The next run continues where this one stopped.",
    )
