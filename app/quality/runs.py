"""Runs over an evaluation set: measuring it now, the runs that are kept, and what changed between two of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from uuid import UUID

import streamlit as st

import carrel
from app import api
from app.formatting import ago, moment, one_line
from app.quality.sets import forget_sets, go_to_case
from app.search.queries import MODES
from app.ui.dialogs import confirm
from app.ui.errors import problem_of, show_errors
from app.ui.exporting import Export, offer_export
from app.ui.filters import choice_filter
from app.ui.help import show_help
from app.ui.links import show_link
from app.ui.notices import show_empty, show_note, show_text, show_warning
from app.ui.tables import show_pages, source_of
from carrel.evaluation import Measurer, compare
from carrel.wire.evaluation import EvaluationCase, EvaluationSet
from carrel.wire.evaluation_runs import CaseResult, EvaluationRun, KeptResult
from carrel.wire.search import SearchMode
from flows.operations.formatting import count_text

_RUN = "sets.run"
# Of the runs of a set, the newest are shown and drawn.
MOST_SHOWN = 200
# Blue, orange and purple, which people with any colour vision tell apart, in both themes.
_COLOURS: Mapping[str, str] = dict(
    zip([*MODES.values(), "Agent"], ["#2f7fb8", "#d9730d", "#9467bd", "#2f7fb8"], strict=True)
)
_CUTOFF = 10
_MEANINGS = {
    f"nDCG@{_CUTOFF}": f"How near the first {_CUTOFF} results come to the best order, the most relevant first: 1",
    f"Recall@{_CUTOFF}": f"The share of the right documents that are among the first {_CUTOFF} results",
    f"MRR@{_CUTOFF}": "How early the first right document comes: 1 is always first, 0.5 is mostly second",
    "Answered": "The share of the questions whose reply cites a document",
    "Recall": "The share of the expected documents that the replies cite",
    "Precision": "The share of the citations that are of expected documents",
}
"""What each score means, in plain words; docs/workbench.md has examples."""


@dataclass
class Running:
    """A run over a set in several modes that is measured, stopped or done; each mode is kept as a run of its own."""

    set_id: UUID
    measurers: Sequence[Measurer]
    cases: Sequence[EvaluationCase]
    note: str
    skipped_count: int = 0
    agent_id: UUID | None = None
    results: list[list[CaseResult]] = field(default_factory=list[list[CaseResult]])
    kept_count: int = 0
    stopped: bool = False

    @property
    def done(self) -> int:
        """How many cases are measured, in every mode."""
        return len(self.results)

    def measure_next(self) -> None:
        """Measure the next case in every mode; raises carrel.CarrelError, and then no mode of it counts."""
        case = self.cases[self.done]
        self.results.append([one.measure(case) for one in self.measurers])

    @property
    def kept_in_words(self) -> str:
        """Which ways to search are kept as runs, and which are not."""
        if not self.kept_count:
            return "Nothing is kept yet."
        ways = [MODES[one.mode] for one in self.measurers if one.mode is not None]
        return f"Kept: {', '.join(ways[: self.kept_count])}. Not kept yet: {', '.join(ways[self.kept_count :])}."

    def keep(self) -> None:
        """Keep what is measured as runs, one for each mode that isn't kept yet."""
        for place in range(self.kept_count, len(self.measurers)):
            results = [of_case[place] for of_case in self.results]
            api.client().admin.evaluation_sets.add_run(
                self.set_id, results, mode=self.measurers[place].mode, note=self.note or None
            )
            self.kept_count += 1


def show_runs(one: EvaluationSet) -> None:
    """Show the form that measures a set now, the runs that are kept, and what changed between two of them."""
    running: Running | None = st.session_state.get(_RUN)
    if running is not None and running.set_id == one.evaluation_set_id:
        _continue(running)
    else:
        _offer_run(one)
    runs = show_errors(partial(read_runs, one.evaluation_set_id))
    if not runs:
        show_empty("No run is kept yet.", "Run the set now, and again after a change, to see what became better.")
        return
    _draw_chart(runs)
    _list_runs(one, runs)
    if len(runs) > 1 or one.agent_id is not None:
        _show_results(one, runs)


