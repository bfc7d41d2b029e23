"""Evaluation sets: creating, changing, importing and exporting sets, and judging results with a click."""

from collections.abc import Iterable, Mapping
from functools import partial
from itertools import zip_longest
from uuid import UUID

import streamlit as st

from app import api
from app.formatting import one_line
from app.quality.searches import search_again, show_hit
from app.search.queries import CATALOG, MODES, places
from app.search.results import Result
from app.ui.dialogs import NotYetError, confirm, dialog, offer_submit, open_dialog, text_in
from app.ui.errors import keep_problem, show_errors, show_kept_problem
from app.ui.filters import choice_filter
from app.ui.notices import look_at, offer_action, show_empty, show_link, show_note, show_text, show_warning
from app.ui.progress import offer_export
from app.ui.saving import keep_opened, send_changes
from app.ui.tables import forget, pages_of, show_pages, time_cell
from carrel import evaluation
from carrel.judgements import CASE_HEADS, JudgementsError, case_rows, read_cases
from carrel.wire.evaluation import MOST_CASES, MOST_JUDGEMENTS, MOST_STATEMENTS, EvaluationCase, EvaluationSet
from flows.operations.formatting import count_text

SETS, CASES, SET, CASE = "sets", "sets.cases", "set", "q"
_NEW, _RENAME, _ADD = "sets.new", "sets.rename", "sets.add"
_IMPORT_PROBLEM, _IMPORTED = "sets.import.problem", "sets.imported"
LONGEST_QUESTION = 8192
NOTHING_ANSWERS = "No answer expected"
NOTHING_ANSWERS_HELP = "A reply is correct only if it cites no source."
_AGENT = "agent:"


@st.cache_data(ttl=5, show_spinner=False, scope="session")
def all_sets() -> list[EvaluationSet]:
    """Return the organization's newest sets, at most 1,000, sorted oldest first."""
    return list(next(api.client().admin.evaluation_sets.list(page_size=1000).pages()).evaluation_sets)


def forget_sets() -> None:
    all_sets.clear()
    for key in (SETS, CASES):
        forget(key)


def _target_of(item: EvaluationSet) -> str:
    return f"{_AGENT}{item.agent_id}" if item.agent_id is not None else str(item.document_collection_id or CATALOG)


def describe_target(evaluation_set: EvaluationSet) -> str:
    if evaluation_set.agent_id is not None:
        return f"Agent {one_line(evaluation_set.target_name)}" if evaluation_set.target_name else "A deleted agent"
    if evaluation_set.document_collection_id is None:
        return "The whole catalog"
    return one_line(evaluation_set.target_name) if evaluation_set.target_name else "A deleted collection"


def list_sets(agent_id: UUID | None = None) -> None:
    offer_new_set(CATALOG if agent_id is None else f"{_AGENT}{agent_id}")
    show_pages(
        SETS,
        pages_of(lambda at: api.client().admin.evaluation_sets.list(agent_id=agent_id, **at), about=agent_id),
        row=lambda evaluation_set: {
            "Name": one_line(evaluation_set.name),
            "Target": describe_target(evaluation_set),
            "Questions": evaluation_set.case_count,
            "Runs": evaluation_set.run_count,
            "Last run": time_cell(evaluation_set.last_run_at),
        },
        columns={"Target": None} if agent_id is not None else None,
        empty=lambda: show_empty(
            "No evaluation sets yet.",
            "An evaluation set contains questions and judged documents, and the scores of each run.",
        ),
        go=lambda chosen: look_at(SET, chosen.evaluation_set_id),
    )


def offer_new_set(target: str = CATALOG) -> None:
    offer_action("New set", open_dialog, _NEW, key="sets.new.open", icon="add")
    _show_new(target)


