"""Save an unfinished reply for other watchers. Changed text starts a new attempt and voids the earlier text."""

import time
from collections.abc import Sequence
from uuid import UUID

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from service.domains.agents.answering.models import Passage
from service.domains.agents.conversations import queries
from service.domains.agents.conversations.models import Work
from service.domains.agents.conversations.queries import StoredPassage
from service.platform.logs import logger
from service.runtime import Runtime

# The least time between two writes of a draft.
PAUSE_SECONDS = 0.25


class Superseded(Exception):  # noqa: N818 - no error: another process answers, or no answer is needed
    """The turn no longer belongs to this worker: another worker has taken over, or the turn was given up or erased."""


class Draft:
    """A `Progress` that saves text at most every `PAUSE_SECONDS`; `carried` are documents of earlier replies."""

    def __init__(self, runtime: Runtime, work: Work, *, carried: Sequence[UUID]) -> None:
        self._runtime = runtime
        self.work = work
        self._text = ""
        self._passages: list[StoredPassage] = []
        self._written_at = float("-inf")
        self.attempt = work.attempt
        self.carried = [StoredPassage(-number, key, None, None, rests_on=True) for number, key in enumerate(carried, 1)]

    async def __call__(self, text: str, passages: Sequence[Passage]) -> None:
        """Save text and passages when due, unless the database is out of reach. Raises Superseded on a void attempt."""
        now = time.monotonic()
        if now - self._written_at < PAUSE_SECONDS:
            return
        self._written_at = now
        try:
            await self._write(text, [*self.carried, *to_stored_passages(passages, resting=range(len(passages)))])
        except (DBAPIError, PoolTimeoutError) as error:
            logger.warning("reply_progress_not_kept", kind=type(error).__name__)

    def next_attempt(self, text: str) -> int:
        """Return the number of a text's attempt: the current number if the text extends the saved text."""
        return self.attempt if text.startswith(self._text) else self.attempt + 1

    async def _write(self, text: str, passages: list[StoredPassage]) -> None:
        organization_id, turn_id = self.work.organization_id, self.work.turn_id
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
    """Convert passages to rows; `resting` has the numbers of the supporting passages."""
    chosen = frozenset(resting)
    return [
        StoredPassage(number, passage.document_id, passage.text, passage.place, rests_on=number in chosen)
        for number, passage in enumerate(passages)
    ]
