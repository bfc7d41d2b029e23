"""Evaluation sets measured against the real service: searches by rank, replies by citations."""

from typing import Any
from uuid import UUID

import pytest

from carrel import Carrel, InvalidArgumentError, NotFoundError, ReplyFailedError, evaluation
from carrel.drafts import copy_agent, lend_draft
from carrel.wire.evaluation import EvaluationCase
from carrel.wire.evaluation_runs import KeptResult
from service.domains.agents.evaluation import service as rules
from tests.harness.documents import uploaded
from tests.harness.services import ADMIN_EMAIL, RunningService
from tests.service.conversations import a_desk

DOGS, FERRIES = "Where may dogs travel free of charge?", "When does the ferry to Northlight leave?"
TEXTS = {
    "fares": "Fares: dogs travel free of charge on every line.",
    "ferries": "The ferry to Northlight leaves at noon.",
    "canteen": "The canteen opens at eight.",
}


@pytest.fixture
def client(service: RunningService) -> Any:
    for name, text in TEXTS.items():
        uploaded(service, name, text)
    with Carrel(service.api_key, service.base_url) as one:
        yield one


def document_id_of(client: Carrel, external_id: str) -> UUID:
    found = client.search.search_document_catalog(TEXTS[external_id], mode="LEXICAL").results[0]
    assert found.document_external_id == external_id
    return found.document_id


def test_a_set_is_measured_kept_and_compared(client: Carrel) -> None:
    sets = client.admin.evaluation_sets
    one = sets.create("Travel")
    judgements = {DOGS: {"fares": 2, "canteen": 0}, FERRIES: {"ferries": 1}, "Open?": {"canteen": 0}}
    done: list[tuple[int, int]] = []
    counting: Any = {"on_progress": lambda *counts: done.append(counts)}
    evaluation.add_judgements(client, one.evaluation_set_id, judgements, **counting)
    before = evaluation.run(client, one, mode="LEXICAL", note="Before", **counting)
    assert done == [(3, 3), (1, 2), (2, 2)]
    assert (before.mode, before.note, before.case_count) == ("LEXICAL", "Before", 2)
    assert (before.ndcg, before.recall, before.reciprocal_rank) == (1, 1, 1)
    client.catalog.delete_document(document_id_of(client, "fares"))
    after = evaluation.run(client, one, mode="LEXICAL")
    results = [list(sets.list_results(one.evaluation_set_id, run.evaluation_run_id)) for run in (before, after)]
    assert results[0][0].found[0] == "fares"
    worst, same = evaluation.compare(*results)
    assert (worst.question, worst.change, worst.after.ndcg) == (DOGS, -1, 0)
    assert (same.question, same.change) == (FERRIES, 0)


def test_many_judgements_are_sent_in_parts(client: Carrel) -> None:
    one = client.admin.evaluation_sets.create("Many")
    judgements = {f"Question {number}": {"fares": 1} for number in range(101)}
    for _ in range(2):
        evaluation.add_judgements(client, one.evaluation_set_id, judgements)
        [listed] = client.admin.evaluation_sets.list(ids=[one.evaluation_set_id])
        assert listed.case_count == 101


def test_nothing_to_measure_is_said(client: Carrel) -> None:
    one = client.admin.evaluation_sets.create("Empty")
    with pytest.raises(ValueError, match="Judge some first"):
        evaluation.run(client, one)
    assert list(client.admin.evaluation_sets.list_runs(one.evaluation_set_id)) == []


def test_a_collection_is_searched_and_gone_collections_are_told(client: Carrel) -> None:
    collection_id = client.document_collections.create_document_collection("Handbook").document_collection_id
    document_id = document_id_of(client, "ferries")
    client.document_collections.add_document_to_collection(
        document_id=document_id, document_collection_id=collection_id, custom_metadata={}
    )
    one = client.admin.evaluation_sets.create("Handbook", document_collection_id=collection_id)
    evaluation.add_judgements(client, one.evaluation_set_id, {FERRIES: {"ferries": 1}, DOGS: {"fares": 1}})
    run = evaluation.run(client, one, mode="SEMANTIC")
    assert (run.recall, run.case_count) == (0.5, 2)
    client.document_collections.delete_document_collection(collection_id)
    with pytest.raises(NotFoundError):
        evaluation.run(client, one)
    assert len(list(client.admin.evaluation_sets.list_runs(one.evaluation_set_id))) == 1


