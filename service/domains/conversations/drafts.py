"""A reply while it is made: how far it is, kept so that others can watch, by the one worker that may.

An attempt's text only grows. When a worker changes what it has written before, that begins another attempt, so that
whoever has read the first part knows that it is void.
"""

import time
from collections.abc import Sequence
from uuid import UUID

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from service.domains.answering.models import Passage
from service.domains.conversations import queries
from service.domains.conversations.models import Work
from service.domains.conversations.queries import StoredPassage
from service.platform.logs import logger
from service.runtime import Runtime

# So long nothing is written after something was.
PAUSE_SECONDS = 0.25


class Superseded(Exception):  # noqa: N818 - no error: somebody else answers, or nobody needs to
    """The turn is not this worker's any more: done by another, given up, or erased."""


class Draft:
    """A `Progress` that writes what it is told, not too often.

    `carried` are the documents that the reply may rest on by the conversation's history.
    """

    def __init__(self, runtime: Runtime, work: Work, *, attempt: int, carried: Sequence[UUID]) -> None:
        self._runtime = runtime
        self._work = work
        self._text = ""
        self._passages: list[StoredPassage] = []
        self._written_at = float("-inf")
        self.attempt = attempt
        self.carried = [StoredPassage(-number, one, None, rests_on=True) for number, one in enumerate(carried, 1)]

    async def __call__(self, text: str, passages: Sequence[Passage]) -> None:
        """Write how far the reply is, unless something was written just now; raises Superseded.

        A database that is away keeps nobody from going on: the next time, or the end, has it all.
        """
        now = time.monotonic()
        if now - self._written_at < PAUSE_SECONDS:
            return
        self._written_at = now
        try:
            await self._write(text, [*self.carried, *to_stored_passages(passages, resting=range(len(passages)))])
        except (DBAPIError, PoolTimeoutError) as error:
            logger.warning("reply_progress_not_kept", kind=type(error).__name__)

    def next_attempt(self, text: str) -> int:
        """Which attempt a text belongs to: this one, if it goes on from what was written."""
        return self.attempt if text.startswith(self._text) else self.attempt + 1

    async def _write(self, text: str, passages: list[StoredPassage]) -> None:
        organization_id, turn_id = self._work.organization_id, self._work.turn_id
        attempt = self.next_attempt(text)
        async with self._runtime.database.transaction(organization_id) as connection:
            values = {"reply": text, "attempt": attempt}
            mine = await queries.update_turn(
                connection, organization_id, turn_id=turn_id, attempt=self.attempt, values=values
            )
            if not mine:
                raise Superseded
            if passages != self._passages:
                await queries.replace_passages(connection, organization_id, turn_id=turn_id, passages=passages)
        self.attempt, self._text, self._passages = attempt, text, passages


def to_stored_passages(passages: Sequence[Passage], *, resting: Sequence[int]) -> list[StoredPassage]:
    """Convert passages for storage; `resting` are the numbers of those that the reply rests on."""
    chosen = frozenset(resting)
    return [
        StoredPassage(number, passage.document_id, passage.text, rests_on=number in chosen)
        for number, passage in enumerate(passages)
    ]
