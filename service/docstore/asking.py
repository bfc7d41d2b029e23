"""Asking a document database: of allowed addresses alone, again when the connection broke, and what its errors mean."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from bson.errors import BSONError
from pymongo.errors import ConnectionFailure, ExecutionTimeout, OperationFailure, PyMongoError

from service.docstore.addresses import Egress
from service.docstore.sources import SourceError

Result = TypeVar("Result")

MOST_ATTEMPTS = 3
FIRST_WAIT_SECONDS = 0.5
LONGEST_QUOTE = 300
# Codes by which a server says that the query itself is wrong; what it says then is about the query.
_BAD_QUERY = frozenset({2, 9, 14, 40, 168, 16410, 17287})
_UNAUTHORIZED = frozenset({13, 18, 8000})


@dataclass(frozen=True, slots=True)
class Asking:
    """How questions are asked: of allowed addresses alone, again when the connection broke, errors without secrets."""

    egress: Egress
    words: frozenset[str]
    seconds: float

    async def ask(self, question: Callable[[], Awaitable[Result]]) -> Result:
        """Return the answer; SourceError when there is none."""
        for attempt in range(1, MOST_ATTEMPTS + 1):
            try:
                with self.egress.enforced():
                    return await question()
            except ConnectionFailure as error:
                if self.egress.denied or attempt == MOST_ATTEMPTS:
                    raise self.told(error) from None
            except (PyMongoError, BSONError, OSError) as error:
                raise self.told(error) from None
            await asyncio.sleep(FIRST_WAIT_SECONDS * 2 ** (attempt - 1))
        raise AssertionError

    def told(self, error: Exception) -> SourceError:
        """Say what went wrong without what the driver says, which names hosts, and may quote the address."""
        if self.egress.denied:
            return SourceError(
                "source_host_not_allowed",
                "The document database, or another server that it names, has an address that is not public. An operator"
                " can allow it with CARREL_DOCSTORE_ALLOWED_HOSTS.",
            )
        if isinstance(error, ConnectionFailure):
            return SourceError(
                "source_unreachable",
                "The document database does not answer, or not over TLS as the docstoreURI has it. The next run goes on"
                " where this one stopped.",
            )
        if isinstance(error, ExecutionTimeout):
            return SourceError(
                "source_too_slow",
                f"The document database took longer than {self.seconds:g} seconds for a page. Index the fields that"
                " filterExpression and sourceSystemUpdated name.",
            )
        if isinstance(error, OperationFailure):
            return self._refused(error)
        return SourceError("source_failed", "The document database gave an answer that can't be read.")

    def _refused(self, error: OperationFailure) -> SourceError:
        if error.code in _UNAUTHORIZED:
            return SourceError(
                "source_refused",
                "The document database does not accept the user of the docstoreURI, or does not let it read the"
                " collection. Update the sync.",
            )
        if error.code in _BAD_QUERY:
            said = str((error.details or {}).get("errmsg", ""))[:LONGEST_QUOTE]
            if any(word in said for word in self.words):
                said = "no reason that can be repeated"
            return SourceError("source_refused_filter", f"The document database refuses the filterExpression: {said}")
        return SourceError("source_failed", f"The document database refuses to answer (code {error.code}).")
