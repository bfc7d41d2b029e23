"""Judgements as CSV files, which the workbench's page Quality imports and exports.

>>> judged = judgements.read(Path("judged-set.csv").read_bytes())
>>> evaluation.add_judgements(client, evaluation_set_id, judged)
>>> Path("copy.csv").write_bytes(judgements.write(judged))

A line is a query, the external id of a document, and perhaps how well the document answers (a whole number, 1 where
there is none). A query has as many lines as judged documents. The file of a whole set has three more columns: words
that the reply must say, whether nothing answers ("yes"), and a note. `read_cases` reads all that `write_cases` writes.
"""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from carrel.spreadsheets import as_text, from_text
from carrel.wire import evaluation as wire

__all__ = [
    "CASE_HEADS", "HEADS", "MOST_BYTES", "JudgementsError", "case_rows", "read", "read_cases", "rows_of", "write",
    "write_cases",
]  # fmt: skip

MOST_BYTES = 50_000_000
_MOST_PROBLEMS = 10
_LONGEST_QUERY, _LONGEST_ID, _LONGEST_NOTE = 8192, 1024, 1000
HEADS = ("query", "external id", "grade")
CASE_HEADS = (*HEADS, "statement", "nothing answers", "note")
_HEADS = {
    "query": frozenset({"query", "question", "q"}),
    "document": frozenset({"externalid", "documentexternalid", "document", "documentid", "doc", "id"}),
    "grade": frozenset({"grade", "judgement", "judgment", "relevance", "score"}),
    "statement": frozenset({"statement", "says"}),
    "nothing": frozenset({"nothinganswers"}),
    "note": frozenset({"note", "notes"}),
}
_YES, _NO = frozenset({"yes", "true", "1", "x"}), frozenset({"", "no", "false", "0"})


@dataclass(slots=True)
class _Case:
    """The content of a query's lines."""

    grades: dict[str, int] = field(default_factory=dict[str, int])
    statements: dict[str, None] = field(default_factory=dict[str, None])
    nothing_answers: bool = False
    note: str = ""