def read_runs(set_id: UUID) -> list[EvaluationRun]:
    """Return the newest runs of a set, newest first."""
    return list(next(api.client().admin.evaluation_sets.list_runs(set_id, page_size=MOST_SHOWN).pages()).runs)


def _offer_run(one: EvaluationSet) -> None:
    if not one.case_count:
        return
    with st.form("sets.measure", border=False):
        modes = list(MODES)
        left, middle, right = st.columns([4, 4, 2], vertical_alignment="bottom")
        if one.agent_id is None:
            modes = left.multiselect(
                "Match by",
                modes,
                modes,
                key="sets.modes",
                format_func=lambda mode: MODES[mode],
                placeholder="Choose one",
            )
        note = middle.text_input("Note", key="sets.note", max_chars=200, placeholder="What has changed, if anything")
        again = "Run again" if one.run_count else "Run"
        if right.form_submit_button(again if one.agent_id else "Measure now", type="primary", width="stretch"):
            _begin(one, modes, note.strip())
    whose = (
        "The agent is asked each question as you, in a new conversation"
        if one.agent_id
        else "The questions are searched for as you"
    )
    show_note(f"{whose}: what you may not read counts as not found. It stands in the log as yours.")


def _begin(one: EvaluationSet, modes: Sequence[SearchMode], note: str) -> None:
    if not modes:
        show_warning("Choose at least one way to search.")
        return
    measurers = [Measurer(api.client(), one, mode=mode) for mode in (modes if one.agent_id is None else modes[:1])]
    every = show_errors(lambda: list(api.client().admin.evaluation_sets.list_cases(one.evaluation_set_id)))
    cases = [case for case in every if measurers[0].can_measure(case)]
    if not cases:
        show_warning("No question of this set has a relevant document.", "Judge some first.")
        return
    st.session_state[_RUN] = Running(
        one.evaluation_set_id, measurers, cases, note, len(every) - len(cases), one.agent_id
    )
    st.rerun()


def _continue(run: Running) -> None:
    """Measure the remaining cases and keep the runs; a click meanwhile draws the page again, which continues."""
    whole = len(run.cases)
    if run.stopped:
        show_warning(f"Stopped: {run.done:,} of {count_text(whole, 'question')} are measured.", run.kept_in_words)
        with st.container(horizontal=True, gap="small"):
            st.button("Continue", key="sets.on", on_click=_set_stopped, args=(run, False))
            st.button("Discard", key="sets.off", on_click=_drop)
        return
    bar = st.progress(run.done / whole, text=f"{run.done:,} of {count_text(whole, 'question')}")
    st.button("Stop", key="sets.stop", on_click=_set_stopped, args=(run, True))
    try:
        while run.done < whole:
            run.measure_next()
            bar.progress(run.done / whole, text=f"{run.done:,} of {count_text(whole, 'question')}")
        run.keep()
    except carrel.CarrelError as error:
        run.stopped = True
        problem_of(error).show()
        if run.agent_id is not None:
            show_link("You can ask an agent that is deployed to you", "agents", agent=str(run.agent_id), part="try")
        st.button("Try again", key="sets.again", on_click=_set_stopped, args=(run, False))
        st.button("Discard", key="sets.off", on_click=_drop)
        st.stop()
    _drop()
    if run.skipped_count:
        st.toast(f"{count_text(run.skipped_count, 'question')} without a relevant document: left out.")
    st.rerun()


def _set_stopped(run: Running, stopped: bool) -> None:
    run.stopped = stopped


def _drop() -> None:
    st.session_state.pop(_RUN, None)
    forget_sets()  # runs of some ways to search may be kept


