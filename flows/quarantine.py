"""The flow for sending quarantined documents again, for people without access to the machine with the ledgers."""

from collections.abc import Sequence
from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State

from flows.operations.quarantine import retry
from flows.running import conclude, current_run_id, hooks_of, publish_progress, skip_while_busy
from flows.settings import FlowSettings


@flow(name="quarantine-retry", persist_result=False)
@skip_while_busy
async def quarantine_retry(source: str, loaded_from: str = "", names: Sequence[str] = ()) -> State[dict[str, Any]]:
    """Send a source's quarantined items again, all or by name (external ids, or places without an external id), and no
    more. `source` is a ledger's name, a path or a URL; `loaded_from` tells people the source of a named ledger."""
    del loaded_from
    settings = FlowSettings()
    async with publish_progress(current_run_id()) as progress:
        hooks = hooks_of(progress, source=source, settings=settings)
        return await conclude(progress, await retry(source, names=names, settings=settings, hooks=hooks))
