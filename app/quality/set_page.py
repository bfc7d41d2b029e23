"""The page of an evaluation set, and of an agent's question with the replies of two runs side by side."""

from collections.abc import Callable
from functools import partial
from uuid import UUID

import streamlit as st

from app import api
from app.agents.questions import show_logged_reply
from app.formatting import moment, one_line, shorten
from app.lookup import by_id
from app.quality import sets
from app.quality.runs import choose_runs, read_results, read_runs, show_runs, value_of
from app.ui.dialogs import NotYetError, confirm
from app.ui.errors import problem_of, require_found, show_errors
from app.ui.notices import offer_way_back, show_empty, show_heading, show_note, show_text, show_warning
from app.ui.saving import ConflictError, keep_opened, key_of, reset_fields, send_changes, show_conflict
from carrel import CarrelError
from carrel.evaluation import find_unsaid
from carrel.wire.evaluation import EvaluationCase, EvaluationSet
from carrel.wire.evaluation_runs import EvaluationRun, KeptResult
from carrel.wire.question_log import LoggedQuestion
from flows.operations.formatting import count_text


def _offer_expectations(evaluation: EvaluationSet, case: EvaluationCase) -> None:
    key = partial(key_of, f"case.{case.case_id}")
    case = keep_opened(key("form"), case, field=key("note"))
    with st.form("case.form", border=False):
        sets.ask_for_statements(key("statements"), case.statements)
        st.checkbox(sets.NOTHING_ANSWERS, case.nothing_answers, key=key("nothing"), help=sets.NOTHING_ANSWERS_HELP)
        st.text_area("Note", case.note or "", key=key("note"), max_chars=1000, help="For people. Not scored.")
        show_conflict(key("form"))
        if st.form_submit_button("Save"):
            _save(evaluation, case, key)


def _save(evaluation: EvaluationSet, case: EvaluationCase, key: Callable[[str], str]) -> None:
    def send(**changed: object) -> None:
        question = {"question": case.question, **changed}
        api.client().admin.evaluation_sets.put_judgements(evaluation.evaluation_set_id, [question])

    try:
        kept = {
            "statements": sets.read_statements(key("statements")),
            "nothing_answers": bool(st.session_state[key("nothing")]),
            "note": str(st.session_state[key("note")] or "").strip(),
        }
        send_changes(key("form"), case, kept, send)
    except ConflictError:
        st.rerun()
    except NotYetError as error:
        show_warning(str(error))
        return
    except CarrelError as error:
        problem_of(error).show()
        return
    reset_fields(f"case.{case.case_id}")
    sets.forget_sets()
    st.toast("Saved.")
    st.rerun()  # the text above says which replies are missing


_LONGEST = 300
RUNS = ("before", "after")


def show_set(address: str) -> None:
    one = show_errors(partial(by_id, api.client().admin.evaluation_sets.list, address))
    question = st.query_params.get(sets.CASE)
    if one is not None and one.agent_id is not None and question is not None:
        _show_question(one, question)
        return
    offer_way_back("All evaluation sets", sets.SET, *RUNS, sets.CASE)
    if one is None:
        show_empty("This evaluation set does not exist.", "It was deleted, or the URL is wrong.")
        return
    facts = (sets.describe_target(one), count_text(one.case_count, "question"), count_text(one.run_count, "run"))
    show_heading(one.name, *facts)
    sets.offer_changes(one)
    show_runs(one)
    sets.list_cases(one)


def _show_question(item: EvaluationSet, question: str) -> None:
    offer_way_back("All questions of the set", sets.CASE)
    find = partial(sets.find_case, item.evaluation_set_id, question)
    case = require_found(find, "This question is not in the set.", "It was removed, or the URL is wrong.")
    show_heading(shorten(one_line(case.question), _LONGEST), one_line(item.name), sets.describe_target(item))
    if st.button("Remove from set", key="case.remove", icon=":material/delete:"):
        confirm(
            "Remove this question?",
            "This also removes its judgements and its results in all runs.",
            action=lambda: api.client().admin.evaluation_sets.remove_judgements(item.evaluation_set_id, case.case_id),
            then=sets.forget_sets,
            leaving=(sets.CASE,),
        )
    if runs := show_errors(partial(read_runs, item.evaluation_set_id)):
        shown = [run for run in choose_runs(runs) if run is not None]
        read = [show_errors(partial(read_results, item.evaluation_set_id, run.evaluation_run_id)) for run in shown]
        results = [next((each for each in found if each.case_id == case.case_id), None) for found in read]
        ids = [result.message_id for result in results if result is not None and result.message_id is not None]
        log = api.client().admin.question_log
        logged = show_errors(lambda: {one.message_id: one for one in log.query(ids=ids)}) if ids else {}
        for column, run, result in zip(st.columns(len(shown)), shown, results, strict=True):
            with column:
                _show_reply(case, run, result, logged)
    else:
        show_empty("No reply yet.", "Run the set to see the reply here.")
    _offer_expectations(item, case)
    st.subheader("Documents that the reply should cite", anchor=False)
    if case.nothing_answers:
        show_text(f"None: “{sets.NOTHING_ANSWERS}” is selected above. Clear it and save to judge documents.")
    else:
        sets.show_case(item, case.question)


def _show_reply(
    case: EvaluationCase, run: EvaluationRun, result: KeptResult | None, logged: dict[UUID, LoggedQuestion]
) -> None:
    facts = (run.agent_name, moment(run.at), run.ran_by.name, run.note)
    show_note(" · ".join(one_line(fact) for fact in facts if fact))
    if result is None:
        show_text("This run does not include the question.")
        return
    show_text(f"{value_of(result)}.")
    missing = [name for name, grade in case.grades.items() if grade > 0 and name not in result.found]
    if missing:
        show_text(f"Not cited: {', '.join(missing)}")
    question = logged.get(result.message_id) if result.message_id is not None else None
    if question is None:
        show_note("The reply is not in the question log.")
    else:
        for unsaid in find_unsaid(question.agent_response_text or "", case.statements):
            show_text(f"Missing statements: {unsaid}")
        show_logged_reply(question)
