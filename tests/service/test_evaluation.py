"""Evaluation sets with cases, judgements and runs, for admins of an organization."""

import hashlib

import httpx
import pytest

from carrel.wire.agents import BUILT_IN_MODEL
from service.domains.agents.evaluation import service as rules
from service.platform.identifiers import uuid7
from tests.harness.documents import create_collection
from tests.harness.services import ADMIN_EMAIL, RunningService
from tests.service.conversations import an_agent, at_once
from tests.service.directory import another_organization, code, done, entries, on_rows, walk

Answer = dict
DOGS, CATS = "May dogs travel free?", "May cats sail?"


def call(service: RunningService, operation: str, *, api_key: str | None = None, **body) -> httpx.Response:
    return service.call(f"admin/evaluationSets/{operation}", body, api_key=api_key)


def a_set(service: RunningService, name: str = "Travel", **body) -> Answer:
    return done(call(service, "create", name=name, **body))


@pytest.fixture
def set_id(service: RunningService) -> str:
    return a_set(service)["evaluationSetId"]


def judge(service: RunningService, set_id: str, question: str, grades: dict[str, int], **body) -> str:
    judgements = [{"documentExternalId": name, "grade": grade} for name, grade in grades.items()]
    cases = [{"question": question, "judgements": judgements, **body}]
    [case_id] = done(call(service, "putJudgements", evaluationSetId=set_id, cases=cases))["caseIds"]
    return case_id


def cases_of(service: RunningService, set_id: str, **body) -> list[Answer]:
    return walk(service, "admin/evaluationSets/listCases", {"evaluationSetId": set_id, **body}, page_size=2)


def grades_of(case: Answer) -> dict[str, int]:
    return {one["documentExternalId"]: one["grade"] for one in case["judgements"]}


def sets_of(service: RunningService, **body) -> list[Answer]:
    return walk(service, "admin/evaluationSets/list", body, page_size=2)


def add_run(service: RunningService, set_id: str, *results: Answer, **body) -> Answer:
    return done(call(service, "addRun", **{"evaluationSetId": set_id, "mode": "HYBRID", "results": results, **body}))


def actions(service: RunningService) -> list[str]:
    return [one["action"] for one in reversed(entries(service)) if one["action"].startswith("evaluationSet.")]


def test_a_set_keeps_questions_and_judgements(service: RunningService) -> None:
    one = a_set(service)
    assert one == {**one, "name": "Travel", "caseCount": 0, "runCount": 0}
    assert not {"documentCollectionId", "agentId", "targetName", "lastRunAt"} & one.keys()
    set_id = one["evaluationSetId"]
    dogs = judge(service, set_id, f"  {DOGS}\n", {"livestock": 1, "fares": 2, "routes": 0}, note="From the helpdesk")
    cats = judge(service, set_id, CATS, {})
    third = judge(service, set_id, "<img src=x onerror=alert(1)> *:material/x:* =1+1", {"a'b\"c": 10})
    assert [case["caseId"] for case in cases_of(service, set_id)] == [dogs, cats, third]
    first, second, last = cases_of(service, set_id)
    assert (first["question"], first["note"]) == (DOGS, "From the helpdesk")
    assert list(grades_of(first).items()) == [("fares", 2), ("livestock", 1), ("routes", 0)]
    assert (second["judgements"], "note" in second) == ([], False)
    assert last["question"] == "<img src=x onerror=alert(1)> *:material/x:* =1+1"
    assert [case["caseId"] for case in cases_of(service, set_id, query="CATS")] == [cats]
    assert cases_of(service, set_id, query="%") == []
    assert sets_of(service)[0]["caseCount"] == 3


def test_judging_again_adds_and_replaces_and_nothing_else(service: RunningService, set_id: str) -> None:
    case_id = judge(service, set_id, DOGS, {"fares": 2, "livestock": 1}, note="Old")
    assert judge(service, set_id, DOGS, {"livestock": 0, "routes": 1}) == case_id
    [case] = cases_of(service, set_id)
    assert grades_of(case) == {"fares": 2, "routes": 1, "livestock": 0}
    assert case["note"] == "Old"
    judge(service, set_id, DOGS, {"fares": 2, "routes": 1}, note="Old")
    assert actions(service) == ["evaluationSet.create", "evaluationSet.judge", "evaluationSet.judge"]
    judge(service, set_id, DOGS, {}, note="")
    assert "note" not in cases_of(service, set_id)[0]