@dialog("New evaluation set", _NEW)
def _show_new(target: str) -> None:
    agents = show_errors(api.agent_names)
    targets = places() | {f"{_AGENT}{key}": f"Agent {one_line(name)}" for key, name in agents.items()}
    st.text_input("Name", key="sets.name", max_chars=200, placeholder="Help desk questions")
    keys = list(targets)
    st.selectbox(
        "Target",
        keys,
        index=keys.index(target) if target in targets else 0,
        key="sets.target",
        format_func=lambda key: targets[key],
        help="Scores of a search use the rank of relevant documents. Scores of an agent use its citations.",
    )
    offer_submit(_NEW, "Create", action=_create)


def _create() -> None:
    target = str(st.session_state["sets.target"])
    agent = UUID(target.removeprefix(_AGENT)) if target.startswith(_AGENT) else None
    collection = None if agent is not None or target == CATALOG else UUID(target)
    name = text_in("sets.name", missing="Enter a name for the set.")
    made = api.client().admin.evaluation_sets.create(name, document_collection_id=collection, agent_id=agent)
    forget_sets()
    st.query_params[SET] = str(made.evaluation_set_id)


def offer_changes(item: EvaluationSet) -> None:
    with st.container(horizontal=True, gap="small"):
        offer_action("Add a question", open_dialog, _ADD, str(item.evaluation_set_id), key="sets.add.open", icon="add")
        offer_action("Rename", open_dialog, _RENAME, str(item.evaluation_set_id), key="sets.rename", icon="edit")
        if st.button("Delete …", key="sets.delete", icon=":material/delete:"):
            confirm(
                "Delete this set?",
                f"This deletes “{one_line(item.name)}”, {item.case_count:,} questions and {item.run_count:,} runs.",
                action=lambda: api.client().admin.evaluation_sets.delete(item.evaluation_set_id),
                then=forget_sets,
                leaving=(SET,),
            )
        with st.popover("Import", icon=":material/upload:"):
            _offer_import(item)
    _ask_for_question(item)
    _show_rename(item)
    if (count := st.session_state.pop(_IMPORTED, None)) is not None:
        show_note(f"{count:,} questions were imported.")


@dialog("Add a question", _ADD, of="evaluation_set_id")
def _ask_for_question(evaluation_set: EvaluationSet) -> None:
    st.text_area("Question", key="sets.question", max_chars=LONGEST_QUESTION, height=80)
    if evaluation_set.agent_id is not None:
        ask_for_statements("sets.statements")
        if not st.checkbox(NOTHING_ANSWERS, key="sets.nothing", help=NOTHING_ANSWERS_HELP):
            show_text("Next, choose the documents that the reply should cite.")
    else:
        show_text("Next, judge how well each result answers the question.")
    offer_submit(_ADD, "Add", action=partial(_add, evaluation_set))


def _add(item: EvaluationSet) -> None:
    """Add the dialog's question to a set and open the question. Expectations of an existing question stay."""
    question = text_in("sets.question", missing="Enter a question.")
    written = {
        "statements": read_statements("sets.statements"),
        "nothing_answers": st.session_state.get("sets.nothing"),
    }
    expected = {name: value for name, value in written.items() if value}
    if expected and find_case(item.evaluation_set_id, question) is not None:
        raise NotYetError("This question is already in the set. Open it there to change the expected reply.")
    api.client().admin.evaluation_sets.put_judgements(item.evaluation_set_id, [{"question": question, **expected}])
    forget_sets()
    lead_to_case(item, question)


def ask_for_statements(key: str, statements: Iterable[str] = ()) -> None:
    st.text_area(
        "Expected statements",
        "\n".join(statements),
        key=key,
        help=f"One statement per line, at most {MOST_STATEMENTS}. A reply contains a statement if it contains its "
        "words, in upper or lower case. Runs score the share of statements found.",
        height=100,
    )