def test_an_agent_is_measured_by_what_it_cites(client: Carrel, service: RunningService) -> None:
    desk = a_desk(service)
    one = client.admin.evaluation_sets.create("Desk", agent_id=desk.agent_id)
    judgements = {FERRIES: {"Harbour desk notes": 1, "ferries": 1}, "What is the meaning of life?": {}}
    evaluation.add_judgements(client, one.evaluation_set_id, judgements)
    run = evaluation.run(client, one)
    assert (run.mode, run.answered, run.recall, run.precision) == (None, 0.5, 0.5, 1)
    assert (run.statements_said, run.refused, run.groundedness) == (None, None, 1)
    answered, open_ = client.admin.evaluation_sets.list_results(one.evaluation_set_id, run.evaluation_run_id)
    assert (answered.answered, answered.found) == (True, ["Harbour desk notes"])
    assert (open_.answered, open_.found, open_.recall) == (False, [], None)
    assert answered.message_id is not None
    assert "noon" not in answered.model_dump_json()


def test_a_reply_is_measured_by_what_it_says_and_by_what_it_refuses(client: Carrel, service: RunningService) -> None:
    desk = a_desk(service)
    sets = client.admin.evaluation_sets
    one = sets.create("Desk", agent_id=desk.agent_id)
    cases: list[dict[str, Any]] = [
        {"question": FERRIES, "statements": ["leaves at NOON", "at midnight"]},
        {"question": "What is the meaning of life?", "nothing_answers": True},
        {"question": "When does the ferry leave?", "nothing_answers": True},
    ]
    sets.put_judgements(one.evaluation_set_id, cases)
    run = evaluation.run(client, one)
    assert (run.statements_said, run.refused, run.answered) == (0.5, 0.5, 1)
    results = list(sets.list_results(one.evaluation_set_id, run.evaluation_run_id))
    assert [(each.statements_said, each.refused, each.groundedness) for each in results] == [
        (0.5, None, 1),
        (None, True, None),
        (None, False, 1),
    ]
    other = client.admin.agents.create("Without documents", api_access_enabled=True)
    client.admin.agents.deploy(other.agent_id, organization_wide=True)
    compared = evaluation.run(client, one, agent_id=other.agent_id, note="another agent")
    assert (run.agent_name, compared.agent_name, compared.agent_id) == (one.target_name, other.name, other.agent_id)
    kept = list(sets.list_results(one.evaluation_set_id, compared.evaluation_run_id))
    assert [each.change for each in evaluation.compare(results, kept)] == [-0.5, 0, 1]
    with pytest.raises(InvalidArgumentError, match="asked no agent"):
        evaluation.run(client, sets.create("Searches"), agent_id=other.agent_id)
    # Whoever may not read what a reply rests on isn't told how much of it is supported.
    client.catalog.delete_document(desk.document_id)
    again = [{"case_id": each.case_id, "answered": True, "message_id": each.message_id} for each in results]
    assert sets.add_run(one.evaluation_set_id, again).groundedness is None