def test_who_comes_at_once_gets_one_set_and_loses_no_judgement(service: RunningService) -> None:
    answers = at_once(*(lambda: call(service, "create", name="Travel") for _ in range(4)))
    assert sorted(one.status_code for one in answers) == [200, 409, 409, 409]
    assert {code(one) for one in answers if one.status_code == 409} == {(409, "evaluation_set_name_taken")}
    [one] = sets_of(service)
    names = [f"doc-{number}" for number in range(10)]
    at_once(*(lambda name=name: judge(service, one["evaluationSetId"], DOGS, {name: 1}) for name in names))
    [case] = cases_of(service, one["evaluationSetId"])
    assert grades_of(case) == dict.fromkeys(names, 1)


def test_removed_judgements_and_cases_are_gone(service: RunningService, set_id: str) -> None:
    dogs = judge(service, set_id, DOGS, {"fares": 2, "livestock": 1})
    cats = judge(service, set_id, CATS, {"ferries": 1})
    run = add_run(service, set_id, {"caseId": dogs, "ndcg": 1}, {"caseId": cats, "ndcg": 0})
    removal = {"evaluationSetId": set_id, "caseId": dogs}
    done(call(service, "removeJudgements", **removal, documentExternalIds=["fares", "never there"]))
    assert grades_of(cases_of(service, set_id)[0]) == {"livestock": 1}
    for _ in range(2):
        done(call(service, "removeJudgements", **removal))
        done(call(service, "removeJudgements", **removal, documentExternalIds=["livestock"]))
    assert [case["caseId"] for case in cases_of(service, set_id)] == [cats]
    about_run = {"evaluationSetId": set_id, "evaluationRunId": run["evaluationRunId"]}
    assert [one["caseId"] for one in done(call(service, "listResults", **about_run))["results"]] == [cats]
    [kept] = done(call(service, "listRuns", evaluationSetId=set_id))["runs"]
    assert (kept["ndcg"], kept["caseCount"]) == (0.5, 2)
    assert actions(service).count("evaluationSet.remove_judgements") == 2
    assert judge(service, set_id, DOGS, {"fares": 2}) == dogs


def test_limits_are_told_and_nothing_of_such_a_request_is_kept(service, monkeypatch) -> None:
    set_id = a_set(service)["evaluationSetId"]
    for batch in range(20):
        cases = [{"question": f"Question {batch} {number}"} for number in range(100)]
        done(call(service, "putJudgements", evaluationSetId=set_id, cases=cases))
    cases = [{"question": "Question 0 0", "note": "Not kept."}, {"question": "One more"}]
    refused = call(service, "putJudgements", evaluationSetId=set_id, cases=cases)
    assert code(refused) == (409, "too_many_cases")
    assert "2,000 questions" in refused.json()["error"]["message"]
    assert "note" not in cases_of(service, set_id, query="Question 0 0")[0]
    case_id = judge(service, set_id, "Question 0 0", {f"doc-{number}": 1 for number in range(200)})
    cases = [{"question": "Question 0 0", "judgements": [{"documentExternalId": "more", "grade": 1}]}]
    refused = call(service, "putJudgements", evaluationSetId=set_id, cases=cases)
    assert code(refused) == (409, "too_many_judgements")
    assert "“Question 0 0”" in refused.json()["error"]["message"]
    monkeypatch.setattr(rules, "MOST_SETS", 1)
    assert code(call(service, "create", name="Second")) == (409, "too_many_evaluation_sets")
    monkeypatch.setattr(rules, "MOST_RUNS", 1)
    add_run(service, set_id, {"caseId": case_id, "ndcg": 1})
    full = call(service, "addRun", evaluationSetId=set_id, mode="HYBRID", results=[{"caseId": case_id}])
    assert code(full) == (409, "too_many_evaluation_runs")


def test_a_question_has_statements_or_nothing_answers_it(service: RunningService, set_id: str) -> None:
    judge(service, set_id, DOGS, {"fares": 1}, statements=[" free on a lead ", "every line"])
    judge(service, set_id, DOGS, {"livestock": 0})
    [case] = cases_of(service, set_id)
    assert (case["statements"], case["nothingAnswers"]) == (["free on a lead", "every line"], False)
    assert judge(service, set_id, CATS, {"ferries": 0}, nothingAnswers=True) != case["caseId"]
    judge(service, set_id, CATS, {}, note="Asked often")
    kept = cases_of(service, set_id)
    assert (kept[1]["statements"], kept[1]["nothingAnswers"], kept[1]["note"]) == ([], True, "Asked often")
    for wrong in ({"statements": ["yes"]}, {"judgements": [{"documentExternalId": "ferries", "grade": 1}]}):
        refused = call(service, "putJudgements", evaluationSetId=set_id, cases=[{"question": CATS, **wrong}])
        assert code(refused) == (409, "case_contradicts_itself")
    assert cases_of(service, set_id) == kept
    judge(service, set_id, DOGS, {}, statements=[])
    judge(service, set_id, CATS, {"ferries": 1}, nothingAnswers=False, statements=["no"])
    kept = [(one["statements"], one["nothingAnswers"]) for one in cases_of(service, set_id)]
    assert kept == [([], False), (["no"], False)]