def _draw_chart(runs: Sequence[EvaluationRun]) -> None:
    """Draw the main score over time, a bar for each run, when there are two of one way.

    Bars, because each has a name that a screen reader can say, and a line has none.
    """
    by_way: dict[str, list[EvaluationRun]] = {}
    for run in runs:
        by_way.setdefault(way_of(run), []).append(run)
    drawn = [run for some in by_way.values() if len(some) > 1 for run in some if main_score(run) is not None]
    if not drawn:
        return
    drawn.sort(key=lambda run: run.at)
    name = "nDCG" if drawn[0].mode is not None else "Recall of citations"
    name = name if drawn[0].mode is not None or drawn[0].recall is not None else "Share that is answered"
    ways = sorted({way_of(run) for run in drawn}, key=list(_COLOURS).index)
    st.subheader(f"{name} over time", anchor=False, help=_help_about(drawn[0]))
    st.bar_chart(  # pyright: ignore[reportUnknownMemberType] - pandas has no types for all it takes
        {
            "At": [moment(run.at) for run in drawn],
            name: [main_score(run) for run in drawn],
            "Match by": [way_of(run) for run in drawn],
        },
        x="At",
        y=name,
        sort=False,
        stack=False,
        color="Match by" if len(ways) > 1 else _COLOURS[ways[0]],
        height=240,
        alt=f"{name} of the runs that are kept, over time.",
    )


def _help_about(run: EvaluationRun) -> str:
    """Return what the score that runs are compared by means."""
    if run.mode is not None:
        return _MEANINGS[f"nDCG@{_CUTOFF}"]
    return _MEANINGS["Recall" if run.recall is not None else "Answered"]


def way_of(run: EvaluationRun) -> str:
    """Return how a run searched, or that it asked an agent, in words."""
    return "Agent" if run.mode is None else MODES[run.mode]


def main_score(run: EvaluationRun) -> float | None:
    """Return the score that runs are compared by: nDCG, or of an agent the recall of its citations."""
    return run.ndcg if run.mode is not None else run.recall if run.recall is not None else run.answered


def _list_runs(one: EvaluationSet, runs: Sequence[EvaluationRun]) -> None:
    st.subheader("Runs", anchor=False)
    searches = one.agent_id is None
    chosen = show_pages(
        "sets.runs",
        source_of(runs, about=(one.evaluation_set_id, runs[0].evaluation_run_id, len(runs))),
        row=lambda run: dict(zip(_heads(searches), _cells(run, searches), strict=True)),
        empty=lambda: None,
        columns={head: {"help": _MEANINGS[head]} for head in _heads(searches) if head in _MEANINGS},
        hint="Choose a run to delete it.",
    )
    show_help("What these scores mean", "workbench#what-the-scores-mean")
    if chosen is not None and st.button("Delete this run", key="sets.run.delete", icon=":material/delete:"):
        confirm(
            "Delete this run?",
            f"{way_of(chosen)}, {moment(chosen.at)}: its scores can't be compared any more.",
            doing="Delete it",
            action=partial(_delete, chosen),
        )
    if one.run_count > len(runs):
        show_text(f"These are the newest {len(runs)} of {one.run_count:,} runs.")
    about = (one.evaluation_set_id, runs[0].evaluation_run_id, len(runs))
    offer_export(Export("runs.csv", _heads(searches), [[_cells(run, searches, exact=True) for run in runs]], about))


def _heads(searches: bool) -> tuple[str, ...]:
    scores = (
        (f"nDCG@{_CUTOFF}", f"Recall@{_CUTOFF}", f"MRR@{_CUTOFF}") if searches else ("Answered", "Recall", "Precision")
    )
    return ("When", "Match by", *scores, "Questions", "Who ran it", "Note")


def _cells(run: EvaluationRun, searches: bool, *, exact: bool = False) -> list[str]:
    scores = (run.ndcg, run.recall, run.reciprocal_rank) if searches else (run.answered, run.recall, run.precision)
    model = f"{run.model} · {(run.instructions_digest or '')[:8]}" if run.model else way_of(run)
    return [
        moment(run.at) if exact else ago(run.at),
        one_line(model),
        *(_score(one) for one in scores),
        f"{run.case_count:,}" if not exact else str(run.case_count),
        one_line(run.ran_by.name),
        one_line(run.note or ""),
    ]


