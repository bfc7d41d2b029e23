"""Answers over the sample organization use only readable documents."""

from collections.abc import Generator, Iterator
from contextlib import contextmanager

import pytest

from sample.organization import FOLDER, MANIFEST
from service.domains.agents.answering.models import Reply
from tests.answering.asking import NOTHING_ANSWERS, Library, a_library
from tests.harness.services import ServiceHarness
from tests.service.test_questions import SAMPLE_QUESTIONS, in_parallel, questions_of, rows_of

PERSON = "jonas@example.test"
NAMES = {row["name"]: row["externalId"] for row in rows_of(MANIFEST)}
PUBLIC = {row["externalId"] for row in rows_of(MANIFEST) if row["internalPublic"] == "true"}
QUESTIONS = questions_of(SAMPLE_QUESTIONS)

# Questions whose words are far from those of their answers; a model of words alone says that nothing answers, or quotes
# another document.
BEYOND = {
    "how rough may the sea be before we cancel",
    "where do I find an umbrella I left on board",
    "who offered to buy the company",
    "how long may somebody work without rest",
    "what punctuality did we promise the transport authority",
}


@contextmanager
def loaded(harness: ServiceHarness, *, whole: bool) -> Generator[Library]:
    rows = [row for row in rows_of(MANIFEST) if whole or row["externalId"] in PUBLIC]
    with harness.running() as service:
        library = a_library(service)
        library.person(PERSON)

        def load(row: dict[str, str]) -> None:
            library.put(
                row["externalId"],
                (FOLDER / row["path"]).read_bytes(),
                readers=None if row["externalId"] in PUBLIC else [],
                file_name=row["path"].rpartition("/")[2],
                documentName=row["name"],
            )

        in_parallel(load, rows)
        yield library


@pytest.fixture(scope="module")
def whole(service_harness: ServiceHarness) -> Iterator[Library]:
    with loaded(service_harness, whole=True) as library:
        yield library


def cited(reply: Reply) -> list[str]:
    return [NAMES[reply.passages[citation.passage_no].document_name] for citation in reply.citations]


@pytest.mark.timeout(900)
def test_questions_are_answered_from_their_documents(whole: Library) -> None:
    asked = [(question, document) for question, document in QUESTIONS if question not in BEYOND]
    assert [question for question, document in asked if document not in cited(whole.ask(question))] == []
    for question in ("What is the capital of France?", "How do I train a neural network?", "Who won the world cup?"):
        assert whole.ask(question).text == NOTHING_ANSWERS


@pytest.mark.timeout(900)
def test_what_a_person_may_not_read_might_as_well_not_exist(service_harness: ServiceHarness, whole: Library) -> None:
    """Replies are byte for byte equal to those of an organization with only public documents."""
    with loaded(service_harness, whole=False) as public:
        for question, document in QUESTIONS:
            among_all, alone = (library.ask(question, person=PERSON) for library in (whole, public))
            assert among_all.text == alone.text, question
            assert [each.quote for each in among_all.citations] == [each.quote for each in alone.citations]
            assert document in PUBLIC or document not in cited(among_all)