def read_statements(key: str) -> list[str]:
    """Return the typed statements without duplicates. Raises NotYetError for too many."""
    statements = list(dict.fromkeys(line.strip() for line in text_in(key).splitlines() if line.strip()))
    if len(statements) > MOST_STATEMENTS:
        msg = f"A question can have at most {MOST_STATEMENTS} statements. Combine or remove some."
        raise NotYetError(msg)
    return statements


@dialog("Rename", _RENAME, of="evaluation_set_id")
def _show_rename(evaluation_set: EvaluationSet) -> None:
    evaluation_set = keep_opened(_RENAME, evaluation_set)
    st.text_input("Name", evaluation_set.name, key="sets.new_name", max_chars=200)
    offer_submit(_RENAME, "Rename", action=partial(_rename, evaluation_set))


def _rename(evaluation_set: EvaluationSet) -> None:
    written = {"name": text_in("sets.new_name", missing="Enter a name for the set.")}
    update = api.client().admin.evaluation_sets.update
    send_changes(_RENAME, evaluation_set, written, partial(update, evaluation_set.evaluation_set_id))
    forget_sets()


def _offer_import(evaluation_set: EvaluationSet) -> None:
    show_text(
        "A CSV file with a query, an external id and an optional grade per line, or an exported set. Its "
        "questions are added to the set."
    )
    file = st.file_uploader("CSV file of judged queries", type=["csv", "tsv", "txt"], key="sets.file")
    if st.button("Add to set", key="sets.import", type="primary"):
        if file is None:
            show_warning("Choose a file.")
        else:
            _import(evaluation_set, file.getvalue())
    show_kept_problem(_IMPORT_PROBLEM)


def _import(evaluation_set: EvaluationSet, data: bytes) -> None:
    """Add the judgements of a file. A click stops the import between two requests; the import can be repeated."""
    with keep_problem(_IMPORT_PROBLEM, JudgementsError):
        cases = read_cases(data)
        bar = st.progress(0.0, text="Adding the first questions …")
        evaluation.add_cases(
            api.client(),
            evaluation_set.evaluation_set_id,
            cases,
            on_progress=lambda done, of: bar.progress(done / of, text=f"{done:,} of {of:,} questions"),
        )
        forget_sets()
        st.session_state[_IMPORTED] = len(cases)
        st.rerun()


def list_cases(evaluation_set: EvaluationSet) -> None:
    st.subheader("Questions", anchor=False)
    aim = "judge its results" if evaluation_set.agent_id is None else "set its expected reply"
    show_pages(
        CASES,
        pages_of(
            lambda at: api.client().admin.evaluation_sets.list_cases(evaluation_set.evaluation_set_id, **at),
            about=evaluation_set.evaluation_set_id,
        ),
        row=partial(_row_of_case, evaluation_set),
        empty=partial(_show_no_cases, evaluation_set),
        go=lambda case: go_to_case(evaluation_set, case.question),
        hint=f"Select a question to {aim}.",
    )
    if evaluation_set.case_count:
        about = (evaluation_set.evaluation_set_id, evaluation_set.case_count)
        most = MOST_CASES * MOST_JUDGEMENTS
        pages = api.client().admin.evaluation_sets.list_cases(evaluation_set.evaluation_set_id, page_size=100).pages()
        lines = (case_rows(page.cases) for page in pages)
        offer_export("evaluation-set.csv", CASE_HEADS, lines, about=about, most=most)


def _show_no_cases(evaluation_set: EvaluationSet) -> None:
    if evaluation_set.agent_id is None:
        show_empty("No judged questions yet.", "Judge results, or import a file.")
        return
    show_empty(
        "No questions yet.",
        "Add a question, with the documents that a correct reply cites and the statements that it contains. "
        "You can also import a file above.",
    )
    write = partial(open_dialog, _ADD, str(evaluation_set.evaluation_set_id))
    offer_action("Add the first question", write, key="sets.add.first", icon="add", kind="primary")
    show_link("Choose a question that people asked", "agents", show="questions", of=str(evaluation_set.agent_id))