def _score(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _delete(run: EvaluationRun) -> None:
    api.client().admin.evaluation_sets.delete_run(run.evaluation_set_id, run.evaluation_run_id)
    forget_sets()


def _name_of(run: EvaluationRun) -> str:
    note = one_line(run.note or "")
    return f"{way_of(run)}, {moment(run.at)}{' · ' if note else ''}{note}"


def choose_runs(runs: Sequence[EvaluationRun]) -> tuple[EvaluationRun | None, EvaluationRun]:
    """Show the choice of two runs to compare, which the address has too; of one run alone there is nothing to choose.

    At first it is the newest run, with the newest one before it that searched in the same way.
    """
    newest = runs[0]
    if len(runs) == 1:
        return None, newest
    by_id = {str(run.evaluation_run_id): run for run in runs}
    like = next((run for run in runs[1:] if run.mode == newest.mode), runs[1])
    names = {key: _name_of(run) for key, run in by_id.items()}
    left, right = st.columns(2)
    with left:
        before = choice_filter("From", "before", names, default=str(like.evaluation_run_id))
    with right:
        after = choice_filter("To", "after", names, default=str(newest.evaluation_run_id))
    return by_id[before], by_id[after]


def _show_results(one: EvaluationSet, runs: Sequence[EvaluationRun]) -> None:
    """Show what a run measured on each question, and what changed since another run, the worst change first."""
    st.subheader("What changed" if len(runs) > 1 else "Results", anchor=False)
    before, after = choose_runs(runs)
    found = show_errors(partial(_changes, one.evaluation_set_id, before, after))
    if before is not None:
        changes = [each.change for each in found if each.change is not None]
        worse, better = (sum(change * sign > 0 for change in changes) for sign in (-1, 1))
        new = len(found) - len(changes)
        said = f"{worse:,} worse, {better:,} better, {len(changes) - worse - better:,} as before."
        show_note(f"{said} {count_text(new, 'question')} not asked before." if new else said)
    about = (before and before.evaluation_run_id, after.evaluation_run_id)
    show_pages(
        "sets.changes",
        source_of(found, about=about),
        row=partial(_row_of_change, compared=before is not None),
        empty=lambda: show_empty("The questions of this run were removed from the set."),
        go=lambda each: go_to_case(one, each.after.question),
        hint="Open a question to read the replies." if one.agent_id else "Open a question to see what it finds now.",
    )
    if found:
        offer_export(Export("changes.csv", _CHANGE_HEADS, [[_line(each) for each in found]], about))


@dataclass(frozen=True)
class _Change:
    """What a run measured on a question, with what another run did if that had the question."""

    after: KeptResult
    before: KeptResult | None = None
    change: float | None = None


def _changes(set_id: UUID, before: EvaluationRun | None, after: EvaluationRun) -> list[_Change]:
    """Return the results of a run, those that changed for the worse first, and those without a comparison last."""
    new = read_results(set_id, after.evaluation_run_id)
    old = read_results(set_id, before.evaluation_run_id) if before is not None else []
    pairs = [_Change(each.after, each.before, each.change) for each in compare(old, new)]
    known = {each.after.case_id for each in pairs}
    return [*pairs, *(_Change(each) for each in new if each.case_id not in known)]


@st.cache_data(ttl=300, show_spinner="Reading results …", scope="session")
def read_results(set_id: UUID, run_id: UUID) -> list[KeptResult]:
    """Return what a run measured, question by question."""
    return list(api.client().admin.evaluation_sets.list_results(set_id, run_id, page_size=1000))


_CHANGE_HEADS = ("Question", "Before", "After", "First found before", "First found after")


def _row_of_change(one: _Change, *, compared: bool) -> dict[str, object]:
    question, before, after, _, found = _line(one)
    if not compared:
        return {"Question": question, "Result": after, "First found": found}
    change = "" if one.change is None else f"{one.change:+.3f}" if one.change else "0"
    return {"Question": question, "Before": before, "After": after, "Change": change}


def _line(one: _Change) -> list[str]:
    results = (one.before, one.after)
    return [
        one_line(one.after.question),
        *("" if each is None else value_of(each) for each in results),
        *("" if each is None else ", ".join(each.found[:3]) for each in results),
    ]


def value_of(result: KeptResult) -> str:
    """Return what was measured on a question in words: of a search the nDCG, of an agent what it answered and cited."""
    if result.answered is None:
        return _score(result.ndcg)
    answered = "Answered" if result.answered else "Nothing answered"
    return answered if result.recall is None else f"{answered}, expected documents cited: {result.recall:.0%}"
