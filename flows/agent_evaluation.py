"""The flow that asks an agent the questions of an evaluation set, and fails when a score is too low."""

import asyncio
from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State

from carrel.evaluation import SCORES_OF_REPLIES
from flows.operations.evaluating import EvaluationOptions, evaluate_agent
from flows.running import complete, publish_progress
from flows.settings import FlowSettings


@flow(name="agent-evaluation", persist_result=False)
async def agent_evaluation(source: str, options: EvaluationOptions | None = None) -> State[dict[str, Any]]:
    """Ask an agent the questions of the evaluation set `source`, a name or id, and keep the results. Fails when a
    question fails, or a score is below the floor in the options; alert rules then notify people."""
    loop = asyncio.get_running_loop()
    async with publish_progress() as progress:

        def count(done: int, of: int) -> None:
            row = {"documents": of, "sent": done, "phase": "sending", "progress": round(100 * done / of, 1)}
            asyncio.run_coroutine_threadsafe(progress.publish_counts(row), loop)

        chosen = options or EvaluationOptions()
        run = await evaluate_agent(source, options=chosen, settings=FlowSettings(), on_progress=count)
    scores = {name: getattr(run, name) for name in SCORES_OF_REPLIES}
    measured = [f"{name} {score:.3f}" for name, score in scores.items() if score is not None]
    return complete(f"{run.case_count:,} questions asked: {', '.join(measured)}.", run.model_dump(mode="json"))
