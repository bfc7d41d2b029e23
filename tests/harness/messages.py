"""The messages sent by the service to the database during a request."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import Engine, event
from sqlalchemy.ext.asyncio import AsyncConnection

from service.platform.batches import Batch
from service.platform.logs import request_id
from tests.harness.services import RunningService

OURS = "a-request-whose-messages-are-kept"


@contextmanager
def messages_of(service: RunningService) -> Iterator[list[str]]:
    found: list[str] = []
    run = Batch.run

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        if request_id() == OURS:
            found.append(statement)

    async def note_batch(batch: Batch, connection: AsyncConnection) -> None:
        if request_id() == OURS:
            found.append("; ".join(part.text for part in batch.parts))
        await run(batch, connection)

    service.http.headers["X-Request-Id"] = OURS
    event.listen(Engine, "before_cursor_execute", note)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Batch, "run", note_batch)
            yield found
    finally:
        event.remove(Engine, "before_cursor_execute", note)
        del service.http.headers["X-Request-Id"]
