"""What the reply to an agent's question should say, or that nothing should answer it."""

import streamlit as st

from app import api
from app.quality.sets import NOTHING_ANSWERS, NOTHING_ANSWERS_HELP, forget_sets
from app.ui.errors import problem_of
from app.ui.notices import show_warning
from carrel import CarrelError
from carrel.wire.evaluation import MOST_STATEMENTS, EvaluationCase, EvaluationSet


def offer_expectations(one: EvaluationSet, case: EvaluationCase) -> None:
    """Show the fields for a case's statements, whether nothing should answer, and a note, with a button that saves."""
    key = f"case.{case.case_id}"
    with st.form("case.form", border=False):
        st.text_area(
            "Words that the reply must say",
            "\n".join(case.statements),
            key=f"{key}.statements",
            help=f"One statement a line, at most {MOST_STATEMENTS}. A reply says it when it has these words, in any "
            "case.",
            height=100,
        )
        st.checkbox(NOTHING_ANSWERS, case.nothing_answers, key=f"{key}.nothing", help=NOTHING_ANSWERS_HELP)
        st.text_area("What the reply should say, in your words", case.note or "", key=f"{key}.note", max_chars=1000)
        if st.form_submit_button("Save"):
            _save(one, case, key)


def _save(one: EvaluationSet, case: EvaluationCase, key: str) -> None:
    lines = str(st.session_state[f"{key}.statements"] or "").splitlines()
    statements = list(dict.fromkeys(line.strip() for line in lines if line.strip()))
    if len(statements) > MOST_STATEMENTS:
        show_warning(f"A question has at most {MOST_STATEMENTS} statements. Put some into one line, or leave them out.")
        return
    kept = {
        "question": case.question,
        "statements": statements,
        "nothing_answers": bool(st.session_state[f"{key}.nothing"]),
        "note": str(st.session_state[f"{key}.note"] or "").strip(),
    }
    try:
        api.client().admin.evaluation_sets.put_judgements(one.evaluation_set_id, [kept])
    except CarrelError as error:
        problem_of(error).show()
        return
    forget_sets()
    st.toast("Saved.")
    st.rerun()  # what of the replies is missing is said above
