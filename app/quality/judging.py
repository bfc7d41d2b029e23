"""Measuring how well configurations of search rank documents that people judged to answer their queries.

Judgements are CSV: a query, the external id of a document that answers it, and perhaps how well (a whole number, 1
where there is none). A query has as many lines as judged documents.
"""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from uuid import UUID

from app import api
from app.search.queries import CATALOG
from carrel import evaluation
from carrel.wire.search import SearchMode

CUTOFF = 10
MOST_QUERIES = 500
MOST_BYTES = 5_000_000
_MOST_CHUNKS = 100
_MOST_PROBLEMS = 10
_MOST_GRADE = 1000
_LONGEST_QUERY, _LONGEST_ID = 8192, 1024
_HEADS = {
    "query": frozenset({"query", "question", "q"}),
    "document": frozenset({"externalid", "documentexternalid", "document", "documentid", "doc", "id"}),
    "grade": frozenset({"grade", "judgement", "judgment", "relevance", "score"}),
}


class JudgementsError(ValueError):
    """The text has no valid judgements; `problems` say in which lines."""

    def __init__(self, message: str, problems: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.problems = tuple(problems)


@dataclass(frozen=True)
class Judgements:
    """Each query with the grades of its documents by external id; `left_out` have no document that answers them."""

    queries: Mapping[str, Mapping[str, int]]
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class Scores:
    """The quality scores of one ranking, each between 0 and 1."""

    ndcg: float
    recall: float
    reciprocal_rank: float


@dataclass(frozen=True)
class Setting:
    """A configuration to compare: modes of search, and where to search (CATALOG or a collection's id)."""

    where: str
    modes: tuple[SearchMode, ...]


@dataclass
class Comparison:
    """A comparison that is running, stopped or done, with the measurements so far."""

    judgements: Judgements
    setting: Setting
    scores: dict[str, dict[SearchMode, Scores]] = field(default_factory=dict[str, dict[SearchMode, Scores]])
    stopped: bool = False

    @property
    def left(self) -> list[str]:
        """The queries that are not measured yet."""
        return [query for query in self.judgements.queries if query not in self.scores]

    def take(self, query: str) -> None:
        """Measure a query in every mode; raises carrel.CarrelError, and then no mode of it counts."""
        grades = self.judgements.queries[query]
        self.scores[query] = {
            mode: scores_of(rank(query, where=self.setting.where, mode=mode), grades) for mode in self.setting.modes
        }

    def means(self, mode: SearchMode) -> Scores:
        """Return the means over the queries so far; zeros before the first."""
        of_all = [by_mode[mode] for by_mode in self.scores.values()]
        if not of_all:
            return Scores(0.0, 0.0, 0.0)
        return Scores(
            fmean(one.ndcg for one in of_all),
            fmean(one.recall for one in of_all),
            fmean(one.reciprocal_rank for one in of_all),
        )

    def by_difference(self) -> list[tuple[str, float]]:
        """Return the queries with how far apart the modes' nDCG is, the furthest first."""
        spread = [
            (query, max(one.ndcg for one in by_mode.values()) - min(one.ndcg for one in by_mode.values()))
            for query, by_mode in self.scores.items()
        ]
        return sorted(spread, key=lambda pair: (-pair[1], pair[0]))


def read(data: bytes | str) -> Judgements:
    """Read judgements; raises JudgementsError with the problems of all lines."""
    if len(data) > MOST_BYTES:
        msg = f"This is larger than {MOST_BYTES // 1_000_000} MB. Leave queries out."
        raise JudgementsError(msg)
    text = _text(data)
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=_delimiter(text))
    try:
        rows = [(lines.line_num, row) for row in lines if any(cell.strip() for cell in row)]
    except csv.Error as exc:
        msg = f"Line {lines.line_num} isn't CSV: {exc}."
        raise JudgementsError(msg) from exc
    return _judgements(rows)


def _text(data: bytes | str) -> str:
    if isinstance(data, str):
        return data.removeprefix("\ufeff")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        msg = "This isn't text in UTF-8. Save it as “CSV UTF-8”."
        raise JudgementsError(msg) from exc