def _row_of_case(evaluation_set: EvaluationSet, case: EvaluationCase) -> dict[str, object]:
    if evaluation_set.agent_id is not None:
        return {"Question": one_line(case.question), "Expected reply": describe_expected(case)}
    grades = list(case.grades.values())
    return {
        "Question": one_line(case.question),
        "Relevant": sum(grade > 1 for grade in grades),
        "Partly": grades.count(1),
        "Not relevant": grades.count(0),
    }


def describe_expected(case: EvaluationCase) -> str:
    """Return the expected citations and statements of a case in words, or that no answer is expected."""
    if case.nothing_answers:
        return "No answer"
    documents, statements = sum(grade > 0 for grade in case.grades.values()), len(case.statements)
    counts = [(documents, "document"), (statements, "statement")]
    return ", ".join(count_text(number, noun) for number, noun in counts if number) or "Any answer"


def go_to_case(evaluation_set: EvaluationSet, question: str) -> None:
    """Open a question of a set: an agent's question with its replies, a search in the part Judge."""
    lead_to_case(evaluation_set, question)
    st.rerun()


def lead_to_case(evaluation_set: EvaluationSet, question: str) -> None:
    """Replace the page's address with a question of a set; the next run draws the question."""
    if evaluation_set.agent_id is not None:
        st.query_params[CASE] = question
    else:
        st.query_params.from_dict({"part": "judge", CASE: question, SET: str(evaluation_set.evaluation_set_id)})


GRADES: Mapping[int, str] = {2: "Relevant", 1: "Partly", 0: "Not relevant"}
_PROBLEM = "judge.problem"
_ASKED, _ASKED_BEFORE = "judge.q", "judge.q.before"
_MOST_NAMED = 200


def show_judging() -> None:
    # Only the set in the address asks an agent: its judgements are of citations.
    named = st.query_params.get("set")
    sets = [item for item in show_errors(all_sets) if item.agent_id is None or str(item.evaluation_set_id) == named]
    if not sets:
        show_empty(
            "No evaluation sets for searches yet.", "Create a set. Each click on a result then saves a judgement."
        )
        offer_new_set(st.query_params.get("in", CATALOG))
        return
    chosen = _choose_set(sets)
    if question := _ask_question():
        show_case(chosen, question)
    else:
        show_empty("Enter a question to see its results.", "Then judge whether each result answers the question.")


def _choose_set(sets: list[EvaluationSet]) -> EvaluationSet:
    """Show the choice of a set. The default is the newest set with the target in the address."""
    target = st.query_params.get("in", CATALOG)
    by_id = {str(evaluation_set.evaluation_set_id): evaluation_set for evaluation_set in reversed(sets)}
    default = next((key for key, item in by_id.items() if _target_of(item) == target), next(iter(by_id)))
    names = {key: f"{one_line(item.name)} · {describe_target(item)}" for key, item in by_id.items()}
    left, right = st.columns([4, 1], vertical_alignment="bottom")
    with left:
        chosen = choice_filter("Evaluation set", "set", names, default=default)
    with right:
        offer_new_set(target)
    return by_id[chosen]


def _ask_question() -> str:
    said = st.query_params.get("q", "").replace("\0", " ").strip()[:LONGEST_QUESTION]
    if st.session_state.get(_ASKED_BEFORE) != said:
        st.session_state[_ASKED] = st.session_state[_ASKED_BEFORE] = said
    hint = "Enter a question, or open a query from Worst first"
    st.text_input(
        "Question",
        key=_ASKED,
        max_chars=LONGEST_QUESTION,
        placeholder=hint,
        on_change=lambda: st.query_params.update(q=text_in(_ASKED)),
    )
    return said


