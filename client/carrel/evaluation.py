"""Measure how good a ranking is against judgements of relevant documents: nDCG, recall, reciprocal rank.

>>> from carrel import evaluation
>>> evaluation.ndcg(["travel", "canteen"], {"canteen": 1})
0.6309297535714575

A ranking lists the ids found, best first. Judgements map relevant ids to grades: 1 for relevant, more for a better
answer; 0 or less, or no judgement, is irrelevant. All three measures are between 0 and 1. They raise ValueError for a
question without relevant ids. A repeated id counts only at its first place.

Judgements are kept in evaluation sets (`client.admin.evaluation_sets`), and measurements on a set as its runs:
`evaluation.run(client, evaluation_set, mode="LEXICAL", note="before the new policy")`."""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from carrel.drafts import lend_draft, may_ask
from carrel.errors import (
    APIConnectionError,
    APITimeoutError,
    AuthenticationError,
    CarrelError,
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
    ReplyWithheldError,
)
from carrel.resources._choices import AnySearchMode
from carrel.wire.evaluation import EvaluationCase, EvaluationSet, JudgedQuestion, Judgement
from carrel.wire.evaluation_runs import CaseResult, EvaluationRun, KeptResult
from carrel.wire.search import SearchMode

if TYPE_CHECKING:
    from carrel import Carrel

__all__ = [
    "Difference",
    "Measurer",
    "RunKeeper",
    "add_cases",
    "add_judgements",
    "check_scores",
    "compare",
    "find_changed_settings",
    "find_low_scores",
    "find_run_to_compare",
    "find_unsaid",
    "is_whole",
    "ndcg",
    "rank",
    "recall",
    "reciprocal_rank",
    "run",
]

_MOST_CHUNKS = 100
_BATCH = 100
_LONGEST_ERROR = 500
_FAILING_ALL = (AuthenticationError, PermissionDeniedError, NotFoundError, APIConnectionError)
KEPT_AT_ONCE = 20
"""Number of measured cases saved per request."""
SCORES_OF_REPLIES = ("answered", "recall", "precision", "statements_said", "refused", "groundedness")
"""The scores of a run over a set that asks an agent, each from 0 to 1; higher is better."""
OnProgress = Callable[[int, int], object]
"""Called with the number of cases done and the total."""


def rank(
    client: "Carrel",
    question: str,
    *,
    document_collection_id: UUID | str | None = None,
    mode: AnySearchMode = SearchMode.HYBRID,
    user_email: str | None = None,
) -> list[str]:
    """Search the catalog, or a collection, and return the external ids of the first ten documents, best first."""
    if document_collection_id is None:
        found = client.search.search_document_catalog(question, max_results=CUTOFF, mode=mode, user_email=user_email)
        return [result.document_external_id for result in found.results]
    inside = client.search.search_document_collection(
        question,
        document_collection_id=document_collection_id,
        max_chunks=_MOST_CHUNKS,
        mode=mode,
        user_email=user_email,
    )
    return [item.document_external_id for item in inside.results][:CUTOFF]


