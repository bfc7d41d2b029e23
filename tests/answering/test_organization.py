"""Over the sample organization: answers come from what a person may read, and are the same as if there were no more."""

from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from sample.organization import FOLDER, MANIFEST
from tests.answering.asking import NOTHING_ANSWERS, Library, a_library
from tests.harness.services import ServiceHarness
from tests.service.test_questions import SAMPLE_QUESTIONS, questions_of, rows_of

PERSON = "jonas@example.test"
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


@dataclass(frozen=True)
class Organizations:
    """The whole one, and one that has nothing but what everybody may read."""

    whole: Library
    public: Library


@contextmanager
def loaded(harness: ServiceHarness, *, whole: bool) -> Generator[Library]:
    """An organization with the sample's documents; a person who may read what everybody may."""
    service, stack = harness.start()
    library = a_library(service)
    library.person(PERSON)
    rows = [row for row in rows_of(MANIFEST) if whole or row["externalId"] in PUBLIC]

    def load(row: dict[str, str]) -> None:
        library.put(
            row["externalId"],
            (FOLDER / row["path"]).read_bytes(),
            readers=None if row["externalId"] in PUBLIC else [],
            file_name=row["path"].rpartition("/")[2],
            documentName=row["name"],
        )

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(load, rows))
    yield library
    harness.stop(service, stack)


@pytest.fixture(scope="module")
def organizations(service_harness: ServiceHarness) -> Iterator[Organizations]:
    """Both."""
    with loaded(service_harness, whole=True) as whole, loaded(service_harness, whole=False) as public:
        yield Organizations(whole, public)


def cited(library: Library, question: str, *, person: str = "") -> list[str]:
    """The documents that a reply cites."""
    reply = library.ask(question, person=person)
    names = {row["name"]: row["externalId"] for row in rows_of(MANIFEST)}
    return [names[reply.passages[citation.passage_no].document_name] for citation in reply.citations]


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("question", "document"), [each for each in QUESTIONS if each[0] not in BEYOND])
def test_a_question_is_answered_from_its_document(organizations: Organizations, question: str, document: str) -> None:
    """By quotes from it, for the admin, who may read everything."""
    assert document in cited(organizations.whole, question)


@pytest.mark.parametrize(("question", "document"), QUESTIONS)
def test_what_a_person_may_not_read_might_as_well_not_exist(
    organizations: Organizations, question: str, document: str
) -> None:
    """The reply to them is byte for byte that of an organization without it."""
    whole, public = (library.ask(question, person=PERSON) for library in (organizations.whole, organizations.public))
    assert whole.text == public.text
    assert [each.quote for each in whole.citations] == [each.quote for each in public.citations]
    if document not in PUBLIC:
        assert document not in cited(organizations.whole, question, person=PERSON)


def test_nothing_of_what_is_off_the_subject_is_answered(organizations: Organizations) -> None:
    """For the admin, over everything."""
    for question in ("What is the capital of France?", "How do I train a neural network?", "Who won the world cup?"):
        assert organizations.whole.ask(question).text == NOTHING_ANSWERS