def show_case(evaluation_set: EvaluationSet, question: str) -> None:
    """Show the results of a question and further judged documents, with a button for each grade."""
    show_kept_problem(_PROBLEM)
    case = show_errors(partial(find_case, evaluation_set.evaluation_set_id, question))
    grades = case.grades if case is not None else {}
    target = CATALOG if evaluation_set.agent_id is not None else _target_of(evaluation_set)
    hits = _pool(question, target)
    show_note(
        f"Results of all three search modes for you, without documents that you cannot read. {len(grades)} of "
        "the documents for this question are judged."
    )
    if not hits:
        show_empty("No results for this question.", "If a document answers it, enter the document below.")
    for hit in hits:
        with st.container(border=True):
            show_hit(hit)
            offer_grades(evaluation_set, question, hit.document_external_id, grades.get(hit.document_external_id))
    found = {hit.document_external_id for hit in hits}
    _show_others(evaluation_set, question, {name: grade for name, grade in grades.items() if name not in found})
    if evaluation_set.agent_id is None:
        show_link("Open and run the set", "quality", part="sets", set=str(evaluation_set.evaluation_set_id))


def find_case(set_id: UUID, question: str) -> EvaluationCase | None:
    listed = api.client().admin.evaluation_sets.list_cases(set_id, query=question[:200])
    return next((case for case in listed if case.question == question.strip()), None)


def _pool(question: str, target: str) -> list[Result]:
    """Return the first results of all search modes, interleaved, without duplicates."""
    found = [show_errors(partial(search_again, question, where=target, mode=mode)) for mode in MODES]
    turns = (hit for hits in zip_longest(*found) for hit in hits if hit is not None)
    return list({hit.document_id: hit for hit in turns}.values())


def offer_grades(evaluation_set: EvaluationSet, question: str, external_id: str, grade: int | None) -> None:
    """Show a button for each grade. The stored grade is marked; another click removes it."""
    with st.container(horizontal=True, gap="small"):
        for value, label in GRADES.items():
            is_kept = grade == value
            judge = partial(_judge, evaluation_set, question, external_id, value, is_kept)
            key = f"judge.{evaluation_set.evaluation_set_id}.{question}.{external_id}.{value}"
            kind = "primary" if is_kept else "secondary"
            offer_action(label, judge, key=key, icon="check" if is_kept else "", kind=kind)
        if grade is not None and grade not in GRADES:
            show_text(f"Grade {grade}")


def _judge(evaluation_set: EvaluationSet, question: str, external_id: str, grade: int, take_back: bool) -> None:
    """Store or remove a judgement, in a callback, so that a second click can't interrupt."""
    sets = api.client().admin.evaluation_sets
    judgement = {"document_external_id": external_id, "grade": grade}
    with keep_problem(_PROBLEM):
        if not take_back:
            sets.put_judgements(evaluation_set.evaluation_set_id, [{"question": question, "judgements": [judgement]}])
        elif (case := find_case(evaluation_set.evaluation_set_id, question)) is not None:
            sets.remove_judgements(evaluation_set.evaluation_set_id, case.case_id, document_external_ids=[external_id])
    forget_sets()


def _show_others(evaluation_set: EvaluationSet, question: str, others: Mapping[str, int]) -> None:
    """Show judged documents that are not in the results, and a field for the id of another document."""
    if others:
        st.subheader("Judged documents that are not in these results", anchor=False)
    for external_id, grade in list(others.items())[:_MOST_NAMED]:
        with st.container(border=True):
            show_text(external_id)
            offer_grades(evaluation_set, question, external_id, grade)
    with st.form("judge.other", border=False):
        left, right = st.columns([4, 1], vertical_alignment="bottom")
        label = "Expected document"
        left.text_input(label, key="judge.name", placeholder="External id", max_chars=1024)
        right.form_submit_button("Relevant", on_click=_judge_other, args=(evaluation_set, question), width="stretch")


def _judge_other(evaluation_set: EvaluationSet, question: str) -> None:
    if name := text_in("judge.name"):
        _judge(evaluation_set, question, name, max(GRADES), False)
        st.session_state["judge.name"] = ""
