"""Judging the results of a question where they are shown: one click keeps how well a document answers, in a set."""

import html
from collections.abc import Mapping
from functools import partial
from uuid import UUID

import streamlit as st

import carrel
from app import api
from app.formatting import one_line, shorten
from app.quality.log import Hit, search_again
from app.quality.sets import LONGEST_QUESTION, all_sets, describe_target, forget_sets, offer_new_set, target_of
from app.search.queries import CATALOG, MODES
from app.ui.errors import Problem, problem_of, show_errors
from app.ui.filters import choice_filter
from app.ui.links import show_link
from app.ui.notices import show_empty, show_note, show_text
from carrel.wire.evaluation import EvaluationCase, EvaluationSet

GRADES: Mapping[int, str] = {2: "Relevant", 1: "Partly", 0: "Not relevant"}
_PROBLEM = "judge.problem"
_ASKED, _ASKED_BEFORE = "judge.q", "judge.q.before"
_EXCERPT = 320
_MOST_NAMED = 200


def show_judging() -> None:
    """Show a field for a question and a set, and the question's results with a button for each grade."""
    sets = _sets_to_choose()
    if not sets:
        show_empty(
            "There is no evaluation set of searches yet.", "Make one: each click on a result is kept in it at once."
        )
        offer_new_set(st.query_params.get("in", CATALOG))
        return
    one = _choose_set(sets)
    question = _ask_question()
    if question:
        show_case(one, question)
    else:
        show_empty("Type a question to see what it finds.", "Then say of each result whether it answers the question.")


def _sets_to_choose() -> list[EvaluationSet]:
    """Return the sets of searches, and an agent's only if the address names it: its judgements are of citations."""
    named = st.query_params.get("set")
    return [one for one in show_errors(all_sets) if one.agent_id is None or str(one.evaluation_set_id) == named]


def _choose_set(sets: list[EvaluationSet]) -> EvaluationSet:
    """Show the choice of a set; at first the newest one that searches where the address says."""
    where = st.query_params.get("in", CATALOG)
    by_id = {str(one.evaluation_set_id): one for one in reversed(sets)}
    default = next((key for key, one in by_id.items() if target_of(one) == where), next(iter(by_id)))
    names = {key: f"{one_line(one.name)} · {describe_target(one)}" for key, one in by_id.items()}
    left, right = st.columns([4, 1], vertical_alignment="bottom")
    with left:
        chosen = choice_filter("Evaluation set", "set", names, default=default)
    with right:
        offer_new_set(where)
    return by_id[chosen]


def _ask_question() -> str:
    """Show the field for a question, which the address has too, and return the question."""
    said = st.query_params.get("q", "").replace("\0", " ").strip()[:LONGEST_QUESTION]
    if st.session_state.get(_ASKED_BEFORE) != said:
        st.session_state[_ASKED] = st.session_state[_ASKED_BEFORE] = said
    hint = "Type a question, or open one from Worst first"
    st.text_input("Question", key=_ASKED, max_chars=LONGEST_QUESTION, placeholder=hint, on_change=_tell_address)
    return said


def _tell_address() -> None:
    st.query_params["q"] = str(st.session_state[_ASKED] or "").strip()


def show_case(one: EvaluationSet, question: str) -> None:
    """Show what a question finds, with a button for each grade, and the other documents that are judged for it."""
    problem: Problem | None = st.session_state.pop(_PROBLEM, None)
    if problem is not None:
        problem.show()
    case = show_errors(partial(find_case, one.evaluation_set_id, question))
    grades = case.grades if case is not None else {}
    where = CATALOG if one.agent_id is not None else target_of(one)
    hits = _pool(question, where)
    show_note(
        "Results of all three ways to search, as you: what you may not read is not among them. "
        f"{len(grades)} of the documents for this question are judged."
    )
    if not hits:
        show_empty("Nothing is found for this question.", "If a document answers it, name the document below.")
    for hit in hits:
        _show_hit(one, question, hit, grades.get(hit.external_id))
    _show_others(one, question, {name: grade for name, grade in grades.items() if name not in _names(hits)})
    if one.agent_id is None:
        show_link("Open the set, and measure it", "quality", part="sets", set=str(one.evaluation_set_id))