class Measurer:
    """Measures cases of an evaluation set singly, as the client's caller: documents hidden from the caller are not
    found. `mode` is the search mode for a set of searches; `agent_id` an agent to ask instead of the set's own, to
    compare them (InvalidArgumentError for a set of searches); `user_email` the person to search and ask as, for an API
    key that may act for users."""

    def __init__(
        self,
        client: "Carrel",
        evaluation_set: EvaluationSet,
        *,
        mode: AnySearchMode | None = None,
        agent_id: UUID | str | None = None,
        user_email: str | None = None,
    ) -> None:
        self.user_email = user_email
        self._client = client
        self._set = evaluation_set
        asks_agent = evaluation_set.agent_id is not None
        if agent_id is not None and not asks_agent:
            raise InvalidArgumentError("agent_id: the questions of this set are searched for, and asked no agent")
        self.agent_id = evaluation_set.agent_id if agent_id is None else UUID(str(agent_id))
        self.mode = None if asks_agent else SearchMode(mode or SearchMode.HYBRID)

    def can_measure(self, case: EvaluationCase) -> bool:
        """Return whether a case can be measured: always for an agent; a search needs a relevant document."""
        return self.mode is None or any(grade > 0 for grade in case.grades.values())

    def measure(self, case: EvaluationCase) -> CaseResult:
        """Search or ask a question; return the scores, or the error if only this question fails. Raises errors that
        concern all questions: AuthenticationError, PermissionDeniedError, NotFoundError, APIConnectionError."""
        try:
            return self._ask(case) if self.mode is None else self._search(case, self.mode)
        except CarrelError as error:
            if isinstance(error, _FAILING_ALL) and not isinstance(error, APITimeoutError):
                raise
            message, message_id = str(error).replace("\0", "")[:_LONGEST_ERROR], getattr(error, "message_id", None)
            return CaseResult(case_id=case.case_id, error=message, message_id=message_id)

    def _search(self, case: EvaluationCase, mode: SearchMode) -> CaseResult:
        target = self._set.document_collection_id
        ranks = rank(self._client, case.question, document_collection_id=target, mode=mode, user_email=self.user_email)
        return CaseResult(
            case_id=case.case_id,
            ndcg=ndcg(ranks, case.grades),
            recall=recall(ranks, case.grades),
            reciprocal_rank=reciprocal_rank(ranks, case.grades),
            found=ranks,
        )

    def _ask(self, case: EvaluationCase) -> CaseResult:
        assert self.agent_id is not None  # noqa: S101 - a set without one has a mode
        try:
            reply = self._client.agents.send_and_wait(self.agent_id, case.question, user_email=self.user_email)
        except ReplyWithheldError as error:  # a document behind the reply is no longer readable
            refused = False if case.nothing_answers else None
            return CaseResult(case_id=case.case_id, answered=False, refused=refused, message_id=error.message_id)
        cited = self._external_ids([source.id for source in reply.sources])[:CUTOFF]
        relevant = {name for name, grade in case.grades.items() if grade > 0}
        right = len(relevant.intersection(cited))
        unsaid = find_unsaid(reply.text, case.statements)
        return CaseResult(
            case_id=case.case_id,
            answered=bool(reply.sources),
            recall=right / len(relevant) if relevant else None,
            precision=right / len(cited) if cited and relevant else None,
            statements_said=1 - len(unsaid) / len(case.statements) if case.statements else None,
            refused=not reply.sources if case.nothing_answers else None,
            message_id=reply.message_id,
            found=cited,
        )

    def _external_ids(self, document_ids: Sequence[UUID]) -> list[str]:
        """Return each document's external id once, in order, without documents that the caller can't read now."""
        if not document_ids:
            return []
        ids = list(dict.fromkeys(document_ids))
        listed = self._client.catalog.list_documents(ids=ids, user_email=self.user_email)
        by_id = {document.document_id: document.document_external_id for document in listed}
        return list(dict.fromkeys(by_id[item] for item in ids if item in by_id))


class RunKeeper:
    """Saves results as a run, in parts; an interrupted run has fewer cases than its `planned_count`."""

    def __init__(
        self, client: "Carrel", evaluation_set_id: UUID, measurer: Measurer, *, planned_count: int, note: str | None
    ) -> None:
        self.measurer = measurer
        self.run: EvaluationRun | None = None
        self._sets = client.admin.evaluation_sets
        self._set_id = evaluation_set_id
        self._planned_count = planned_count
        parts = [measurer.user_email and f"as {measurer.user_email}", note]
        self._note = " · ".join(filter(None, parts))[:1000] or None
        self._waiting: dict[UUID, CaseResult] = {}

    def measure(self, case: EvaluationCase) -> CaseResult:
        """Measure a case and return the result; every 20 results are saved. Raises the errors of `Measurer.measure`."""
        result = self.measurer.measure(case)
        self._waiting[case.case_id] = result
        if len(self._waiting) >= KEPT_AT_ONCE:
            self.keep()
        return result

    def keep(self) -> None:
        """Save the results not saved yet."""
        if not self._waiting:
            return
        self.run = self._sets.add_run(
            self._set_id,
            self._waiting.values(),
            mode=self.measurer.mode,
            agent_id=self.measurer.agent_id,
            note=self._note,
            evaluation_run_id=None if self.run is None else self.run.evaluation_run_id,
            planned_count=self._planned_count if self.run is None else None,
        )
        self._waiting = {}


