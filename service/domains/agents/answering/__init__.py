"""Answering a message from documents readable by the sender. Conversations and HTTP are unknown here."""

import asyncio
from importlib import import_module

from service.domains.agents.answering.models import Assignment, Progress, Reply
from service.runtime import Runtime


async def answer(runtime: Runtime, assignment: Assignment, *, progress: Progress) -> Reply:
    """Answer a message; `progress` gets the checked text so far. Raises ModelFailure, within `CARREL_MODEL_SECONDS`."""
    # Model libraries would take a fifth of the service's start, so the first message loads them off the event loop.
    await asyncio.to_thread(import_module, "service.domains.agents.answering.replying")
    from service.domains.agents.answering.replying import reply_to  # noqa: PLC0415 - see above

    return await reply_to(runtime, assignment, progress=progress)
