"""A scheduled run of an evaluation set is kept, and fails with an alert when a score is too low."""

from typing import Any

import pytest
from pydantic import ValidationError

from carrel import Carrel, ReplyFailedError, evaluation
from flows.agent_evaluation import agent_evaluation
from flows.errors import NameUnknownError, RefusedError, ScoresTooLowError
from flows.operations.evaluating import EvaluationOptions, evaluate_agent
from flows.runs import COUNTS
from flows.settings import FlowSettings
from tests.flows.serving import artifacts_of, state_of
from tests.harness.services import RunningService
from tests.service.conversations import a_desk

FERRY = "When does the ferry to Northlight leave?"


def a_set(service: RunningService) -> str:
    desk = a_desk(service)
    with Carrel(service.api_key, service.base_url) as client:
        sets = client.admin.evaluation_sets
        one = sets.create("Ferries", agent_id=desk.agent_id)
        sets.put_judgements(one.evaluation_set_id, [{"question": FERRY, "statements": ["at noon", "at midnight"]}])
        return str(one.evaluation_set_id)


async def test_a_run_is_kept_and_fails_below_its_floors(service, flow_settings, monkeypatch) -> None:
    set_id = a_set(service)
    counted: list[tuple[int, int]] = []
    floors = EvaluationOptions(at_least={"statements_said": 0.5, "groundedness": 1}, note="nightly")

    def count(done: int, of: int) -> None:
        counted.append((done, of))

    run = await evaluate_agent("Ferries", options=floors, settings=flow_settings, on_progress=count)
    assert (run.statements_said, run.note, counted) == (0.5, "nightly", [(0, 1), (1, 1)])
    higher = EvaluationOptions(at_least={"statements_said": 0.51, "recall": 0.5})
    with pytest.raises(ScoresTooLowError, match=r"statements_said is 0\.500, at least 0\.51; recall is not measured"):
        await evaluate_agent(set_id, options=higher, settings=flow_settings, on_progress=count)

    def fail(*_: object) -> Any:
        raise ReplyFailedError("The model is late.", code="model_timeout")

    with monkeypatch.context() as patched:
        patched.setattr(evaluation.Measurer, "_ask", fail)
        with pytest.raises(ScoresTooLowError, match="1 of its questions failed"):
            await evaluate_agent(set_id, options=EvaluationOptions(), settings=flow_settings, on_progress=count)
    with Carrel(service.api_key, service.base_url) as client:
        assert len(list(client.admin.evaluation_sets.list_runs(set_id))) == 3
        [alert] = client.admin.alerts.list()
    assert (alert.kind, alert.flow, alert.code, alert.name) == (
        "RUN_FAILED", "agent-evaluation", "scores_too_low", set_id,
    )  # fmt: skip
    for wrong in ({"speed": 1}, {"recall": 2}):
        with pytest.raises(ValidationError):
            EvaluationOptions.model_validate({"at_least": wrong})
    with pytest.raises(NameUnknownError, match="'Trains'"):
        await evaluate_agent("Trains", options=floors, settings=flow_settings, on_progress=count)
    with Carrel(service.api_key, service.base_url) as client:
        assert {one.name for one in client.admin.alerts.list()} == {set_id, "Trains"}
    monkeypatch.setenv("CARREL_API_KEY", service.new_user("dan@example.com"))
    with pytest.raises(RefusedError):
        await evaluate_agent("Ferries", options=floors, settings=FlowSettings(), on_progress=count)


async def test_as_a_flow(service: RunningService, flow_settings: FlowSettings, prefect_api: str) -> None:
    del flow_settings
    set_id = a_set(service)
    state = await state_of(agent_evaluation, set_id)
    assert state.message == "1 questions asked: answered 1.000, statements_said 0.500, groundedness 1.000."
    assert '"sent": 1' in artifacts_of(prefect_api, state)[COUNTS]
    failed = await state_of(agent_evaluation, set_id, EvaluationOptions(at_least={"recall": 0.5}))
    assert failed.is_failed()
    assert "recall is not measured, at least 0.5" in str(failed.message)
