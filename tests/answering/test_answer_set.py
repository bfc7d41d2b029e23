"""The built-in model's answers to 100 questions about the sample organization and a real handbook. `answer_set.csv` has
each question's document and required words; both are empty without an answer. The figures are in
docs/decisions/007-checked-replies.md; the floors are a little lower, to show lost answers."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean

import pytest

from carrel.evaluation import find_unsaid
from service.domains.agents.answering.grounding import measure_groundedness
from service.domains.agents.answering.models import Reply
from service.domains.agents.answering.phrases import PHRASES
from tests.answering.asking import Library, a_library
from tests.answering.test_organization import NAMES, loaded
from tests.service.test_questions import HANDBOOK, handbook_pages, in_parallel, rows_of

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

QUESTIONS = rows_of(Path(__file__).parent / "answer_set.csv")
PATIENCE_SECONDS = 600


@dataclass(frozen=True)
class Figures:
    """The scores of replies to a set's questions, like a run over an evaluation set, except that `recall` and
    `precision` are of the expected document."""

    answered: float
    recall: float
    precision: float
    statements_said: float
    refused: float
    groundedness: float


def measure(rows: Sequence[dict[str, str]], replies: Sequence[Reply], document_of: Callable[[str], str]) -> Figures:
    asked = list(zip(rows, replies, strict=True))
    with_answer = [(row, reply) for row, reply in asked if row["document"]]
    cited = [
        {document_of(reply.passages[one.passage_no].document_name) for one in reply.citations}
        for _, reply in with_answer
    ]
    right = [row["document"] in documents for (row, _), documents in zip(with_answer, cited, strict=True)]
    supported = [groundedness_of(reply) for reply in replies]
    return Figures(
        answered=fmean(bool(documents) for documents in cited),
        recall=fmean(right),
        precision=fmean(one / len(documents) for one, documents in zip(right, cited, strict=True) if documents),
        statements_said=fmean(not find_unsaid(reply.text, [row["statement"]]) for row, reply in with_answer),
        refused=fmean(
            not reply.citations or reply.text.startswith(PHRASES["en"].closest)
            for row, reply in asked
            if not row["document"]
        ),
        groundedness=fmean(one for one in supported if one is not None),
    )


def groundedness_of(reply: Reply) -> float | None:
    cited = {number: reply.passages[one.passage_no].text for number, one in enumerate(reply.citations, 1)}
    return measure_groundedness(reply.text, cited)


def check(corpus: str, figures: Figures, record: Callable[[str, object], None], **floors: float) -> None:
    for name, value in asdict(figures).items():
        record(f"{corpus}.{name}", round(value, 3))
    low = {name: value for name, floor in floors.items() if (value := getattr(figures, name)) < floor}
    assert not low, figures


def ask_all(library: Library, corpus: str) -> tuple[list[dict[str, str]], list[Reply]]:
    rows = [row for row in QUESTIONS if row["corpus"] == corpus]
    return rows, [library.ask(row["question"]) for row in rows]


def test_the_set_has_a_hundred_questions_each_once() -> None:
    assert len({row["question"] for row in QUESTIONS}) == len(QUESTIONS) == 100
    assert all(bool(row["document"]) == bool(row["statement"]) for row in QUESTIONS)


def test_questions_about_the_sample_are_answered(service_harness, record_testsuite_property) -> None:
    with loaded(service_harness, whole=True) as library:
        rows, replies = ask_all(library, "sample")
    figures = measure(rows, replies, NAMES.__getitem__)
    check(
        "sample",
        figures,
        record_testsuite_property,
        answered=0.8,
        recall=0.8,
        precision=0.9,
        statements_said=0.75,
        refused=0.9,
        groundedness=0.95,
    )


def test_questions_about_the_handbook_are_answered(service_harness, record_testsuite_property) -> None:
    answering = [row["document"] for row in QUESTIONS if row["corpus"] == "handbook" and row["document"]]
    pages = handbook_pages(4, answering)
    with service_harness.running() as service:
        service.http.timeout = PATIENCE_SECONDS
        library = a_library(service)

        def load(path: Path) -> None:
            library.put(path.relative_to(HANDBOOK).as_posix(), path.read_bytes(), file_name=path.name)

        in_parallel(load, pages)
        rows, replies = ask_all(library, "handbook")
    figures = measure(rows, replies, str)
    check(
        "handbook",
        figures,
        record_testsuite_property,
        answered=0.9,
        recall=0.9,
        precision=0.85,
        statements_said=0.85,
        refused=0.9,
        groundedness=0.95,
    )