def graded(*grades: tuple[str, int]) -> Answer:
    return {"question": DOGS, "judgements": [{"documentExternalId": name, "grade": grade} for name, grade in grades]}


@pytest.mark.parametrize(
    ("cases", "field"),
    [
        ([{"question": DOGS, "statements": ["x"] * 2}], "cases.0"),
        ([{"question": DOGS, "statements": [" "]}], "cases.0.statements.0"),
        ([{"question": DOGS, "statements": [f"{n}" for n in range(21)]}], "cases.0.statements"),
        ([{"question": " \n"}], "cases.0.question"),
        ([{"question": "x" * 8193}], "cases.0.question"),
        ([graded(("fares", 11))], "cases.0.judgements.0.grade"),
        ([graded(("fares", -1))], "cases.0.judgements.0.grade"),
        ([graded(("fares", 1), ("fares", 1))], "cases.0"),
        ([graded(*((f"{n}", 1) for n in range(201)))], "cases.0.judgements"),
        ([{"question": DOGS}, {"question": f" {DOGS}"}], ""),
    ],
)
def test_what_cannot_be_judged_is_refused_by_its_member(service: RunningService, cases: Answer, field: str) -> None:
    set_id = a_set(service)["evaluationSetId"]
    refused = call(service, "putJudgements", evaluationSetId=set_id, cases=cases)
    assert code(refused) == (400, "invalid_request")
    assert refused.json()["error"]["details"][0]["field"] == field
    assert cases_of(service, set_id) == []


def test_a_run_is_kept_as_who_ran_it_with_its_means(service: RunningService, set_id: str) -> None:
    dogs, cats = judge(service, set_id, DOGS, {"fares": 2}), judge(service, set_id, CATS, {"ferries": 1})
    results = [
        {"caseId": cats, "ndcg": 0.5, "recall": 1, "reciprocalRank": 0.25, "found": ["routes", "ferries"]},
        {"caseId": dogs, "ndcg": 1, "recall": 0, "reciprocalRank": 1},
        {"caseId": str(uuid7()), "ndcg": 0, "recall": 0, "reciprocalRank": 0},
    ]
    run = add_run(service, set_id, *results, note="Before the new policy")
    assert run["ranBy"]["email"] == ADMIN_EMAIL
    assert (run["mode"], run["note"], run["caseCount"]) == ("HYBRID", "Before the new policy", 2)
    assert (run["ndcg"], run["recall"], run["reciprocalRank"]) == (0.75, 0.5, 0.625)
    assert not {"precision", "answered", "model", "instructionsDigest"} & run.keys()
    later = add_run(service, set_id, *results, mode="LEXICAL")
    assert walk(service, "admin/evaluationSets/listRuns", {"evaluationSetId": set_id}, page_size=1) == [later, run]
    about = {"evaluationSetId": set_id, "evaluationRunId": run["evaluationRunId"]}
    found = walk(service, "admin/evaluationSets/listResults", about, page_size=1)
    told = [(one["question"], one["ndcg"], one["found"]) for one in found]
    assert told == [(DOGS, 1, []), (CATS, 0.5, ["routes", "ferries"])]
    listed = sets_of(service)[0]
    assert (listed["runCount"], listed["lastRunAt"]) == (2, later["at"])
    done(call(service, "deleteRun", **about))
    assert code(call(service, "deleteRun", **about)) == (404, "evaluation_run_not_found")
    assert code(call(service, "listResults", **about)) == (404, "evaluation_run_not_found")
    assert actions(service)[-3:] == ["evaluationSet.add_run", "evaluationSet.add_run", "evaluationSet.delete_run"]


