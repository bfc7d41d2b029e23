"""Whatever happens to users, groups, grants, documents and collections: what is seen is what a plain model says."""

from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import replace
from itertools import count
from random import Random
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.harness.services import RunningService
from tests.properties.model import EDITOR, EVERYONE, VIEWER, Model, Text, User, outcome
from tests.properties.world import ADMIN, MODES, World, outcome_of, words_in

STEPS_AN_EXAMPLE = 50
# So many documents of so many parts that a search shows all of their chunks.
MOST_USERS, MOST_GROUPS, MOST_DOCUMENTS, MOST_COLLECTIONS = 6, 6, 9, 3
PARTS = (1, 1, 2, 9)
PAGE_SIZES = (3, 7, 2, 5)

# A user, or anybody who is able if that user is not: without these, most of what is tried would be refused.
Actor = tuple[str, bool]

COMMON = settings(
    stateful_step_count=STEPS_AN_EXAMPLE,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
    print_blob=False,
    # A failing example is short enough to be read, and a step too slow to shrink it.
    phases=[Phase.generate],
)


class Permissions(RuleBasedStateMachine):
    """Does the same to the service and to the model, and compares what each of the users sees."""

    users = Bundle("users")
    groups = Bundle("groups")
    documents = Bundle("documents")
    collections = Bundle("collections")
    actors = st.tuples(users, st.sampled_from((True, True, False)))
    members = st.lists(st.one_of(users, groups), max_size=3)
    some_members = st.lists(st.one_of(users, groups), min_size=1, max_size=3)
    readers = st.none() | st.lists(st.one_of(users, groups, st.just(EVERYONE)), max_size=3)
    granted = st.tuples(st.one_of(users, groups), st.sampled_from((VIEWER, VIEWER, EDITOR)))
    grants = st.lists(st.one_of(granted, granted, st.just((EVERYONE, VIEWER))), max_size=3)
    resources = st.one_of(documents, documents, collections)

    def __init__(self, service: RunningService, walked: Callable[[], object]) -> None:
        super().__init__()
        self.world = World(service)
        self.model = Model(users={ADMIN: User(is_admin=True)})
        self.markers: set[str] = set()
        self.titles: set[str] = set()
        self.numbers = count(1)
        # The same for the same example, so that it fails again when it is run again.
        self.chance = Random(0)  # noqa: S311
        self.steps = 0
        self.walked = walked
        people = [self.create_user() for _ in range(3)]
        inner = self.create_group(people[:1])
        middle = self.create_group([inner])
        outer = self.create_group([middle, people[1]])
        self.upload_new((ADMIN, True), 1, [outer])
        self.create_collection((ADMIN, True))

    @initialize(target=users)
    def begin_with_people(self) -> Any:
        """An admin and three others."""
        return multiple(*self.model.users)

    @initialize(target=groups)
    def begin_with_groups(self) -> Any:
        """A chain of three groups with a user at its end."""
        return multiple(*self.model.groups)

    @initialize(target=documents)
    def begin_with_a_document(self) -> Any:
        """One that the whole chain may read."""
        return multiple(*self.model.documents)

    @initialize(target=collections)
    def begin_with_a_collection(self) -> Any:
        """One that nobody but the admin may search."""
        return multiple(*self.model.collections)

    def a_marker(self) -> str:
        """A word that was never used before, and is no part of another."""
        self.markers.add(made := f"marker{next(self.numbers):04d}x")
        return made

    def a_title(self) -> str:
        """The same for titles."""
        self.titles.add(made := f"title{next(self.numbers):04d}x")
        return made

    def done(self, expected: tuple[int, str | None], response: httpx.Response) -> None:
        """The service did, or refused, what the model did or refused."""
        assert outcome_of(response) == expected, response.text

    def somebody(self, actor: Actor, work: str, *args: Any, **options: Any) -> str:
        """The user who is to do something."""
        named, or_anybody = actor
        for user in (named, *self.model.users) if or_anybody else ():
            if outcome(getattr(deepcopy(self.model), work), user, *args, **options)[0] == 200:
                return user
        return named

    def there(self, actor: Actor, named: str, those: Iterable[str]) -> str:
        """The document or collection named; another one when it is gone, and anybody may act."""
        existing = sorted(those)
        if named in existing or not existing or not actor[1]:
            return named
        return existing[sum(map(ord, named)) % len(existing)]

    # People.

    @precondition(lambda self: len(self.model.users) < MOST_USERS)
    @rule(target=users)
    def create_user(self) -> str:
        """Another user."""
        name = f"u{len(self.model.users)}@example.test"
        self.world.put_user(name)
        self.model.users[name] = User()
        return name

    @rule(user=users, active=st.booleans(), is_admin=st.booleans())
    def change_user(self, user: str, active: bool, is_admin: bool) -> None:
        """Deactivate, reactivate, make an admin or no admin; the first admin stays one."""
        if user != ADMIN:
            self.world.put_user(user, active=active, isAdmin=is_admin and active)
            self.model.users[user] = User(active, is_admin and active)

    @precondition(lambda self: len(self.model.groups) < MOST_GROUPS)
    @rule(target=groups, members=members)
    def create_group(self, members: list[str]) -> str:
        """Another group, of users and groups."""
        name = f"group {len(self.model.groups)}"
        self.world.put_group(name, members)
        self.model.groups[name] = set(members)
        return name

    @rule(group=groups, members=members)
    def replace_members(self, group: str, members: list[str]) -> None:
        """Give a group other members; it may be among them."""
        self.world.put_group(group, members)
        self.model.groups[group] = set(members)

    @rule(group=groups, members=some_members)
    def add_members(self, group: str, members: list[str]) -> None:
        """Add members to a group; cycles are welcome."""
        self.world.change_members("addMembers", group, members)
        self.model.groups[group] |= set(members)

    @rule(group=groups, members=some_members)
    def remove_members(self, group: str, members: list[str]) -> None:
        """Remove members from a group, some of which may not be in it."""
        self.world.change_members("removeMembers", group, members)
        self.model.groups[group] -= set(members)

    # Documents.

    @precondition(lambda self: len(self.model.documents) < MOST_DOCUMENTS)
    @rule(target=documents, actor=actors, parts=st.sampled_from(PARTS), readers=readers)
    def upload_new(self, actor: Actor, parts: int, readers: list[str] | None) -> Any:
        """A new document, by an active user."""
        name = f"log/{next(self.numbers)}"
        self.upload(actor, name, Text(self.a_title(), self.a_marker(), parts), readers=readers)
        return name if name in self.model.documents else multiple()

    @rule(
        actor=actors,
        document=documents,
        parts=st.sampled_from(PARTS),
        readers=readers,
        reindex=st.booleans(),
    )
    def upload_other_contents(
        self, actor: Actor, document: str, parts: int, readers: list[str] | None, reindex: bool
    ) -> None:
        """Other contents, with or without access parts, for an old document or again for a deleted one."""
        if document not in self.model.documents and len(self.model.documents) == MOST_DOCUMENTS:
            return
        title = self.model.documents[document].text.title if document in self.model.documents else self.a_title()
        text = Text(title, self.a_marker(), parts)
        self.upload(actor, document, text, readers=readers, reindex=reindex)

    @rule(actor=actors, document=documents)
    def rename(self, actor: Actor, document: str) -> None:
        """The same contents under another name."""
        document = self.there(actor, document, self.model.documents)
        if document in self.model.documents:
            text = replace(self.model.documents[document].text, title=self.a_title())
            self.upload(actor, document, text)

    @rule(actor=actors, document=documents, readers=readers)
    def upload_other_access(self, actor: Actor, document: str, readers: list[str] | None) -> None:
        """The same contents with or without access parts."""
        document = self.there(actor, document, self.model.documents)
        if document in self.model.documents:
            self.upload(actor, document, self.model.documents[document].text, readers=readers)

    @rule(actor=actors, document=documents, collection=collections, anew=st.booleans(), reindex=st.booleans())
    def upload_into_collection(self, actor: Actor, document: str, collection: str, anew: bool, reindex: bool) -> None:
        """The same or other contents, into a collection at once."""
        document = self.there(actor, document, self.model.documents)
        collection = self.there(actor, collection, self.model.collections)
        if document in self.model.documents:
            text = self.model.documents[document].text
            text = replace(text, marker=self.a_marker()) if anew else text
            self.upload(actor, document, text, collection=collection, reindex=reindex)

    def upload(
        self,
        actor: Actor,
        document: str,
        text: Text,
        *,
        readers: list[str] | None = None,
        collection: str | None = None,
        reindex: bool = True,
    ) -> None:
        """Upload to both."""
        how: dict[str, Any] = {"readers": readers, "collection": collection, "reindex": reindex}
        user = self.somebody(actor, "upload", document, text, **how)
        expected = outcome(self.model.upload, user, document, text, **how)
        self.done(expected, self.world.upload(user, document, text, **how))

    @precondition(lambda self: len(self.model.documents) > 2)
    @rule(actor=actors, document=documents)
    def delete_document(self, actor: Actor, document: str) -> None:
        """Delete a document."""
        document = self.there(actor, document, self.model.documents)
        user = self.somebody(actor, "delete_document", document)
        expected = outcome(self.model.delete_document, user, document)
        self.done(
            expected, self.world.call("catalog/deleteDocument", user, documentId=self.world.document_id(document))
        )

    # Grants.

    @rule(resource=resources, given=grants)
    def grant(self, resource: str, given: list[tuple[str, str]]) -> None:
        """Replace the grants on one resource."""
        self.done(outcome(self.model.grant, {resource: given}), self.world.grant({resource: given}))

    @rule(several=st.lists(st.tuples(resources, grants), min_size=2, max_size=4))
    def grant_many(self, several: list[tuple[str, list[tuple[str, str]]]]) -> None:
        """Replace the grants on several resources, all or none."""
        given = dict(several)
        self.done(outcome(self.model.grant, given), self.world.grant(given))

    # Collections.

    @precondition(lambda self: len(self.model.collections) < MOST_COLLECTIONS)
    @rule(target=collections, actor=actors)
    def create_collection(self, actor: Actor) -> Any:
        """Another collection."""
        name = f"collection {next(self.numbers)}"
        user = self.somebody(actor, "create_collection", name)
        expected = outcome(self.model.create_collection, user, name)
        self.done(expected, self.world.create_collection(user, name))
        return name if name in self.model.collections else multiple()

    @rule(actor=actors, document=documents, collection=collections)
    def add_to_collection(self, actor: Actor, document: str, collection: str) -> None:
        """Add a document to a collection."""
        document = self.there(actor, document, self.model.documents)
        collection = self.there(actor, collection, self.model.collections)
        user = self.somebody(actor, "index_in_collection", document, collection, again=False)
        expected = outcome(self.model.index_in_collection, user, document, collection, again=False)
        how = {"customMetadata": {}}
        self.done(expected, self.world.in_collection("addDocumentToCollection", user, document, collection, **how))

    @rule(actor=actors, document=documents, collection=collections)
    def reindex_in_collection(self, actor: Actor, document: str, collection: str) -> None:
        """Index a document in a collection again."""
        document = self.there(actor, document, self.model.documents)
        collection = self.there(actor, collection, self.model.collections)
        user = self.somebody(actor, "index_in_collection", document, collection, again=True)
        expected = outcome(self.model.index_in_collection, user, document, collection, again=True)
        self.done(expected, self.world.in_collection("reindexDocumentInCollection", user, document, collection))

    @rule(actor=actors, document=documents, collection=collections)
    def remove_from_collection(self, actor: Actor, document: str, collection: str) -> None:
        """Remove a document from a collection."""
        document = self.there(actor, document, self.model.documents)
        collection = self.there(actor, collection, self.model.collections)
        user = self.somebody(actor, "remove_from_collection", document, collection)
        expected = outcome(self.model.remove_from_collection, user, document, collection)
        self.done(expected, self.world.in_collection("removeDocumentFromCollection", user, document, collection))

    @precondition(lambda self: len(self.model.collections) == MOST_COLLECTIONS)
    @rule(actor=actors, collection=collections)
    def delete_collection(self, actor: Actor, collection: str) -> None:
        """Delete a collection."""
        collection = self.there(actor, collection, self.model.collections)
        user = self.somebody(actor, "delete_collection", collection)
        expected = outcome(self.model.delete_collection, user, collection)
        members = {"documentCollectionId": self.world.collection_ids[collection]}
        self.done(expected, self.world.call("documentCollections/deleteDocumentCollection", user, **members))

    # What is seen.

    @invariant()
    def one_user_sees_what_the_model_says(self) -> None:
        """After every step some user looks, in some mode, through pages of some size."""
        self.steps += 1
        self.walked()
        user, mode, page_size = map(self.chance.choice, (sorted(self.model.users), MODES, PAGE_SIZES))
        if not self.model.users[user].active:
            refusal = self.world.call("catalog/listDocuments", user)
            assert outcome_of(refusal) == (400, "unknown_user")
            user = ADMIN
        self.check_catalog_search(user, mode)
        self.check_collection_search(user, self.chance.choice(sorted(self.world.collection_ids)), mode)
        if self.chance.random() < 0.5:
            self.check_lists(user, page_size)
            return
        if documents := sorted(self.model.documents):
            self.check_document(user, self.chance.choice(documents))
        if resources := sorted({**self.model.documents, **self.model.collections}):
            self.check_readers(self.chance.choice(resources), page_size)

    @rule(mode=st.sampled_from(MODES))
    def everybody_sees_what_the_model_says(self, mode: str) -> None:
        """Now and then everybody looks at everything."""
        for user in sorted(name for name, user in self.model.users.items() if user.active):
            self.check_catalog_search(user, mode)
            for collection in self.world.collection_ids:
                self.check_collection_search(user, collection, mode)
            self.check_lists(user, 4)
        for resource in (*self.model.documents, *self.model.collections):
            self.check_readers(resource, 4)

    def check_catalog_search(self, user: str, mode: str) -> None:
        """A search that fits every document finds those the user may read; one for what is gone finds nothing."""
        readable = self.model.readable(user)
        markers = [document.text.marker for document in self.model.documents.values()]
        results = self.world.search_catalog(user, " ".join(["harbour", *markers]), mode)
        found = {each["documentExternalId"]: each for each in results}
        assert len(found) == len(results)
        assert {name: each["documentName"] for name, each in found.items()} == {
            name: text.title for name, text in readable.items()
        }
        for name, text in readable.items():
            assert text.marker in found[name]["snippet"]["text"]
        self.check_silence(results, readable.values())
        # The words of a document's former name still count in its index until it has other contents; not so these.
        gone = sorted(self.markers - set(markers))[-100:]
        if gone and mode == "LEXICAL":
            assert self.world.search_catalog(user, " ".join(gone), mode) == []

    def check_collection_search(self, user: str, collection: str, mode: str) -> None:
        """The same in a collection, chunk by chunk; one that the user has no role in is unknown."""
        exists = self.model.collections.get(collection)
        markers = [text.marker for text in exists.places.values()] if exists else []
        response = self.world.search_collection(user, collection, " ".join(["harbour", *markers]), mode)
        if collection not in self.model.searchable(user):
            assert outcome_of(response) == (404, "collection_not_found")
            return
        readable = self.model.readable_in(user, collection)
        results = response.raise_for_status().json()["results"]
        found = {each["documentExternalId"]: each for each in results}
        assert len(found) == len(results)
        assert {name: (each["documentName"], len(each["chunks"])) for name, each in found.items()} == {
            name: (text.title, text.parts) for name, text in readable.items()
        }
        for name, text in readable.items():
            assert all(text.marker in chunk["text"] for chunk in found[name]["chunks"])
        self.check_silence(results, readable.values())

    def check_lists(self, user: str, page_size: int) -> None:
        """What the user may read, know of and search is listed, each once."""
        asked = {"action": "READ", "page_size": page_size}
        listed = self.world.walk("permissions/listAuthorizedResources", user, **asked)
        names = {*self.model.documents, *self.model.collections}
        readable, searchable = self.model.readable(user), self.model.searchable(user)
        assert sorted(self.world.resource_names(listed, names)) == sorted([*readable, *searchable])
        known = self.model.known(user)
        documents = self.world.walk("catalog/listDocuments", user, page_size=page_size)
        assert sorted((each["documentExternalId"], each["documentName"]) for each in documents) == sorted(
            (name, text.title) for name, text in known.items()
        )
        self.check_silence(documents, known.values())
        collections = self.world.walk("documentCollections/listDocumentCollections", user, page_size=page_size)
        shown = {each["collectionName"]: (each["documentCount"], each["role"]) for each in collections}
        assert shown == {
            name: (len(self.model.readable_in(user, name)), self.model.role(user, self.model.collections[name]))
            for name in searchable
        }

    def check_readers(self, resource: str, page_size: int) -> None:
        """Whoever may read a resource is listed, each once."""
        asked = {"resource": self.world.resource(resource), "action": "READ", "page_size": page_size}
        listed = self.world.walk("permissions/listAuthorizedPrincipalsForResource", **asked)
        expected = self.model.readers({**self.model.documents, **self.model.collections}[resource])
        assert sorted(self.world.principal_names(listed)) == sorted(expected)

    def check_document(self, user: str, document: str) -> None:
        """A document, its file and its chunks are there for those who may know or read it, and for nobody else."""
        named = {"documentId": self.world.document_id(document)}
        text = self.model.documents[document].text
        known, readable = document in self.model.known(user), document in self.model.readable(user)
        shown = self.world.call("catalog/getDocument", user, **named)
        assert outcome_of(shown) == ((200, None) if known else (404, "document_not_found"))
        self.check_silence(shown.json(), [text] if known else [])
        file = self.world.call("catalog/downloadDocument", user, **named)
        assert file.status_code == (200 if readable else 404)
        assert (text.marker in file.text) == readable
        chunks = self.world.call("documentCollections/getDocumentChunks", user, pageSize=100, **named)
        assert chunks.status_code == (200 if readable else 404)
        assert chunks.text.count(text.marker) == (text.parts if readable else 0)
        alone = self.world.search_catalog(user, text.marker, "LEXICAL")
        assert [each["documentExternalId"] for each in alone] == ([document] if readable else [])

    def check_silence(self, shown: Any, texts: Iterable[Text]) -> None:
        """No word of any other document, nor of what a document once said, is shown."""
        assert words_in(shown, (self.markers | self.titles) - _words(texts)) == set()


def _words(texts: Iterable[Text]) -> set[str]:
    return {word for text in texts for word in text.words}


def test_what_is_seen_is_what_the_model_says(service: RunningService) -> None:
    """The same few examples every time: the first steps on every way, quick enough for each change."""
    profile = settings(COMMON, max_examples=9, derandomize=True)
    run_state_machine_as_test(lambda: Permissions(service, lambda: None), settings=profile)


@pytest.mark.long
@pytest.mark.timeout(4 * 3600)
def test_what_is_seen_is_what_the_model_says_for_ten_thousand_steps(service: RunningService) -> None:
    """New examples every time, 10,000 steps of them."""
    steps = count(1)
    taken = 0

    def walked() -> None:
        nonlocal taken
        taken = next(steps)

    profile = settings(COMMON, max_examples=20)
    while taken < 10_000:
        run_state_machine_as_test(lambda: Permissions(service, walked), settings=profile)
