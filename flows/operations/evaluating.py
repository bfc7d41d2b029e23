"""Ask an agent the questions of an evaluation set, and compare the scores with floors. Independent of Prefect."""

import asyncio
import threading
from collections.abc import Callable, Mapping
from typing import Annotated

from pydantic import AfterValidator, Field

from carrel import Carrel, evaluation
from carrel.errors import AuthenticationError, PermissionDeniedError
from carrel.wire.evaluation_runs import EvaluationRun
from flows.errors import NameUnknownError, RefusedError, ScoresTooLowError
from flows.operations.options import Options
from flows.operations.reporting import report_run
from flows.settings import FlowSettings

_MOST_SETS = 1000


class EvaluationOptions(Options):
    at_least: Annotated[
        dict[str, Annotated[float, Field(ge=0, le=1)]],
        AfterValidator(lambda floors: evaluation.check_scores(floors) or floors),
    ] = Field(default_factory=dict, description="Minimum scores by name, from 0 to 1.")
    note: str | None = Field(default=None, max_length=1000, description="Note to save with each run.")


async def evaluate_agent(
    source: str, *, options: EvaluationOptions, settings: FlowSettings, on_progress: Callable[[int, int], object]
) -> EvaluationRun:
    """Ask an evaluation set's agent, keep and return the run. Raises ScoresTooLowError, also if a question failed."""
    stopped = threading.Event()

    def count(done: int, of: int) -> None:
        if stopped.is_set():
            raise InterruptedError
        on_progress(done, of)

    async with report_run(settings, flow="agent-evaluation", source=source) as report:
        report.has_begun = True  # a schedule whose set was renamed or deleted must be reported too
        try:
            run = await asyncio.to_thread(_ask_all, source, options, settings, count)
        except asyncio.CancelledError:
            stopped.set()
            raise
        low = evaluation.find_low_scores(run, options.at_least)
        told = [f"{run.failed_count:,} of its questions failed"] if run.failed_count else []
        told += describe_low_scores(low, options.at_least)
        if told:
            message = f"Too low: {'; '.join(told)}. See the evaluation set's page for failed and worse replies."
            raise ScoresTooLowError(message)
        return run


def _ask_all(
    source: str, options: EvaluationOptions, settings: FlowSettings, on_progress: Callable[[int, int], object]
) -> EvaluationRun:
    key = None if settings.api_key is None else settings.api_key.get_secret_value()
    try:
        with Carrel(api_key=key, base_url=settings.base_url) as client:
            listed = client.admin.evaluation_sets.list(page_size=_MOST_SETS)
            found = [item for item in listed if item.agent_id and source in {item.name, str(item.evaluation_set_id)}]
            if not found or not found[0].case_count:
                called = f"named {source!r} that has questions"
                raise NameUnknownError(f"There is no evaluation set of an agent {called}. Check its name.")
            on_progress(0, found[0].case_count)  # a run that was stopped begins nothing
            return evaluation.run(client, found[0], note=options.note, on_progress=on_progress)
    except (AuthenticationError, PermissionDeniedError) as exc:
        raise RefusedError(str(exc)) from exc


def describe_low_scores(low: Mapping[str, float | None], floors: Mapping[str, float]) -> list[str]:
    return [
        f"{name} is {'not measured' if score is None else f'{score:.3f}'}, at least {floors[name]:g}"
        for name, score in low.items()
    ]
