"""Questions about a real handbook are answered from the right page, and only for its readers."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from service.domains.agents.answering.models import Reply
from tests.answering.asking import ADMIN, NOTHING_ANSWERS, Library, a_library
from tests.harness.documents import ok
from tests.service.test_questions import HANDBOOK, handbook_pages, in_parallel, rows_of

# The same is asked of the sample organization for each change (test_organization.py).
pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

# The first of the set's questions about the handbook: each is asked four times.
ANSWERS = [row for row in rows_of(Path(__file__).parent / "answer_set.csv") if row["corpus"] == "handbook"][:15]
PAGES = {row["document"] for row in ANSWERS}
PATIENCE_SECONDS = 600
OUTSIDER, INSIDER = "outsider@example.test", "insider@example.test"


@dataclass(frozen=True)
class Replies:
    """The replies to every question: to the admin, to a person without access, to a person with access to all but the
    answering pages (`insider`), and to the same person after these pages are deleted (`without`)."""

    admin: dict[str, Reply]
    outsider: dict[str, Reply]
    insider: dict[str, Reply]
    without: dict[str, Reply]


@pytest.fixture(scope="module")
def replies(service_harness) -> Iterator[Replies]:
    """Ask all questions over the answering pages and every fourth of the handbook's 250 pages in a collection."""
    with service_harness.running() as service:
        service.http.timeout = PATIENCE_SECONDS
        yield _asked(a_library(service))


def _asked(library: Library) -> Replies:
    library.person(OUTSIDER)
    library.person(INSIDER)

    def load(path: Path) -> tuple[str, str]:
        page = path.relative_to(HANDBOOK).as_posix()
        readers = [] if page in PAGES else [INSIDER]
        return page, library.put(page, path.read_bytes(), readers=readers, file_name=path.name)

    documents = dict(in_parallel(load, handbook_pages(4, PAGES)))
    admin, outsider, insider = (_all_asked(library, person) for person in (ADMIN, OUTSIDER, INSIDER))
    for page in PAGES:
        ok(library.service.call("catalog/deleteDocument", {"documentId": documents[page]}))
    return Replies(admin, outsider, insider, without=_all_asked(library, INSIDER))


def _all_asked(library: Library, person: str) -> dict[str, Reply]:
    return {row["question"]: library.ask(row["question"], person=person) for row in ANSWERS}


def test_the_right_page_is_quoted_and_cited(replies: Replies) -> None:
    for row in ANSWERS:
        reply = replies.admin[row["question"]]
        quoted = [(reply.passages[each.passage_no].document_name, each.quote) for each in reply.citations]
        assert 1 <= len(quoted) <= 3, row
        assert any(name == row["document"] and row["statement"] in quote for name, quote in quoted), (row, quoted)
        assert all(each.quote in reply.passages[each.passage_no].text for each in reply.citations)


def test_who_may_read_nothing_is_told_that_nothing_answers(replies: Replies) -> None:
    for question, reply in replies.outsider.items():
        assert (reply.text, list(reply.passages), list(reply.citations)) == (NOTHING_ANSWERS, [], []), question


def test_a_page_one_may_not_read_might_as_well_not_exist(replies: Replies) -> None:
    """Replies are byte for byte equal to replies after the page's deletion."""
    for row in ANSWERS:
        insider, without = replies.insider[row["question"]], replies.without[row["question"]]
        assert insider.text == without.text
        assert [each.quote for each in insider.citations] == [each.quote for each in without.citations]
        assert row["document"] not in {passage.document_name for passage in insider.passages}
        assert row["statement"] not in insider.text
