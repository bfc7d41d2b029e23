"""From an assignment to a reply."""

from service.answering.models import Assignment, Progress, Reply
from service.answering.providers import model_names
from service.runtime import Runtime

NOTHING_ANSWERS = "Nothing that you may read here answers this."


async def answer(runtime: Runtime, assignment: Assignment, *, progress: Progress) -> Reply:
    """Answer a message as its sender; `progress` is told on the way.

    Raises ModelFailure when the model gives no reply.
    """
    await progress(NOTHING_ANSWERS, ())
    model = assignment.model or model_names(runtime.settings)[0]
    return Reply(NOTHING_ANSWERS, model, quotes_only=True)
