"""The ranking of a search: the legs its mode asks for, exact scores of what they found, and one order of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncConnection

from carrel.wire.search import SearchMode
from service.domains.search import queries
from service.domains.search.fusion import Fusion, Legs, Scores, fuse, fusion_of, shown_scores
from service.domains.search.queries import ExactScores, Shown
from service.domains.search.question import Question, Scope, Unit
from service.index.queries import count_frequencies
from service.index.terms import weigh_query
from service.schema.indexing import TOTAL_TERM

# Feedback from the first results (Rocchio, 1971): the question moves this far towards the mean of so many of them.
FEEDBACK_WEIGHT = 0.4
FEEDBACK_EXAMPLES = 3


@dataclass(frozen=True, slots=True)
class Ranking:
    """Units best first, each with its cosine; the question as it was asked, and what decides which chunk is shown."""

    units: Sequence[Unit]
    cosines: Sequence[float]
    question: Question
    shown: Shown

    def scores(self) -> list[float]:
        """Return the scores to report: between 0 and 1, following the rank and the cosine."""
        return shown_scores(self.cosines)


async def rank(
    connection: AsyncConnection, scope: Scope, question: Question, *, at_least: int, feedback: bool = True
) -> Ranking:
    """Rank what is in scope. The connection is in a REPEATABLE READ transaction, which every step reads from.

    A leg names at least so many units, if it can. `feedback` asks a hybrid search a second time among what it found.
    """
    legs, question = await _legs(connection, scope, question, at_least=at_least)
    exact = await queries.exact_scores(connection, scope, question, units=legs.union) if legs.union else {}
    scores = {unit: each.scores for unit, each in exact.items()}
    if not scores:
        return Ranking((), (), question, Shown(0, 1))
    if question.mode is SearchMode.HYBRID:
        fusion = fusion_of(legs, scores)
        units = fuse(scores, fusion)
        if feedback:
            units = await _asked_again(connection, scope, question, legs=legs, exact=exact, first=units)
        shown = _shown(fusion)
    else:
        shown = Shown(lexical=1, dense=0) if question.mode is SearchMode.LEXICAL else Shown(lexical=0, dense=1)
        units = sorted(
            scores, key=lambda unit: (-shown.lexical * scores[unit].lexical - shown.dense * scores[unit].dense, unit)
        )
    return Ranking(units, [scores[unit].dense for unit in units], question, shown)


async def _legs(
    connection: AsyncConnection, scope: Scope, question: Question, *, at_least: int
) -> tuple[Legs, Question]:
    lexical: list[Unit] = []
    dense: list[Unit] = []
    if question.mode is not SearchMode.SEMANTIC and question.words:
        if not question.is_weighed:
            question = await _weighed(connection, scope, question)
        lexical = await queries.lexical_leg(connection, scope, question, at_least=at_least)
    if question.mode is not SearchMode.LEXICAL:
        dense = await queries.dense_leg(connection, scope, question, at_least=at_least)
    return Legs(lexical=lexical, dense=dense), question


async def _weighed(connection: AsyncConnection, scope: Scope, question: Question) -> Question:
    frequencies = await count_frequencies(
        connection,
        scope.caller.organization_id,
        space_id=scope.space.space_id,
        terms=[TOTAL_TERM, *sorted(question.term_set)],
    )
    total = frequencies.get(TOTAL_TERM, 0)
    return question.weighed(
        weigh_query(question.words, language=question.language, frequencies=frequencies, total=total)
    )


async def _asked_again(
    connection: AsyncConnection,
    scope: Scope,
    question: Question,
    *,
    legs: Legs,
    exact: Mapping[Unit, ExactScores],
    first: Sequence[Unit],
) -> list[Unit]:
    examples = [Unit(unit.document_id, exact[unit].nearest_chunk) for unit in first[:FEEDBACK_EXAMPLES]]
    near = await queries.scores_near(
        connection, scope, question, units=legs.union, examples=examples, weight=FEEDBACK_WEIGHT
    )
    scores = {unit: Scores(lexical=exact[unit].scores.lexical, dense=near[unit]) for unit in near}
    return fuse(scores, fusion_of(legs, scores))


def _shown(fusion: Fusion) -> Shown:
    return Shown(lexical=1 / fusion.lexical.deviation, dense=1 / fusion.dense.deviation)
