"""How well the built-in model answers 100 questions: about the sample organization, and about a real handbook.

`answer_set.csv` has for each the document that answers it and words that the reply must have; both are empty where
nothing answers. The figures of a run are in docs/decisions/007-checked-replies.md. The floors below are a little lower,
so that a change that costs answers is seen.
"""

import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean

import pytest

from service.domains.answering import Reply
from tests.answering.asking import Library, a_library
from tests.answering.test_organization import loaded
from tests.harness.services import ServiceHarness
from tests.service.test_questions import HANDBOOK, MANIFEST, rows_of

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

QUESTIONS = rows_of(Path(__file__).parent / "answer_set.csv")
NAMES = {row["name"]: row["externalId"] for row in rows_of(MANIFEST)}
PATIENCE_SECONDS = 600

_CITED = re.compile(r" \[\d+\]\Z")


@dataclass(frozen=True)
class Figures:
    """What the replies to a set's questions are worth, each a share.

    `answered`, `cited` (the expected document) and `stated` (the expected words) are of the questions that have an
    answer, `refused` of the others; `precise` is the mean share of the cited documents that was expected, `grounded`
    the share of all quoted lines that stand in a passage which the reply cites.
    """

    answered: float
    cited: float
    stated: float
    refused: float
    precise: float
    grounded: float


def measure(rows: Sequence[dict[str, str]], replies: Sequence[Reply], document_of: Callable[[str], str]) -> Figures:
    """Return the figures of replies to questions; `document_of` gives the external id of a document's name."""
    asked = list(zip(rows, replies, strict=True))
    with_answer = [(row, reply) for row, reply in asked if row["document"]]
    cited = [
        {document_of(reply.passages[one.passage_no].document_name) for one in reply.citations}
        for _, reply in with_answer
    ]
    right = [row["document"] in documents for (row, _), documents in zip(with_answer, cited, strict=True)]
    return Figures(
        answered=fmean(bool(documents) for documents in cited),
        cited=fmean(right),
        stated=fmean(row["statement"] in _one_line(reply.text.replace("\n> ", " ")) for row, reply in with_answer),
        refused=fmean(not reply.citations for row, reply in asked if not row["document"]),
        precise=fmean(is_right / len(documents) for is_right, documents in zip(right, cited, strict=True) if documents),
        grounded=fmean(is_quoted for _, reply in asked for is_quoted in _quoted_lines(reply)),
    )


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _quoted_lines(reply: Reply) -> list[bool]:
    """Return for each quoted line of a reply whether it stands in a passage that the reply cites."""
    passages = [_one_line(reply.passages[one.passage_no].text) for one in reply.citations]
    lines = [line.removeprefix("> ") for line in reply.text.splitlines() if line.startswith("> ")]
    return [any(_one_line(_CITED.sub("", line)) in passage for passage in passages) for line in lines]


def check(corpus: str, figures: Figures, record: Callable[[str, object], None], **floors: float) -> None:
    """Record the figures in the tests' report (`--junitxml`), and hold them to their floors."""
    for name, value in asdict(figures).items():
        record(f"{corpus}.{name}", round(value, 3))
    low = {name: value for name, floor in floors.items() if (value := getattr(figures, name)) < floor}
    assert not low, figures


def ask_all(library: Library, corpus: str) -> tuple[list[dict[str, str]], list[Reply]]:
    """Ask the questions about a corpus as the admin."""
    rows = [row for row in QUESTIONS if row["corpus"] == corpus]
    return rows, [library.ask(row["question"]) for row in rows]


def test_the_set_has_a_hundred_questions_each_once() -> None:
    """An answer is expected with its words, or neither."""
    assert len({row["question"] for row in QUESTIONS}) == len(QUESTIONS) == 100
    assert all(bool(row["document"]) == bool(row["statement"]) for row in QUESTIONS)


def test_questions_about_the_sample_are_answered(
    service_harness: ServiceHarness, record_testsuite_property: Callable[[str, object], None]
) -> None:
    """Among them some whose words are far from those of their answers, and some that only look answerable."""
    with loaded(service_harness, whole=True) as library:
        rows, replies = ask_all(library, "sample")
    figures = measure(rows, replies, NAMES.__getitem__)
    check(
        "sample",
        figures,
        record_testsuite_property,
        answered=0.8,
        cited=0.8,
        stated=0.75,
        refused=0.9,
        precise=0.9,
        grounded=1.0,
    )


def test_questions_about_the_handbook_are_answered(
    service_harness: ServiceHarness, record_testsuite_property: Callable[[str, object], None]
) -> None:
    """Over the pages that answer and every fourth of its 250."""
    if not HANDBOOK.is_dir():
        pytest.skip(f"The handbook is not at {HANDBOOK}; CARREL_HANDBOOK says where it is.")
    service, stack = service_harness.start()
    try:
        service.http.timeout = PATIENCE_SECONDS
        library = a_library(service)
        paths = [path for path in sorted(HANDBOOK.rglob("*")) if path.suffix in {".md", ".docx"}]
        expected = [HANDBOOK / row["document"] for row in QUESTIONS if row["corpus"] == "handbook" and row["document"]]

        def load(path: Path) -> None:
            library.put(path.relative_to(HANDBOOK).as_posix(), path.read_bytes(), file_name=path.name)

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(load, dict.fromkeys([*expected, *paths[::4]])))
        rows, replies = ask_all(library, "handbook")
    finally:
        service_harness.stop(service, stack)
    figures = measure(rows, replies, str)
    check(
        "handbook",
        figures,
        record_testsuite_property,
        answered=0.9,
        cited=0.9,
        stated=0.85,
        refused=0.9,
        precise=0.85,
        grounded=1.0,
    )
