"""The flow for sending quarantined documents again, for people without access to the machine with the ledgers."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State

from flows.operations.quarantine import retry
from flows.running import run_to_end, skip_while_busy


@flow(name="quarantine-retry", persist_result=False)
@skip_while_busy
async def quarantine_retry(source: str, loaded_from: str = "", names: Sequence[str] = ()) -> State[dict[str, Any]]:
    """Send a source's quarantined items again, all or by name (external ids, or places without an external id), and no
    more. `source` is a ledger's name, a path or a URL; `loaded_from` tells people the source of a named ledger."""
    del loaded_from
    return await run_to_end(partial(retry, names=names), source)
