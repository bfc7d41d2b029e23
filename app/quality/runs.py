"""Runs over an evaluation set: measuring now, stored runs, and a comparison of two runs."""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from uuid import UUID

import streamlit as st

import carrel
from app import api
from app.agents.definitions import INSTRUCTIONS_IGNORED, all_collections, find_agent
from app.auth.current import key_client, person_client
from app.formatting import ago, browser_zone, moment, one_line
from app.labels import SCORES
from app.quality.sets import forget_sets, go_to_case
from app.search.queries import MODES
from app.ui.dialogs import confirm
from app.ui.errors import problem_of, show_errors
from app.ui.filters import choice_filter
from app.ui.notices import offer_action, show_empty, show_help, show_note, show_text, show_warning
from app.ui.progress import offer_export
from app.ui.tables import show_pages, source_of
from carrel.drafts import lend_draft, may_ask
from carrel.evaluation import Difference, Measurer, RunKeeper, compare, find_changed_settings, is_whole
from carrel.wire.agents import BUILT_IN_MODEL
from carrel.wire.evaluation import EvaluationCase, EvaluationSet
from carrel.wire.evaluation_runs import CaseResult, EvaluationRun, KeptResult
from carrel.wire.search import SearchMode
from flows.operations.formatting import count_text

_OPTIONS = {
    "enable_smart_filtering": "reads filters from the message",
    "enable_query_extraction": "looks up each question of a long message",
    "enable_reranking": "reranks",
}
_UNKNOWN = "not saved with this run"


def show_changed_settings(before: EvaluationRun, after: EvaluationRun) -> None:
    if before.agent_id is None or after.agent_id is None:
        return
    if not (changed := find_changed_settings(before, after)):
        if before.settings is not None and after.settings is not None:
            same = "the same model, instructions, collections and options"
            show_note(f"Both runs used {same}.")
        return
    show_text(f"Changed settings: {', '.join(changed)}.")
    if "instructions" in changed and BUILT_IN_MODEL in {before.model, after.model}:
        show_note(INSTRUCTIONS_IGNORED)
    for name in changed:
        for column, head, run in zip(st.columns(2), ("from", "to"), (before, after), strict=True):
            with column:
                show_note(f"{name.capitalize()} · {head}")
                st.text(_describe_setting(run, name))


def _describe_setting(run: EvaluationRun, name: str) -> str:
    if name == "model":
        return one_line(run.model or _UNKNOWN)
    if run.settings is None:
        return _UNKNOWN
    if name == "instructions":
        return run.settings.instructions or "none"
    if name == "collections":
        names = show_errors(all_collections)
        named = (names.get(str(collection_id), "a deleted collection") for collection_id in run.settings.collection_ids)
        return ", ".join(named) or "none"
    chosen = {words: getattr(run.settings.retrieval, option) for option, words in _OPTIONS.items()}
    said = [words if on else f"never {words}" for words, on in chosen.items() if on is not None]
    return ", ".join(said) or "no option selected"


def _way_of(run: EvaluationRun) -> str:
    return "Agent" if run.mode is None else MODES[run.mode]


