"""People's questions find the right document in the top 3; people without access don't."""

import csv
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import TypeVar

import pytest

import carrel
from sample.organization import DIRECTORY, FOLDER, MANIFEST, set_up
from tests.harness.services import RunningService, ServiceHarness
from tests.properties.model import EVERYONE, Document, Model, Text, User

REPOSITORY = Path(__file__).parents[2]
HANDBOOK = Path(os.environ.get("CARREL_HANDBOOK", REPOSITORY.parent / "shared/data/handbook"))
HANDBOOK_QUESTIONS = Path(__file__).parent / "handbook_questions.csv"
SAMPLE_QUESTIONS = FOLDER / "questions.csv"
AT_ONCE = 4
EVERYTHING = 100
TOP = 3

T = TypeVar("T")
Made = TypeVar("Made")


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def questions_of(path: Path) -> list[tuple[str, str]]:
    return [(row["question"], row["document"]) for row in rows_of(path)]


@dataclass(frozen=True)
class Loaded:
    service: RunningService
    client: carrel.Carrel

    def search(self, query: str, *, as_user: str | None = None, mode: str = "HYBRID", most: int = 10) -> list[str]:
        found = self.client.search.search_document_catalog(query, user_email=as_user, max_results=most, mode=mode)
        return [result.document_external_id for result in found.results]


@contextmanager
def serving(harness: ServiceHarness) -> Iterator[Loaded]:
    with harness.running() as service, carrel.Carrel(service.api_key, base_url=service.base_url) as client:
        yield Loaded(service, client)


@pytest.fixture(scope="module")
def sample(service_harness: ServiceHarness) -> Iterator[Loaded]:
    with serving(service_harness) as loaded:
        set_up(loaded.client)
        groups = {group.name: group.id for group in loaded.client.admin.groups.list()}

        def load(row: dict[str, str]) -> None:
            loaded.client.catalog.upload_file(
                FOLDER / row["path"],
                document_external_id=row["externalId"],
                document_name=row["name"],
                custom_metadata=json.loads(row["metadata"]),
                allowed_users_email_addresses=listed(row["allowedUsers"]),
                allowed_group_ids=[groups[name] for name in listed(row["allowedGroups"])],
                internal_public=row["internalPublic"] == "true",
                await_vector_store_sync=True,
            )

        in_parallel(load, rows_of(MANIFEST))
        yield loaded


def in_parallel(load: Callable[[T], Made], items: Iterable[T]) -> list[Made]:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(load, items))


def listed(cell: str) -> list[str]:
    return [entry for entry in re.split("[,;]", cell) if entry]


def who_may_read() -> Model:
    directory = json.loads(DIRECTORY.read_text())
    model = Model(users={user["email"]: User() for user in directory["users"]})
    model.groups = {group["name"]: {*group["members"], *group.get("groups", ())} for group in directory["groups"]}
    for row in rows_of(MANIFEST):
        viewers = {*listed(row["allowedUsers"]), *listed(row["allowedGroups"])}
        if row["internalPublic"] == "true":
            viewers.add(EVERYONE)
        model.documents[row["externalId"]] = Document("admin", viewers, text=Text(row["name"], "", 0))
    return model


ALLOWED = who_may_read()
QUESTIONS = questions_of(SAMPLE_QUESTIONS)


@pytest.mark.timeout(900)
def test_questions_about_the_sample_find_their_documents(sample: Loaded) -> None:
    assert [question for question, document in QUESTIONS if document not in sample.search(question)[:TOP]] == []
    people = cycle(ALLOWED.users)
    for question, document in QUESTIONS:
        for person in islice(people, 3):
            found = sample.search(question, as_user=person, most=EVERYTHING)
            assert (document in found) == (document in ALLOWED.readable(person)), (question, person)
            assert set(found) <= ALLOWED.readable(person).keys()


def test_a_person_finds_exactly_what_the_manifest_lets_them_read(sample: Loaded) -> None:
    """Semantic search ranks all documents, finding exactly the readable documents."""
    for person in ALLOWED.users:
        found = sample.search("the ferry", as_user=person, mode="SEMANTIC", most=EVERYTHING)
        assert sorted(found) == sorted(ALLOWED.readable(person)), person


@pytest.mark.parametrize("mode", ["HYBRID", "LEXICAL"])
def test_an_outsider_sees_nothing_of_what_is_confidential(sample: Loaded, mode: str) -> None:
    """Jonas, an apprentice, is in no group."""
    jonas = "jonas.abara@northlight.example"
    rows = rows_of(MANIFEST)
    readable = ALLOWED.readable(jonas)
    assert {row["externalId"] for row in rows if row["internalPublic"] == "true"} == readable.keys()
    hidden = [row["name"] for row in rows if row["externalId"] not in readable]
    for question in (*hidden, *(question for question, _ in QUESTIONS)):
        results = sample.client.search.search_document_catalog(
            question, user_email=jonas, max_results=EVERYTHING, mode=mode
        ).results
        assert {result.document_external_id for result in results} <= readable.keys()
        assert {result.document_name for result in results}.isdisjoint(hidden)


def handbook_pages(share: int, expected: Iterable[str]) -> list[Path]:
    if not HANDBOOK.is_dir():
        pytest.skip(f"The handbook is not at {HANDBOOK}; CARREL_HANDBOOK says where it is.")
    pages = [path for path in sorted(HANDBOOK.rglob("*")) if path.suffix in {".md", ".docx"}]
    return list(dict.fromkeys([*(HANDBOOK / page for page in expected), *pages[::share]]))


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("share", [pytest.param(4, marks=pytest.mark.slow), pytest.param(1, marks=pytest.mark.long)])
def test_questions_about_the_handbook_find_their_documents(service_harness: ServiceHarness, share: int) -> None:
    questions = questions_of(HANDBOOK_QUESTIONS)
    with serving(service_harness) as handbook:

        def load(path: Path) -> None:
            handbook.client.catalog.upload_file(
                path, document_external_id=path.relative_to(HANDBOOK).as_posix(), await_vector_store_sync=True
            )

        in_parallel(load, handbook_pages(share, (page for _, page in questions)))
        handbook.client.admin.users.upsert([{"email": "reader@example.test"}])
        assert [question for question, page in questions if page not in handbook.search(question)[:TOP]] == []
        for question, _ in questions:
            assert handbook.search(question, as_user="reader@example.test", most=EVERYTHING) == []