def test_what_fails_is_kept_with_its_error_and_a_run_that_ends_early_with_what_was_done(client, service, monkeypatch):
    desk = a_desk(service)
    sets = client.admin.evaluation_sets
    one = sets.create("Desk", agent_id=desk.agent_id)
    sets.put_judgements(one.evaluation_set_id, [{"question": FERRIES}, {"question": DOGS}])
    ask = evaluation.Measurer._ask

    def fail(measurer: evaluation.Measurer, case: EvaluationCase) -> Any:
        if case.question == FERRIES:
            raise ReplyFailedError("The model is late.", code="model_timeout", message_id=UUID(int=1))
        return ask(measurer, case)

    with monkeypatch.context() as patched:
        patched.setattr(evaluation.Measurer, "_ask", fail)
        run = evaluation.run(client, one)
    assert (run.case_count, run.failed_count, run.planned_count) == (1, 1, 2)
    failed, asked = sets.list_results(one.evaluation_set_id, run.evaluation_run_id)
    assert (failed.error, failed.answered, asked.error) == ("The model is late. (model_timeout)", None, None)
    assert evaluation.compare([failed], [failed]) == []

    def stop(*_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluation.run(client, one, on_progress=stop)
    desk.delete()
    with pytest.raises(NotFoundError):
        evaluation.run(client, one)
    half, _ = sets.list_runs(one.evaluation_set_id)
    assert (half.case_count, half.failed_count, half.planned_count) == (1, 0, 2)


def test_a_copy_is_compared_without_being_deployed(client: Carrel, service: RunningService) -> None:
    desk = a_desk(service)
    sets, agents = client.admin.evaluation_sets, client.admin.agents
    one = sets.create("Desk", agent_id=desk.agent_id)
    sets.put_judgements(one.evaluation_set_id, [{"question": FERRIES}])
    first = evaluation.run(client, one)
    copy, second = copy_agent(client, desk.agent_id), copy_agent(client, desk.agent_id)
    [agent] = agents.list(ids=[desk.agent_id])
    assert (copy.name, second.name) == (f"{agent.name} (copy)", f"{agent.name} (copy 2)")
    own = {"agent_id", "name", "created_at", "updated_at", "version"}
    assert copy.model_dump(exclude=own) == agent.model_dump(exclude=own)
    agents.update(copy.agent_id, instructions="Be brief.", retrieval={"enable_smart_filtering": True})
    resource = {"resourceId": str(copy.agent_id), "resourceType": "AGENT"}
    compared = evaluation.run(client, one, agent_id=copy.agent_id)
    with lend_draft(client, copy.agent_id):
        with lend_draft(client, copy.agent_id):
            pass  # an overlapping block takes nothing away
        [grant] = client.admin.grants.list(resource)
        assert getattr(grant.principal, "email", None) == ADMIN_EMAIL
    assert list(client.admin.grants.list(resource)) == []
    assert evaluation.find_changed_settings(first, compared) == ["instructions", "retrieval"]
    client.admin.users.upsert([{"email": "ada@example.test"}])
    both = [{"type": "user", "email": email} for email in ("ada@example.test", ADMIN_EMAIL)]
    with lend_draft(client, second.agent_id):
        agents.deploy(second.agent_id, both, organization_wide=True)
    [page] = client.admin.grants.list({**resource, "resourceId": str(second.agent_id)}).pages()
    assert ([getattr(each.principal, "email", None) for each in page.grants], page.organization_wide) == (
        ["ada@example.test"],
        True,
    )
    # An agent of others is lent in the same way; and it is asked as another person, who must have it.
    agents.deploy(second.agent_id, both[:1])
    lent = evaluation.run(client, one, agent_id=second.agent_id)
    as_ada = evaluation.run(client, one, agent_id=second.agent_id, user_email="ada@example.test", note="again")
    assert (lent.failed_count, as_ada.failed_count, as_ada.note) == (0, 0, "as ada@example.test · again")
    client.admin.users.upsert([{"email": "eve@example.test"}])
    with pytest.raises(InvalidArgumentError, match=r"eve@example\.test may not use this agent"):
        evaluation.run(client, one, agent_id=second.agent_id, user_email="eve@example.test")
    [page] = client.admin.grants.list({**resource, "resourceId": str(second.agent_id)}).pages()
    assert [getattr(each.principal, "email", None) for each in page.grants] == ["ada@example.test"]


def test_no_transaction_is_open_while_replies_are_measured(client, service, monkeypatch):
    """A run of 2,000 replies would hold its connection for a long time."""
    sessions = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
        "AND state LIKE 'idle in transaction%' AND query LIKE '%turn_passages%'"
    )
    found: list[object] = []

    def count_open(*_: object) -> float:
        found.extend(service.execute(sessions))
        return 0.25

    monkeypatch.setattr(rules, "measure_groundedness", count_open)
    one = client.admin.evaluation_sets.create("Desk", agent_id=a_desk(service).agent_id)
    evaluation.add_judgements(client, one.evaluation_set_id, {FERRIES: {}})
    assert evaluation.run(client, one).groundedness == 0.25
    assert found == [(0,)]


def test_replies_are_compared_by_their_citations_and_by_whether_there_are_any() -> None:
    ids = [UUID(int=number) for number in range(5)]

    def result(number: int, **scores: Any) -> KeptResult:
        return KeptResult(case_id=ids[number], question=f"Question {number}", found=[], **scores)

    before = [result(0, answered=True), result(1, answered=True, recall=0.5), result(2, answered=True)]
    after = [result(1, answered=True, recall=1.0), result(0, answered=False), result(3, answered=True)]
    # What it should cite was said between the runs.
    before.append(result(4, answered=True))
    after.append(result(4, answered=True, recall=0.5))
    refused = [result(0, answered=True, refused=False), result(1, recall=0.5, statements_said=0.5)]
    better = [result(0, answered=False, refused=True), result(1, recall=1.0, statements_said=0.25)]
    assert [one.change for one in evaluation.compare(refused, better)] == [0.125, 1]
    assert [(one.question, one.change) for one in evaluation.compare(before, after)] == [
        ("Question 0", -1),
        ("Question 4", 0),
        ("Question 1", 0.5),
    ]