class JudgementsError(ValueError):
    """The text has no valid judgements; `problems` name the lines."""

    def __init__(self, message: str, problems: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.problems = tuple(problems)


def write(judgements: Mapping[str, Mapping[str, int]]) -> bytes:
    """Return grades of documents by query as a CSV file, with the byte order mark that spreadsheets need for UTF-8."""
    return _write(HEADS, rows_of(judgements))


def write_cases(cases: Iterable[wire.EvaluationCase]) -> bytes:
    """Return cases as a CSV file for `read_cases`."""
    return _write(CASE_HEADS, case_rows(cases))


def _write(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(heads)
    writer.writerows([as_text(cell) for cell in row] for row in rows)
    return text.getvalue().encode("utf-8-sig")


def rows_of(judgements: Mapping[str, Mapping[str, int]]) -> Iterator[list[str]]:
    """Yield the file's lines; a query without judgements gets a line without a document."""
    for query, grades in judgements.items():
        yield from ([query, document, str(grade)] for document, grade in (grades or {"": ""}).items())


def case_rows(cases: Iterable[wire.EvaluationCase]) -> Iterator[list[str]]:
    """Yield the lines of a file of cases, at least one for each case."""
    for case in cases:
        nothing = "yes" if case.nothing_answers else ""
        grades = [[document, str(grade)] for document, grade in case.grades.items()]
        pairs = zip_longest(grades, case.statements, fillvalue=None) if grades or case.statements else [(None, None)]
        for grade, statement in pairs:
            yield [case.question, *(grade or ["", ""]), statement or "", nothing, case.note or ""]


def read(data: bytes | str) -> Mapping[str, Mapping[str, int]]:
    """Read the grades of documents by query; raises JudgementsError with the problems of all lines."""
    return {query: case.grades for query, case in _read_by_query(data).items()}


def read_cases(data: bytes | str) -> list[wire.JudgedQuestion]:
    """Read a case per question; empty, false or omitted values stay in the set. Raises JudgementsError."""
    return [
        wire.JudgedQuestion(
            question=query,
            judgements=[wire.Judgement(document_external_id=name, grade=grade) for name, grade in case.grades.items()],
            statements=list(case.statements) or None,
            nothing_answers=case.nothing_answers or None,
            note=case.note or None,
        )
        for query, case in _read_by_query(data).items()
    ]


def _read_by_query(data: bytes | str) -> Mapping[str, _Case]:
    if len(data) > MOST_BYTES:
        raise JudgementsError(f"This is larger than {MOST_BYTES // 1_000_000} MB. Leave queries out.")
    text = _decode_text(data)
    first = next((line for line in text.splitlines() if line.strip()), "")
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=max(",;\t", key=first.count))
    try:
        rows = [(lines.line_num, row) for row in lines if any(cell.strip() for cell in row)]
    except csv.Error as exc:
        raise JudgementsError(f"Line {lines.line_num} isn't CSV: {exc}.") from exc
    return _parse_rows(rows)


def _decode_text(data: bytes | str) -> str:
    if isinstance(data, str):
        return data.removeprefix("\ufeff")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise JudgementsError("The file is not UTF-8 text. Save it as “CSV UTF-8”.") from exc


def _parse_rows(rows: Sequence[tuple[int, list[str]]]) -> Mapping[str, _Case]:
    if not rows:
        raise JudgementsError("The file is empty.")
    columns = _find_columns(rows[0][1])
    cases: dict[str, _Case] = {}
    problems: list[str] = []
    for line, row in rows[1:]:
        try:
            cells = _cells(row, columns)
            query, document, grade = _parse_judgement(cells)
            case = cases.setdefault(query, _Case())
            _take_expectation(case, cells)
        except ValueError as error:
            problems.append(f"Line {line}: {error}")
            continue
        if document and case.grades.setdefault(document, grade) != grade:
            problems.append(f"Line {line}: an earlier line has another grade for this document and query")
    if problems:
        more = len(problems) - _MOST_PROBLEMS
        listed = [*problems[:_MOST_PROBLEMS], *([f"… and {more:,} more"] if more > 0 else [])]
        raise JudgementsError("Some lines are not valid.", listed)
    return _check_bounds(cases)


def _find_columns(heads: Sequence[str]) -> dict[str, int]:
    plain = ["".join(char for char in head.lower() if char.isalnum()) for head in heads]
    columns = {
        name: next(place for place, head in enumerate(plain) if head in known)
        for name, known in _HEADS.items()
        if any(head in known for head in plain)
    }
    if missing := [name for name in ("query", "document") if name not in columns]:
        msg = f"The first line must have the column names query, external id, and perhaps grade. Missing: {missing[0]}."
        raise JudgementsError(msg)
    return columns


def _cells(row: Sequence[str], columns: Mapping[str, int]) -> dict[str, str]:
    cells = {name: from_text(row[place]) if place < len(row) else "" for name, place in columns.items()}
    return {name: cell if name == "note" else cell.strip() for name, cell in cells.items()}


def _take_expectation(case: _Case, cells: Mapping[str, str]) -> None:
    """Add a line's expectations of the reply to a case. Raises ValueError."""
    statement, nothing, note = cells.get("statement", ""), cells.get("nothing", "").lower(), cells.get("note", "")
    if nothing not in _YES | _NO:
        raise ValueError(f"whether nothing answers must be yes or no, and is {nothing[:40]!r}")
    if len(statement) > wire.LONGEST_STATEMENT or "\0" in statement:
        raise ValueError(f"a statement has at most {wire.LONGEST_STATEMENT:,} characters, none of which is NUL")
    if len(note) > _LONGEST_NOTE or "\0" in note or (note and case.note and note != case.note):
        raise ValueError(f"a query has one note, of at most {_LONGEST_NOTE:,} characters, none of which is NUL")
    case.note = case.note or note
    case.nothing_answers |= nothing in _YES
    if statement:
        case.statements[statement] = None


def _parse_judgement(cells: Mapping[str, str]) -> tuple[str, str, int]:
    if not cells["query"] or (not cells["document"] and cells.get("grade")):
        raise ValueError("it needs a query and an external id")
    if len(cells["query"]) > _LONGEST_QUERY or "\0" in cells["query"]:
        raise ValueError("the query is longer than can be searched for, or has characters that can't be")
    if len(cells["document"]) > _LONGEST_ID:
        raise ValueError(f"an external id has at most {_LONGEST_ID:,} characters")
    return cells["query"], cells["document"], _parse_grade(cells.get("grade", ""))


def _parse_grade(text: str) -> int:
    msg = f"the grade must be a whole number, at most {wire.MOST_GRADE}, and is {text[:40]!r}"
    try:
        grade = int(text or 1)
    except ValueError:
        raise ValueError(msg) from None
    if grade > wire.MOST_GRADE:
        raise ValueError(msg)
    # In such files, grades below 0 are irrelevant, like 0.
    return max(grade, 0)


def _check_bounds(cases: Mapping[str, _Case]) -> Mapping[str, _Case]:
    if len(cases) > wire.MOST_CASES:
        msg = f"These are {len(cases):,} queries, and a set has at most {wire.MOST_CASES:,}. Leave some out."
        raise JudgementsError(msg)
    for query, case in cases.items():
        if len(case.grades) > wire.MOST_JUDGEMENTS:
            raise JudgementsError(f"A query has at most {wire.MOST_JUDGEMENTS} documents; “{query[:100]}” has more.")
        if len(case.statements) > wire.MOST_STATEMENTS:
            raise JudgementsError(f"A query has at most {wire.MOST_STATEMENTS} statements; “{query[:100]}” has more.")
    return cases