def test_a_run_is_kept_in_parts_with_what_failed(service: RunningService, set_id: str) -> None:
    dogs, cats, eels = (judge(service, set_id, one, {"fares": 1}) for one in (DOGS, CATS, "Eels?"))
    begun = add_run(service, set_id, {"caseId": dogs, "recall": 1}, {"caseId": cats, "error": "late"}, plannedCount=3)
    assert (begun["caseCount"], begun["failedCount"], begun["plannedCount"], begun["recall"]) == (1, 1, 3, 1)
    more = {"evaluationRunId": begun["evaluationRunId"], "evaluationSetId": set_id, "mode": "HYBRID"}
    results = [{"caseId": eels, "recall": 0.5}, {"caseId": dogs, "recall": 0}]
    ended = done(call(service, "addRun", **more, results=results))
    assert (ended["caseCount"], ended["failedCount"], ended["recall"]) == (2, 1, 0.75)
    found = done(call(service, "listResults", evaluationSetId=set_id, evaluationRunId=more["evaluationRunId"]))
    told = [(one.get("recall"), one.get("error")) for one in found["results"]]
    assert told == [(1, None), (None, "late"), (0.5, None)]
    assert code(call(service, "addRun", **{**more, "mode": "LEXICAL"}, results=results)) == (400, "wrong_mode")
    other_admin = service.new_user("dan@example.test", is_admin=True)
    theirs = call(service, "addRun", **more, results=results, api_key=other_admin)
    assert code(theirs) == (404, "evaluation_run_not_found")
    assert actions(service).count("evaluationSet.add_run") == 1
    gone = [{"caseId": str(uuid7()), "recall": 0}]
    assert done(call(service, "addRun", **more, results=gone)) == {**ended, "plannedCount": 2}
    scored = call(service, "addRun", **more, results=[{"caseId": dogs, "recall": 1, "error": "late"}])
    assert code(scored) == (400, "invalid_request")


def test_a_run_sent_twice_with_one_key_is_kept_once(service: RunningService, set_id: str) -> None:
    body = {"evaluationSetId": set_id, "mode": "HYBRID", "results": [{"caseId": judge(service, set_id, DOGS, {})}]}
    first, again = (
        done(service.call("admin/evaluationSets/addRun", body, headers={"Idempotency-Key": "once"})) for _ in range(2)
    )
    assert first == again
    assert done(call(service, "listRuns", evaluationSetId=set_id))["runs"] == [first]


def test_what_is_no_run_is_refused(service: RunningService) -> None:
    one, two = (a_set(service, name)["evaluationSetId"] for name in ("One", "Two"))
    case_id = judge(service, one, DOGS, {"fares": 1})
    run = add_run(service, one, {"caseId": case_id, "ndcg": 1})
    for operation in ("listResults", "deleteRun"):
        elsewhere = call(service, operation, evaluationSetId=two, evaluationRunId=run["evaluationRunId"])
        assert code(elsewhere) == (404, "evaluation_run_not_found")
    send = {"evaluationSetId": two, "mode": "HYBRID"}
    results = [{"caseId": case_id}]
    assert code(call(service, "addRun", **send, results=results)) == (400, "unknown_case")
    for wrong in (*([{"caseId": case_id, "ndcg": score}] for score in (1.5, -0.1, "NaN")), results * 2):
        assert code(call(service, "addRun", **send, results=wrong)) == (400, "invalid_request")
    asked = call(service, "addRun", evaluationSetId=one, mode="HYBRID", agentId=case_id, results=results)
    assert code(asked) == (400, "wrong_mode")
    assert code(call(service, "addRun", evaluationSetId=one, results=results)) == (400, "wrong_mode")
    of_agent = a_set(service, "Desk", agentId=an_agent(service)["agentId"])["evaluationSetId"]
    results = [{"caseId": judge(service, of_agent, DOGS, {})}]
    elsewhere = call(service, "addRun", evaluationSetId=of_agent, agentId=case_id, results=results)
    assert code(elsewhere) == (404, "agent_not_found")


def test_a_set_outlives_its_collection(service: RunningService) -> None:
    collection_id = create_collection(service, "Handbook")
    one = a_set(service, documentCollectionId=collection_id)
    assert (one["documentCollectionId"], one["targetName"]) == (collection_id, "Handbook")
    case_id = judge(service, one["evaluationSetId"], DOGS, {"fares": 1})
    done(service.call("documentCollections/deleteDocumentCollection", {"documentCollectionId": collection_id}))
    [after] = sets_of(service)
    assert (after["documentCollectionId"], "targetName" in after, after["caseCount"]) == (collection_id, False, 1)
    add_run(service, one["evaluationSetId"], {"caseId": case_id, "ndcg": 1})
    late = call(service, "create", name="Late", documentCollectionId=collection_id)
    assert code(late) == (404, "collection_not_found")