def _score_cell(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _name_of(run: EvaluationRun) -> str:
    note, agent = one_line(run.note or ""), one_line(run.agent_name or "")
    return f"{agent or _way_of(run)}, {moment(run.at)}{' · ' if note else ''}{note}"


def count_measured(run: EvaluationRun) -> str:
    """Return the number of questions behind a run's scores in words, with the total if some are missing."""
    of = max(run.planned_count or 0, run.case_count + run.failed_count)
    return f"{run.case_count:,}" if run.case_count == of else f"{run.case_count:,} of {of:,}"


def choose_runs(runs: Sequence[EvaluationRun]) -> tuple[EvaluationRun | None, EvaluationRun]:
    """Show the choice of two runs, at first the newest and a whole run like it; a single run has None before it."""
    newest = runs[0]
    if len(runs) == 1:
        return None, newest
    by_id = {str(run.evaluation_run_id): run for run in runs}
    alike = [run for run in runs[1:] if run.mode == newest.mode]
    like = next((run for run in alike if is_whole(run)), [*alike, runs[1]][0])
    names = {key: _name_of(run) for key, run in by_id.items()}
    left, right = st.columns(2)
    with left:
        before = choice_filter("From", "before", names, default=str(like.evaluation_run_id))
    with right:
        after = choice_filter("To", "after", names, default=str(newest.evaluation_run_id))
    return by_id[before], by_id[after]


def show_results(item: EvaluationSet, runs: Sequence[EvaluationRun]) -> None:
    """Show a run's measurements for each question, and the changes since another run, the worst change first."""
    st.subheader("Changes" if len(runs) > 1 else "Results", anchor=False)
    before, after = choose_runs(runs)
    found = show_errors(partial(_compare_results, item.evaluation_set_id, before, after))
    for run in (before, after):
        if run is not None and (run.failed_count or not is_whole(run)):
            show_warning(_describe_missing(run))
    if before is not None:
        show_changed_settings(before, after)
        changes = [each.change for _, each in found if each is not None]
        worse, better = (sum(change * sign > 0 for change in changes) for sign in (-1, 1))
        new = len(found) - len(changes)
        said = f"{worse:,} worse, {better:,} better, {len(changes) - worse - better:,} unchanged."
        show_note(f"{said} {count_text(new, 'new question')}." if new else said)
    about = (before and before.evaluation_run_id, after.evaluation_run_id)
    show_pages(
        "sets.changes",
        source_of(found, about=about),
        row=partial(_row_of_change, compared=before is not None),
        empty=lambda: show_empty("The questions of this run were removed from the set."),
        go=lambda each: go_to_case(item, each[0].question),
        hint="Select a question to read the replies." if item.agent_id else "Select a question to see its results.",
    )
    if found:
        offer_export("changes.csv", _CHANGE_HEADS, [[_cells_of_change(each) for each in found]], about=about)


def _describe_missing(run: EvaluationRun) -> str:
    said = f"{_name_of(run)}: the scores cover {count_measured(run)} questions."
    failed = f" {run.failed_count:,} failed. They are listed last, each with its error." if run.failed_count else ""
    return said + failed + ("" if is_whole(run) else " The run is not complete, or was stopped.")


_Change = tuple[KeptResult, Difference | None]


def _compare_results(set_id: UUID, before: EvaluationRun | None, after: EvaluationRun) -> list[_Change]:
    """Return the results of a run: worst changes first, results without a comparison last."""
    new = read_results(set_id, after.evaluation_run_id)
    old = read_results(set_id, before.evaluation_run_id) if before is not None else []
    compared = {each.after.case_id: (each.after, each) for each in compare(old, new)}
    return [*compared.values(), *((each, None) for each in new if each.case_id not in compared)]


@st.cache_data(ttl=300, show_spinner="Reading results …", scope="session")
def read_results(set_id: UUID, run_id: UUID) -> list[KeptResult]:
    return list(api.client().admin.evaluation_sets.list_results(set_id, run_id, page_size=1000))


_CHANGE_HEADS = ("Question", "Before", "After", "First found before", "First found after")


def _row_of_change(item: _Change, *, compared: bool) -> dict[str, object]:
    question, before, after, _, found = _cells_of_change(item)
    if not compared:
        return {"Question": question, "Result": after, "First found": found}
    _, change = item
    said = "" if change is None else f"{change.change:+.3f}" if change.change else "0"
    return {"Question": question, "Before": before, "After": after, "Change": said}


def _cells_of_change(item: _Change) -> list[str]:
    after, change = item
    results = (change and change.before, after)
    return [
        one_line(after.question),
        *("" if each is None else value_of(each) for each in results),
        *("" if each is None else ", ".join(each.found[:3]) for each in results),
    ]


def value_of(result: KeptResult) -> str:
    """Return the measurement of a question in words: the nDCG of a search, or an agent's answer and citations."""
    if result.error is not None:
        return f"Failed: {one_line(result.error)}"
    if result.answered is None:
        return _score_cell(result.ndcg)
    if result.refused is not None:
        return "Not answered, as expected" if result.refused else "Answered, but no answer was expected"
    shares = {
        "expected documents cited": result.recall,
        "expected statements": result.statements_said,
        "groundedness": result.groundedness,
    }
    answered = "Answered" if result.answered else "Not answered"
    return ", ".join([answered, *(f"{name}: {share:.0%}" for name, share in shares.items() if share is not None)])


_RUN = "sets.run"
# The most runs of a set that are shown and drawn, newest first.
MOST_SHOWN = 200
# Blue, orange and purple look different to people with any colour vision, in both themes.
_COLOURS: Mapping[str, str] = dict(
    zip([*MODES.values(), "Agent"], ["#2f7fb8", "#d9730d", "#9467bd", "#2f7fb8"], strict=True)
)
_CUTOFF = 10


@dataclass
class Running:
    """A run over a set in several modes: in progress, stopped or done. Each mode is stored as a separate run."""

    set_id: UUID
    keepers: Sequence[RunKeeper]
    cases: Sequence[EvaluationCase]
    skipped_count: int = 0
    agent_id: UUID | None = None
    results: list[list[CaseResult]] = field(default_factory=list[list[CaseResult]])
    stopped: bool = False

    @property
    def done(self) -> int:
        return len(self.results)

    def measure_next(self) -> None:
        """Measure the next case in every mode. Raises the errors of `Measurer.measure`."""
        case = self.cases[self.done]
        self.results.append([keeper.measure(case) for keeper in self.keepers])

    @property
    def progress_in_words(self) -> str:
        said = f"{self.done:,} of {count_text(len(self.cases), 'question')}"
        failed = sum(any(result.error is not None for result in of_case) for of_case in self.results)
        answered = sum(bool(of_case[0].answered) for of_case in self.results)
        said += "" if self.agent_id is None else f", {answered:,} answered"
        return f"{said}, {failed:,} failed" if failed else said

    def keep(self) -> None:
        for keeper in self.keepers:
            keeper.keep()


def show_runs(evaluation: EvaluationSet) -> None:
    running: Running | None = st.session_state.get(_RUN)
    if running is not None and running.set_id == evaluation.evaluation_set_id:
        _measure_rest(running)
    else:
        _offer_run(evaluation)
    if not (runs := show_errors(partial(read_runs, evaluation.evaluation_set_id))):
        show_empty("No runs yet.", "Run the set now and again after a change to compare the scores.")
        return
    _draw_chart(runs)
    _list_runs(evaluation, runs)
    if len(runs) > 1 or evaluation.agent_id is not None:
        show_results(evaluation, runs)


def read_runs(set_id: UUID) -> list[EvaluationRun]:
    """Return the newest runs of a set, at most MOST_SHOWN, newest first."""
    return list(next(api.client().admin.evaluation_sets.list_runs(set_id, page_size=MOST_SHOWN).pages()).runs)


def _offer_run(evaluation: EvaluationSet) -> None:
    if not evaluation.case_count:
        return
    with st.form("sets.measure", border=False):
        modes, agent_id = list(MODES), evaluation.agent_id
        left, middle, right = st.columns([4, 4, 2], vertical_alignment="bottom")
        if evaluation.agent_id is None:
            modes = left.multiselect(
                "Match by", modes, modes, key="sets.modes", format_func=lambda mode: MODES[mode], placeholder="Select"
            )
        else:
            names = {str(agent_id): evaluation.target_name or "A deleted agent"} | show_errors(api.agent_names)
            asked = left.selectbox(
                "Ask",
                list(names),
                key="sets.agent",
                format_func=lambda key: one_line(names[key]),
                help="Choose another agent, such as a copy with other instructions, to compare both. If you have "
                "no access to an agent, such as a draft, you get access while it is asked.",
            )
            agent_id = UUID(asked)
        note = middle.text_input("Note", key="sets.note", max_chars=200, placeholder="What you changed (optional)")
        person = ""
        if key_client() is not None:
            person = st.text_input("Ask as another person", key="sets.person", placeholder="Empty: as you").strip()
        again = "Run again" if evaluation.run_count else "Run"
        if right.form_submit_button(again if evaluation.agent_id else "Run", type="primary", width="stretch"):
            _begin_run(evaluation, modes, agent_id, note.strip(), person or None)
    asked = "The run asks the agent each question as you, in a new conversation"
    whose = asked if evaluation.agent_id else "The run searches for each question as you"
    show_note(f"{whose}. Documents that you cannot read count as not found. The log lists these requests as yours.")


def _begin_run(
    evaluation: EvaluationSet, modes: Sequence[SearchMode], agent_id: UUID | None, note: str, person: str | None
) -> None:
    """Keep a new run in the session and redraw the page, or show why no run can begin."""
    if not modes:
        show_warning("Choose at least one search mode.")
        return
    if agent_id is not None and show_errors(partial(find_agent, str(agent_id))) is None:
        show_warning("This agent was deleted.", "Choose another agent to ask the questions.")
        return
    if agent_id is not None and person and not show_errors(lambda: may_ask(api.client(), agent_id, person)):
        show_warning(f"{one_line(person)} cannot use this agent.", "Give this person access first, or ask as yourself.")
        return
    ways = modes if evaluation.agent_id is None else modes[:1]
    # Ask agents as the person: an agent may not be deployed to the workbench's own key.
    asking = api.client() if evaluation.agent_id is None or person else person_client()
    measurers = [Measurer(asking, evaluation, mode=mode, agent_id=agent_id, user_email=person) for mode in ways]
    every = show_errors(lambda: list(api.client().admin.evaluation_sets.list_cases(evaluation.evaluation_set_id)))
    cases = [case for case in every if measurers[0].can_measure(case)]
    if not cases:
        show_warning("No question of this set has a relevant document.", "Judge some results first.")
        return
    set_id, planned = evaluation.evaluation_set_id, len(cases)
    keepers = [RunKeeper(api.client(), set_id, each, planned_count=planned, note=note or None) for each in measurers]
    st.session_state[_RUN] = Running(set_id, keepers, cases, len(every) - planned, agent_id)
    st.rerun()


def _measure_rest(run: Running) -> None:
    """Measure the remaining cases and store the runs. A click redraws the page, and measuring continues."""
    whole = len(run.cases)
    if run.stopped:
        kept = "The results are saved as a run."
        try:
            run.keep()
        except carrel.CarrelError as error:  # such as a deleted run
            problem_of(error).show()
            kept = "The last questions are not saved."
        show_warning(f"Stopped: {run.progress_in_words}.", kept)
        _offer_going_on(run, "Continue")
        return
    bar = st.progress(run.done / whole, text=run.progress_in_words)
    offer_action("Stop", setattr, run, "stopped", True, key="sets.stop")
    try:
        with _lend(run):
            while run.done < whole:
                run.measure_next()
                bar.progress(run.done / whole, text=run.progress_in_words)
        run.keep()
    except carrel.CarrelError as error:
        run.stopped = True
        with suppress(carrel.CarrelError):  # the run's own error says more
            run.keep()
        problem_of(error).show()
        _offer_going_on(run, "Try again")
        st.stop()
    _forget_run()
    if run.skipped_count:
        st.toast(f"{count_text(run.skipped_count, 'question')} without a relevant document skipped.")
    st.rerun()


def _lend(run: Running) -> AbstractContextManager[None]:
    """Give the person access to the asked agent for the block, unless a search or another person is measured."""
    if run.agent_id is None or run.keepers[0].measurer.user_email:
        return nullcontext()
    return lend_draft(api.client(), run.agent_id, email=api.me().email)


def _offer_going_on(run: Running, again: str) -> None:
    with st.container(horizontal=True, gap="small"):
        offer_action(again, setattr, run, "stopped", False, key="sets.on")
        offer_action("End run", _forget_run, key="sets.off")


def _forget_run() -> None:
    st.session_state.pop(_RUN, None)
    forget_sets()


def _draw_chart(runs: Sequence[EvaluationRun]) -> None:
    """Draw the main score over time if two runs are comparable. Bars have names for a screen reader."""
    whole = [run for run in runs if is_whole(run) and main_score(run) is not None]
    counts = Counter(map(_way_of, whole))
    drawn = sorted((run for run in whole if counts[_way_of(run)] > 1), key=lambda run: run.at)
    if not drawn:
        return
    searches = drawn[0].mode is not None
    name = "nDCG" if searches else "Recall of citations"
    name = name if searches or drawn[0].recall is not None else "Share answered"
    series = [_way_of(run) if searches else one_line(run.agent_name or "A deleted agent") for run in drawn]
    ways = sorted(set(series), key=list(_COLOURS).index if searches else None)
    of_replies = "Recall" if drawn[0].recall is not None else "Answered"
    meaning = SCORES[f"nDCG@{_CUTOFF}" if searches else of_replies]
    st.subheader(f"{name} over time", anchor=False, help=meaning)
    st.bar_chart(  # pyright: ignore[reportUnknownMemberType] - pandas has no types for all it takes
        {
            "At": _name_times(drawn, series),
            name: [main_score(run) for run in drawn],
            "Match by" if searches else "Agent": series,
        },
        x="At",
        x_label=f"Time in {browser_zone()}",
        y=name,
        sort=False,
        stack=not searches,
        color=("Match by" if searches else "Agent") if len(ways) > 1 else _COLOURS[_way_of(drawn[0])],
        height=320,
        alt=f"{name} of saved runs over time.",
    )


def _name_times(runs: Sequence[EvaluationRun], series: Sequence[str]) -> list[str]:
    """Return a short time for each run, with a number for repeated runs of a mode within a minute."""
    names: list[str] = []
    seen: Counter[tuple[str, str]] = Counter()
    for run, of in zip(runs, series, strict=True):
        at = f"{run.at.astimezone(browser_zone()):%d %b %H:%M}"
        way = of if run.mode is not None else ""
        seen[at, way] += 1
        names.append(at if seen[at, way] == 1 else f"{at} ({seen[at, way]})")
    return names


def main_score(run: EvaluationRun) -> float | None:
    """Return a run's nDCG for searches; for agents the recall of citations, else the share answered."""
    return run.ndcg if run.mode is not None else run.recall if run.recall is not None else run.answered


def _list_runs(evaluation: EvaluationSet, runs: Sequence[EvaluationRun]) -> None:
    st.subheader("Runs", anchor=False)
    searches, about = evaluation.agent_id is None, (evaluation.evaluation_set_id, runs[0].evaluation_run_id, len(runs))
    chosen = show_pages(
        "sets.runs",
        source_of(runs, about=about),
        row=lambda run: dict(zip(_heads(searches), _cells(run, searches), strict=True)),
        empty=lambda: None,
        columns={
            head: {"help": SCORES[head]} if any(cells) else None  # an empty column is left out
            for head, *cells in zip(_heads(searches), *(_cells(run, searches) for run in runs), strict=True)
            if head in SCORES
        },
        hint="Select a row to delete a run.",
    )
    show_help("What these scores mean", "workbench#what-the-scores-mean")
    if chosen is not None and st.button("Delete run", key="sets.run.delete", icon=":material/delete:"):
        confirm(
            "Delete this run?",
            f"{_way_of(chosen)}, {moment(chosen.at)}: this deletes its scores.",
            action=lambda: api.client().admin.evaluation_sets.delete_run(
                chosen.evaluation_set_id, chosen.evaluation_run_id
            ),
            then=forget_sets,
        )
    if evaluation.run_count > len(runs):
        show_text(f"The newest {len(runs)} of {evaluation.run_count:,} runs are shown.")
    offer_export("runs.csv", _heads(searches), [[_cells(run, searches, exact=True) for run in runs]], about=about)


def _heads(searches: bool) -> tuple[str, ...]:
    of_searches = (f"nDCG@{_CUTOFF}", f"Recall@{_CUTOFF}", f"MRR@{_CUTOFF}")
    of_replies = ("Answered", "Recall", "Precision", "Said", "Refused", "Groundedness")
    way, scores = ("Match by", of_searches) if searches else ("Agent", of_replies)
    return ("When", way, *scores, "Questions", "Run by", "Note")


def _cells(run: EvaluationRun, searches: bool, *, exact: bool = False) -> list[str]:
    of_replies = (run.answered, run.recall, run.precision, run.statements_said, run.refused, run.groundedness)
    scores = (run.ndcg, run.recall, run.reciprocal_rank) if searches else of_replies
    asked = one_line(run.agent_name or "A deleted agent")
    model = f"{asked} · {run.model} · {(run.instructions_digest or '')[:12]}" if exact else asked
    return [
        moment(run.at) if exact else ago(run.at),
        _way_of(run) if searches else one_line(model),
        *(_score_cell(score) for score in scores),
        str(run.case_count) if exact else count_measured(run),
        one_line(run.ran_by.name),
        one_line(run.note or ""),
    ]
