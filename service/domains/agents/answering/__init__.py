"""Answering a message from what its sender may read: retrieval, a model, and citations that are checked.

`answer` knows nothing of conversations or HTTP: an `Assignment` goes in, a `Reply` comes out.
"""

import asyncio
from importlib import import_module

from service.domains.agents.answering.models import (
    Assignment,
    Citation,
    Exchange,
    ModelFailure,
    Passage,
    Progress,
    Reply,
)
from service.domains.agents.answering.providers import BUILT_IN, model_names
from service.runtime import Runtime

__all__ = [
    "BUILT_IN",
    "Assignment",
    "Citation",
    "Exchange",
    "ModelFailure",
    "Passage",
    "Progress",
    "Reply",
    "answer",
    "model_names",
]


async def answer(runtime: Runtime, assignment: Assignment, *, progress: Progress) -> Reply:
    """Answer a message as its sender; `progress` is called with the checked part of the text meanwhile.

    Raises ModelFailure when there is no reply, within `CARREL_MODEL_SECONDS` whatever happens.
    """
    # What talks to models takes a fifth of the service's start; it is loaded by the first message, off the event loop.
    await asyncio.to_thread(import_module, "service.domains.agents.answering.replying")
    from service.domains.agents.answering.replying import reply_to  # noqa: PLC0415 - see above

    return await reply_to(runtime, assignment, progress=progress)
