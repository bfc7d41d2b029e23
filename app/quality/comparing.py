"""What changed between two runs over an evaluation set, question by question."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from uuid import UUID

import streamlit as st

from app import api
from app.formatting import moment, one_line
from app.quality.run_settings import show_changed_settings
from app.quality.sets import go_to_case
from app.search.queries import MODES
from app.ui.errors import show_errors
from app.ui.exporting import Export, offer_export
from app.ui.filters import choice_filter
from app.ui.notices import show_empty, show_note, show_warning
from app.ui.tables import show_pages, source_of
from carrel.evaluation import compare, is_whole
from carrel.wire.evaluation import EvaluationSet
from carrel.wire.evaluation_runs import EvaluationRun, KeptResult
from flows.operations.formatting import count_text


def way_of(run: EvaluationRun) -> str:
    """Return how a run searched, or that it asked an agent, in words."""
    return "Agent" if run.mode is None else MODES[run.mode]


def score_cell(value: float | None) -> str:
    """Return a score as a cell of a table."""
    return "" if value is None else f"{value:.3f}"


def _name_of(run: EvaluationRun) -> str:
    note, agent = one_line(run.note or ""), one_line(run.agent_name or "")
    return f"{agent or way_of(run)}, {moment(run.at)}{' · ' if note else ''}{note}"


def count_measured(run: EvaluationRun) -> str:
    """Return over how many questions the scores of a run are, and of how many when some are missing."""
    of = max(run.planned_count or 0, run.case_count + run.failed_count)
    return f"{run.case_count:,}" if run.case_count == of else f"{run.case_count:,} of {of:,}"


def choose_runs(runs: Sequence[EvaluationRun]) -> tuple[EvaluationRun | None, EvaluationRun]:
    """Show the choice of two runs to compare, which the address has too; of one run alone there is nothing to choose.

    At first it is the newest run, with the newest one before it that searched in the same way.
    """
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


def show_results(one: EvaluationSet, runs: Sequence[EvaluationRun]) -> None:
    """Show what a run measured on each question, and what changed since another run, the worst change first."""
    st.subheader("What changed" if len(runs) > 1 else "Results", anchor=False)
    before, after = choose_runs(runs)
    found = show_errors(partial(_changes, one.evaluation_set_id, before, after))
    for run in (before, after):
        if run is not None and (run.failed_count or not is_whole(run)):
            show_warning(_describe_missing(run))
    if before is not None:
        show_changed_settings(before, after)
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


def _describe_missing(run: EvaluationRun) -> str:
    """Say over how many questions the scores of a run are that some are missing of."""
    said = f"{_name_of(run)}: the scores are over {count_measured(run)} questions."
    failed = f" {run.failed_count:,} failed; they are listed last, each with its error." if run.failed_count else ""
    return said + failed + ("" if is_whole(run) else " The run is not at its end, or was stopped before.")


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
    if result.error is not None:
        return f"Failed: {one_line(result.error)}"
    if result.answered is None:
        return score_cell(result.ndcg)
    if result.refused is not None:
        return "Nothing answered, as is right" if result.refused else "Answered, though nothing should"
    shares = {
        "expected documents cited": result.recall,
        "statements said": result.statements_said,
        "groundedness": result.groundedness,
    }
    answered = "Answered" if result.answered else "Nothing answered"
    return ", ".join([answered, *(f"{name}: {share:.0%}" for name, share in shares.items() if share is not None)])