def test_a_run_of_an_agent_says_how_the_agent_is_defined(service: RunningService) -> None:
    agent = an_agent(service, name="Desk", instructions="Be brief.")
    one = a_set(service, agentId=agent["agentId"])
    assert one["targetName"] == "Desk"
    assert sets_of(service, agentId=agent["agentId"]) == [one]
    assert sets_of(service, agentId=str(uuid7())) == []
    set_id = one["evaluationSetId"]
    answered, open_ = judge(service, set_id, DOGS, {"fares": 1}), judge(service, set_id, CATS, {})
    message_id = str(uuid7())
    results = [
        {"caseId": answered, "answered": True, "recall": 1, "precision": 0.5, "messageId": message_id},
        {"caseId": open_, "answered": False},
    ]
    run = add_run(service, set_id, *results, mode=None)
    digest = hashlib.sha256(b"Be brief.").hexdigest()
    assert (run["model"], run["instructionsDigest"], "mode" in run) == (BUILT_IN_MODEL, digest, False)
    assert run["settings"] == {"instructions": "Be brief.", "collectionIds": [], "retrieval": {}}
    assert (run["answered"], run["recall"], run["precision"]) == (0.5, 1, 0.5)
    about = {"evaluationSetId": set_id, "evaluationRunId": run["evaluationRunId"]}
    first, second = done(call(service, "listResults", **about))["results"]
    assert (first["messageId"], first["answered"], second["answered"]) == (message_id, True, False)
    assert code(call(service, "addRun", evaluationSetId=set_id, mode="HYBRID", results=results)) == (400, "wrong_mode")
    done(service.call("admin/agents/delete", {"agentId": agent["agentId"]}))
    assert "targetName" not in sets_of(service)[0]
    assert add_run(service, set_id, *results, mode=None)["instructionsDigest"] == digest
    both = call(service, "create", name="Both", agentId=agent["agentId"], documentCollectionId=str(uuid7()))
    assert code(both) == (400, "invalid_request")
    assert code(call(service, "create", name="Late", agentId=agent["agentId"])) == (404, "agent_not_found")


def test_a_set_is_renamed_and_deleted_with_all_it_has(service: RunningService) -> None:
    one, two = a_set(service, "One"), a_set(service, "Two")
    set_id = one["evaluationSetId"]
    run = add_run(service, set_id, {"caseId": judge(service, set_id, DOGS, {"fares": 1}), "ndcg": 1})
    assert code(call(service, "update", evaluationSetId=set_id, name="Two")) == (409, "evaluation_set_name_taken")
    assert done(call(service, "update", evaluationSetId=set_id, name="Third"))["name"] == "Third"
    done(call(service, "update", evaluationSetId=set_id, name="Third"))
    assert [one["name"] for one in sets_of(service, query="THI")] == ["Third"]
    done(call(service, "delete", evaluationSetId=set_id))
    assert sets_of(service) == [two]
    for operation in ("listCases", "listRuns", "delete"):
        assert code(call(service, operation, evaluationSetId=set_id)) == (404, "evaluation_set_not_found")
    assert on_rows(service, "SELECT case_id FROM evaluation_cases") == []
    assert on_rows(service, "SELECT evaluation_run_id FROM evaluation_runs") == []
    assert on_rows(service, "SELECT case_id FROM evaluation_results") == []
    assert actions(service).count("evaluationSet.update") == 1
    assert next(one for one in entries(service) if one["action"] == "evaluationSet.delete")["target"]["name"] == "Third"
    assert run["evaluationSetId"] == set_id


def test_sets_are_seen_by_admins_of_their_organization_alone(service: RunningService, set_id: str) -> None:
    case_id = judge(service, set_id, DOGS, {"fares": 1})
    other = another_organization(service)
    assert done(call(service, "list", api_key=other, ids=[set_id]))["evaluationSets"] == []
    theirs = done(call(service, "create", name="Travel", api_key=other))["evaluationSetId"]
    assert call(service, "removeJudgements", evaluationSetId=theirs, caseId=case_id, api_key=other).status_code == 200
    run = {"evaluationSetId": theirs, "mode": "HYBRID", "results": [{"caseId": case_id}]}
    assert code(call(service, "addRun", **run, api_key=other)) == (400, "unknown_case")
    assert len(cases_of(service, set_id)) == 1