def run(
    client: "Carrel",
    evaluation_set: EvaluationSet,
    *,
    mode: AnySearchMode | None = None,
    agent_id: UUID | str | None = None,
    note: str | None = None,
    user_email: str | None = None,
    on_progress: OnProgress | None = None,
) -> EvaluationRun:
    """Measure the cases of an evaluation set, and save the results as a run of the caller.

    `agent_id` replaces the set's agent, for example by a copy with another model; `compare` shows the differences. A
    failed question is saved with its error, and counts in no score. Results are saved in parts, so an interrupted run
    keeps earlier results. An agent not deployed to the client's person is lent during the run (`carrel.drafts`). With
    `user_email`, an API key that may act for users searches and asks as that person; the note names the person, and the
    agent must be deployed to the person. Raises the errors of `Measurer.measure`, InvalidArgumentError for a person
    without the agent, and ValueError for a set without measurable cases."""
    measurer = Measurer(client, evaluation_set, mode=mode, agent_id=agent_id, user_email=user_email)
    if user_email and measurer.agent_id is not None and not may_ask(client, measurer.agent_id, user_email):
        msg = f"user_email: {user_email} may not use this agent. Deploy it to them first, or run the set as yourself"
        raise InvalidArgumentError(msg)
    sets = client.admin.evaluation_sets
    cases = [case for case in sets.list_cases(evaluation_set.evaluation_set_id) if measurer.can_measure(case)]
    if not cases:
        raise ValueError("No question of this set has a relevant document. Judge some first.")
    keeper = RunKeeper(client, evaluation_set.evaluation_set_id, measurer, planned_count=len(cases), note=note)
    try:
        is_lent = measurer.agent_id is not None and user_email is None
        with lend_draft(client, measurer.agent_id) if is_lent and measurer.agent_id else nullcontext():
            for done, case in enumerate(cases, 1):
                keeper.measure(case)
                if on_progress is not None:
                    on_progress(done, len(cases))
    except BaseException:
        with suppress(CarrelError):  # the run's own error says more
            keeper.keep()
        raise
    keeper.keep()
    assert keeper.run is not None  # noqa: S101 - there was a case
    return keeper.run


def add_judgements(
    client: "Carrel",
    evaluation_set_id: UUID | str,
    judgements: Mapping[str, Mapping[str, int]],
    *,
    on_progress: OnProgress | None = None,
) -> None:
    """Add judgements (grades by external id, by question) in requests of 100 questions; safe to repeat."""
    cases = [
        JudgedQuestion(
            question=question,
            judgements=[Judgement(document_external_id=name, grade=grade) for name, grade in grades.items()],
        )
        for question, grades in judgements.items()
    ]
    add_cases(client, evaluation_set_id, cases, on_progress=on_progress)


def add_cases(
    client: "Carrel",
    evaluation_set_id: UUID | str,
    cases: Sequence[JudgedQuestion],
    *,
    on_progress: OnProgress | None = None,
) -> None:
    """Add cases (as read by `carrel.judgements.read_cases`) in requests of 100 questions; safe to repeat."""
    for begin in range(0, len(cases), _BATCH):
        client.admin.evaluation_sets.put_judgements(evaluation_set_id, cases[begin : begin + _BATCH])
        if on_progress is not None:
            on_progress(min(begin + _BATCH, len(cases)), len(cases))


@dataclass(frozen=True, slots=True)
class Difference:
    """A question's results in two runs; `change` is positive where the later run did better."""

    question: str
    before: KeptResult
    after: KeptResult
    change: float


def compare(before: Sequence[KeptResult], after: Sequence[KeptResult]) -> list[Difference]:
    """Return the differences between two runs, on questions measured by both, worst change first. Searches are compared
    by nDCG, replies to unanswerable questions by refusal, and other replies by the mean of citation recall and
    statements said, as far as both runs have these scores, or by whether they cite."""
    earlier = {result.case_id: result for result in before if result.error is None}
    pairs = ((earlier[item.case_id], item) for item in after if item.case_id in earlier and item.error is None)
    scored = [(old, new, *_find_common_scores(old, new)) for old, new in pairs]
    ordered = sorted(scored, key=lambda each: (each[3] - each[2], each[3], each[1].question))
    return [Difference(new.question, old, new, later - former) for old, new, former, later in ordered]


def _find_common_scores(before: KeptResult, after: KeptResult) -> tuple[float, float]:
    for names in (("ndcg",), ("refused",), ("recall", "statements_said"), ("answered",)):
        pairs = [(getattr(before, name), getattr(after, name)) for name in names]
        both = [(old, new) for old, new in pairs if old is not None and new is not None]
        if both:
            return sum(old for old, _ in both) / len(both), sum(new for _, new in both) / len(both)
    return 0.0, 0.0