def find_case(set_id: UUID, question: str) -> EvaluationCase | None:
    """Return the case of a question; None when the set doesn't have it."""
    listed = api.client().admin.evaluation_sets.list_cases(set_id, query=question[:200])
    return next((case for case in listed if case.question == question.strip()), None)


def _pool(question: str, where: str) -> list[Hit]:
    """Return what the ways to search find first, in turns, each document once."""
    found = [show_errors(partial(search_again, question, where=where, mode=mode)) for mode in MODES]
    longest = max(map(len, found))
    turns = (hits[place] for place in range(longest) for hits in found if place < len(hits))
    return list({hit.document_id: hit for hit in turns}.values())


def _names(hits: list[Hit]) -> set[str]:
    return {hit.external_id for hit in hits}


def _show_hit(one: EvaluationSet, question: str, hit: Hit, grade: int | None) -> None:
    with st.container(border=True):
        st.html(
            f'<article class="carrel-result"><h3>{html.escape(hit.name)}</h3>'
            f'<p class="carrel-passage">{html.escape(shorten(hit.text, _EXCERPT))}</p>'
            f'<p class="carrel-facts">{html.escape(hit.external_id)}</p></article>'
        )
        offer_grades(one, question, hit.external_id, grade)


def offer_grades(one: EvaluationSet, question: str, external_id: str, grade: int | None) -> None:
    """Show a button for each grade; the one that is kept is marked, and clicking it again takes it back."""
    with st.container(horizontal=True, gap="small"):
        for value, label in GRADES.items():
            st.button(
                label,
                key=f"judge.{one.evaluation_set_id}.{question}.{external_id}.{value}",
                type="primary" if grade == value else "secondary",
                icon=":material/check:" if grade == value else None,
                on_click=_judge,
                args=(one, question, external_id, value, grade == value),
            )
        if grade is not None and grade not in GRADES:
            show_text(f"Grade {grade}")


def _judge(one: EvaluationSet, question: str, external_id: str, grade: int, take_back: bool) -> None:
    """Keep a judgement, or remove it, in a callback, which a second click can't interrupt."""
    sets = api.client().admin.evaluation_sets
    judgement = {"document_external_id": external_id, "grade": grade}
    try:
        if not take_back:
            sets.put_judgements(one.evaluation_set_id, [{"question": question, "judgements": [judgement]}])
        elif (case := find_case(one.evaluation_set_id, question)) is not None:
            sets.remove_judgements(one.evaluation_set_id, case.case_id, document_external_ids=[external_id])
    except carrel.CarrelError as error:
        st.session_state[_PROBLEM] = problem_of(error)
    forget_sets()


def _show_others(one: EvaluationSet, question: str, others: Mapping[str, int]) -> None:
    """Show the judged documents that are not among the results, and a field to judge another one."""
    if others:
        st.subheader("Judged, and not among these results", anchor=False)
    for external_id, grade in list(others.items())[:_MOST_NAMED]:
        with st.container(border=True):
            show_text(external_id)
            offer_grades(one, question, external_id, grade)
    with st.form("judge.other", border=False):
        left, right = st.columns([4, 1], vertical_alignment="bottom")
        left.text_input(
            "A document that should be found", key="judge.name", placeholder="Its external id", max_chars=1024
        )
        right.form_submit_button("Relevant", on_click=_judge_other, args=(one, question), width="stretch")


def _judge_other(one: EvaluationSet, question: str) -> None:
    name = str(st.session_state["judge.name"] or "").strip()
    if name:
        _judge(one, question, name, max(GRADES), False)
        st.session_state["judge.name"] = ""


def judge_address(question: str, where: str) -> dict[str, str]:
    """Return the address parameters that open this part with a question."""
    return {"part": "judge", "q": question, **({} if where == CATALOG else {"in": where})}