def _delimiter(text: str) -> str:
    first = next((line for line in text.splitlines() if line.strip()), "")
    return max(",;\t", key=first.count)


def _judgements(rows: Sequence[tuple[int, list[str]]]) -> Judgements:
    if not rows:
        msg = "There is nothing in it."
        raise JudgementsError(msg)
    columns = _columns(rows[0][1])
    found: dict[str, dict[str, int]] = {}
    problems: list[str] = []
    for line, row in rows[1:]:
        try:
            query, document, grade = _judgement(row, columns)
        except ValueError as error:
            problems.append(f"Line {line}: {error}")
            continue
        grades = found.setdefault(query, {})
        if grades.setdefault(document, grade) != grade:
            problems.append(f"Line {line}: this document has another grade for the same query above")
    if problems:
        more = len(problems) - _MOST_PROBLEMS
        shown = [*problems[:_MOST_PROBLEMS], *([f"… and {more:,} more"] if more > 0 else [])]
        msg = "Some lines can't be understood."
        raise JudgementsError(msg, shown)
    return _check_bounds(found)


def _columns(heads: Sequence[str]) -> dict[str, int]:
    plain = ["".join(char for char in head.lower() if char.isalnum()) for head in heads]
    columns = {
        name: next(place for place, head in enumerate(plain) if head in known)
        for name, known in _HEADS.items()
        if any(head in known for head in plain)
    }
    if missing := [name for name in ("query", "document") if name not in columns]:
        msg = f"The first line must name the columns: query, external id, and perhaps grade. Missing: {missing[0]}."
        raise JudgementsError(msg)
    return columns


def _judgement(row: Sequence[str], columns: Mapping[str, int]) -> tuple[str, str, int]:
    cells = {name: row[place].strip() if place < len(row) else "" for name, place in columns.items()}
    if not cells["query"] or not cells["document"]:
        msg = "it needs a query and an external id"
        raise ValueError(msg)
    if len(cells["query"]) > _LONGEST_QUERY or "\0" in cells["query"]:
        msg = "the query is longer than can be searched for, or has characters that can't be"
        raise ValueError(msg)
    if len(cells["document"]) > _LONGEST_ID:
        msg = f"an external id has at most {_LONGEST_ID:,} characters"
        raise ValueError(msg)
    return cells["query"], cells["document"], _grade(cells.get("grade", ""))


def _grade(written: str) -> int:
    msg = f"the grade must be a whole number, at most {_MOST_GRADE}, and is {written[:40]!r}"
    try:
        grade = int(written or 1)
    except ValueError:
        raise ValueError(msg) from None
    if abs(grade) > _MOST_GRADE:
        raise ValueError(msg)
    return grade


def _check_bounds(found: Mapping[str, Mapping[str, int]]) -> Judgements:
    answered = {query: grades for query, grades in found.items() if any(grade > 0 for grade in grades.values())}
    if not answered:
        msg = "No query has a document that answers it (a grade above 0)."
        raise JudgementsError(msg)
    if len(answered) > MOST_QUERIES:
        msg = f"These are {len(answered):,} queries, and {MOST_QUERIES} can be compared here at once. Leave some out."
        raise JudgementsError(msg)
    return Judgements(answered, tuple(query for query in found if query not in answered))


def rank(query: str, *, where: str, mode: SearchMode) -> list[str]:
    """Return the external ids of the first ten documents that a search as the signed-in person finds, best first."""
    search = api.client().search
    if where == CATALOG:
        found = search.search_document_catalog(query, max_results=CUTOFF, mode=mode).results
        return [one.document_external_id for one in found]
    inside = search.search_document_collection(
        query, document_collection_id=UUID(where), max_chunks=_MOST_CHUNKS, mode=mode
    )
    return [one.document_external_id for one in inside.results][:CUTOFF]


def scores_of(found: Sequence[str], grades: Mapping[str, int]) -> Scores:
    """Measure a ranking against judgements."""
    return Scores(
        evaluation.ndcg(found, grades, cutoff=CUTOFF),
        evaluation.recall(found, grades, cutoff=CUTOFF),
        evaluation.reciprocal_rank(found, grades, cutoff=CUTOFF),
    )