def find_changed_settings(before: EvaluationRun, after: EvaluationRun) -> list[str]:
    """Return the names of the settings in which two runs' agents differ, as far as both runs have recorded them."""
    pairs: dict[str, tuple[object, object]] = {
        "model": (before.model, after.model),
        "instructions": (before.instructions_digest, after.instructions_digest),
    }
    if before.settings is not None and after.settings is not None:
        pairs["collections"] = (before.settings.collection_ids, after.settings.collection_ids)
        pairs["retrieval"] = (before.settings.retrieval, after.settings.retrieval)
    return [name for name, (old, new) in pairs.items() if old != new]


def is_whole(run: EvaluationRun) -> bool:
    """Return whether a run reached its last question; failed questions count as reached. True if it has no plan."""
    return run.case_count + run.failed_count >= (run.planned_count or 0)


def find_run_to_compare(runs: Iterable[EvaluationRun], *, agent_id: UUID | None) -> EvaluationRun | None:
    """Return the first complete run with this agent and without failed questions."""
    return next((run for run in runs if run.agent_id == agent_id and is_whole(run) and not run.failed_count), None)


def check_scores(names: Iterable[str]) -> None:
    """Raise InvalidArgumentError unless all names are scores of a run (`SCORES_OF_REPLIES`)."""
    if unknown := sorted(set(names) - set(SCORES_OF_REPLIES)):
        raise InvalidArgumentError(f"{unknown[0]} is not a score; choose from {', '.join(SCORES_OF_REPLIES)}")


def find_low_scores(run: EvaluationRun, floors: Mapping[str, float]) -> dict[str, float | None]:
    """Return the scores below their floors, or missing (None). Raises InvalidArgumentError for an unknown name."""
    check_scores(floors)
    scores: dict[str, float | None] = {name: getattr(run, name) for name in floors}
    return {name: score for name, score in scores.items() if score is None or score < floors[name]}


CUTOFF = 10
_UNSPOKEN = re.compile(r"\s{0,4}\[\d{1,4}\]|(?m:^[ \t]{0,8}>)|[*_`]")  # bounded: linear in any text
_QUOTATION_MARKS = str.maketrans({"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"'})
_Id = TypeVar("_Id")


def ndcg(found: Sequence[_Id], relevant: Mapping[_Id, int], *, cutoff: int = CUTOFF) -> float:
    """Return the normalised discounted cumulative gain of the first `cutoff` results, as trec_eval and BEIR define it:
    judgements over the logarithm of their ranks, divided by the sum of the best possible ranking."""
    judged = _relevant(relevant)
    won = _discount([judged.get(item, 0) for item in _first(found, cutoff)])
    return won / _discount(sorted(judged.values(), reverse=True)[:cutoff])


def recall(found: Sequence[_Id], relevant: Mapping[_Id, int], *, cutoff: int = CUTOFF) -> float:
    """Return the share of the relevant results found in the first `cutoff`."""
    judged = _relevant(relevant)
    return sum(item in judged for item in _first(found, cutoff)) / len(judged)


def reciprocal_rank(found: Sequence[_Id], relevant: Mapping[_Id, int], *, cutoff: int = CUTOFF) -> float:
    """Return 1 over the rank of the first relevant result up to `cutoff`, or 0; the mean over questions is the MRR."""
    judged = _relevant(relevant)
    ranks = (rank for rank, item in enumerate(_first(found, cutoff), 1) if item in judged)
    return 1 / next(ranks, math.inf)


def _relevant(judgements: Mapping[_Id, int]) -> dict[_Id, int]:
    judged = {item: judgement for item, judgement in judgements.items() if judgement > 0}
    if not judged:
        raise ValueError("No document is relevant to this question, so every ranking is equally good. Leave it out.")
    return judged


def _first(found: Sequence[_Id], cutoff: int) -> list[_Id]:
    if cutoff < 1:
        raise ValueError(f"cutoff: {cutoff} is no number of results; it must be 1 or more")
    return list(dict.fromkeys(found))[:cutoff]


def _discount(gains: Sequence[int]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, 1))


def find_unsaid(text: str, statements: Sequence[str]) -> list[str]:
    """Return the statements that a reply does not contain as whole words. Case, white space, the kind of quotation
    marks, Markdown marks and citation numbers don't matter.

    >>> find_unsaid("Lunch is served\\n> from **noon** [1].", ["served from noon", "closed"])
    ['closed']"""
    reply = _normalize(text)
    return [item for item in statements if not re.search(rf"(?<!\w){re.escape(_normalize(item))}(?!\w)", reply)]


def _normalize(text: str) -> str:
    return " ".join(_UNSPOKEN.sub("", text.translate(_QUOTATION_MARKS)).casefold().split())
