"""The service's answers compared with the model: to each caller, and to admins who ask about people."""

from collections import Counter
from collections.abc import Iterable
from random import Random
from typing import Any

from tests.properties.model import ADMINISTERING, EVERYONE, MESSAGING, READING, VIEWER, WRITING, Model, Text, outcome
from tests.properties.world import ADMIN, World, outcome_of, words_in

SCOPES = (READING, WRITING, MESSAGING)
READ_BY = (
    ("catalog/listDocuments", {}),
    ("documentCollections/listDocumentCollections", {}),
    ("permissions/listAuthorizedResources", {"action": "READ"}),
    ("search/searchDocumentCatalog", {"searchQuery": "harbour"}),
)
# One endpoint that each scope opens; an admin's are never among those that a token reaches.
OPENED = {READING: "search/searchDocumentCatalog", WRITING: "catalog/uploadFile", MESSAGING: "copilots/sendMessage"}


class Comparisons:
    """The service and the model; `chance` makes random choices."""

    world: World
    model: Model
    chance: Random
    markers: set[str]
    titles: set[str]

    # What somebody sees: a user, or whoever a credential belongs to.

    def check_entry(self, by: str) -> None:
        if by not in self.model.credentials or self.chance.random() < 1 / 3:
            operation, body = self.chance.choice(READ_BY)
            assert outcome_of(self.world.call(operation, by, **body)) == outcome(self.model.enter, by, READING)
        elif self.chance.random() < 1 / 2:
            self.check_plan(by)
        else:
            asked = self.world.call("admin/groups/list", by)
            assert outcome_of(asked) == outcome(self.model.enter, by, ADMINISTERING)

    def check_plan(self, by: str) -> None:
        names = [*self.model.documents, "log/never"]
        planned = [{"documentExternalId": name, "fingerprint": "another"} for name in names]
        response = self.world.call("catalog/planUpload", by, documents=planned)
        expected = outcome(self.model.enter, by, WRITING)
        assert outcome_of(response) == expected, response.text
        if expected[0] != 200:
            return
        editable = self.model.editable(self.model.enter(by, WRITING))
        assert {each["documentExternalId"]: each["action"] for each in response.json()["documents"]} == {
            name: "UPDATE" if name in editable else "FORBIDDEN" if name in self.model.documents else "CREATE"
            for name in names
        }

    def check_catalog_search(self, by: str, mode: str) -> None:
        readable = self.model.readable(self.model.enter(by, READING))
        markers = [document.text.marker for document in self.model.documents.values()]
        query = " ".join(["harbour", *markers])
        if mode == "SEMANTIC":
            answer = self.world.search_catalog(by, query, mode, literalQuery=True).raise_for_status().json()
            left_out = readable.keys() - {each["documentExternalId"] for each in answer["results"]}
            assert len(left_out) <= answer["applied"].get("withoutMeaning", 0) <= len(readable)
            self.world.finish_indexing()
        results = self.find(by, query, mode, literalQuery=True)
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
            assert self.find(by, " ".join(gone), mode, literalQuery=True) == []

    def find(self, by: str, query: str, mode: str, **options: Any) -> list[dict[str, Any]]:
        answer = self.world.search_catalog(by, query, mode, **options).raise_for_status().json()
        readable = self.model.readable(self.model.enter(by, READING))
        corrections = [each["replacedBy"] for each in answer["applied"].get("corrections", [])]
        self.check_silence([corrections, answer.get("facets", [])], readable.values())
        return answer["results"]

    def check_signs(self, by: str, mode: str) -> None:
        readable = self.model.readable(self.model.enter(by, READING))
        names = sorted(self.model.documents)
        one, other = self.chance.choice(names), self.chance.choice(names)
        first, second = (self.model.documents[name].text.marker for name in (one, other))
        if mode == "SEMANTIC":
            self.world.finish_indexing()

        def find(query: str, **options: Any) -> set[str]:
            return {each["documentExternalId"] for each in self.find(by, query, mode, **options)}

        assert find(f'harbour "tells of {first}"') == find(f'harbour "{first}"') == {one} & readable.keys()
        assert find(f"harbour -{first}") == readable.keys() - {one}
        assert find(f"{first} OR {second}") == {one, other} & readable.keys()
        grouped = self.find(by, "harbour", mode, groupSimilar=True)
        similar = {each["documentExternalId"] for result in grouped for each in result.get("similar", [])}
        assert similar | {each["documentExternalId"] for each in grouped} == readable.keys()
        for misspelt in (f"{first[:-2]}{first[-1]}", f"{first[:6]}*", f"{first[0]}*{first[2:]}"):
            answer = self.world.search_catalog(by, f"harbour {misspelt}", mode, countFacets=True).json()
            sums = [sum(each["count"] for each in facet["values"]) for facet in answer["facets"][2:]]
            assert {answer["facetsCounted"], *sums} == {len(readable)}
            corrected = {word for each in answer["applied"].get("corrections", []) for word in each["replacedBy"]}
            assert corrected <= {text.marker for text in readable.values()}
            assert first in corrected or one not in readable or "*" not in misspelt[:-1]
        like = self.world.search_catalog(by, "harbour", mode, similarTo=self.world.document_id(one))
        assert outcome_of(like) == ((200, None) if one in readable else (404, "document_not_found"))
        if one in readable:
            assert {each["documentExternalId"] for each in like.json()["results"]} == readable.keys() - {one}

    def check_collection_search(self, by: str, collection: str, mode: str) -> None:
        actor = self.model.enter(by, READING)
        exists = self.model.collections.get(collection)
        markers = [text.marker for text in exists.places.values()] if exists else []
        if mode == "SEMANTIC":
            self.world.finish_indexing()
        response = self.world.search_collection(by, collection, " ".join(["harbour", *markers]), mode)
        if collection not in self.model.searchable(actor):
            assert outcome_of(response) == (404, "collection_not_found")
            return
        readable = self.model.readable_in(actor, collection)
        results = response.raise_for_status().json()["results"]
        found = {each["documentExternalId"]: each for each in results}
        assert len(found) == len(results)
        assert {name: (each["documentName"], len(each["chunks"])) for name, each in found.items()} == {
            name: (text.title, text.parts) for name, text in readable.items()
        }
        for name, text in readable.items():
            assert all(text.marker in chunk["text"] for chunk in found[name]["chunks"])
        self.check_silence(results, readable.values())

    def check_lists(self, by: str, page_size: int) -> None:
        actor = self.model.enter(by, READING)
        self.check_authorized_resources(by, actor, page_size)
        known = self.model.known(actor)
        documents = self.world.walk("catalog/listDocuments", by, page_size=page_size)
        assert sorted((each["documentExternalId"], each["documentName"]) for each in documents) == sorted(
            (name, text.title) for name, text in known.items()
        )
        self.check_silence(documents, known.values())
        self.check_orders(by, actor, page_size)
        collections = self.world.walk("documentCollections/listDocumentCollections", by, page_size=page_size)
        assert {each["collectionName"]: (each["documentCount"], each["role"]) for each in collections} == {
            name: (len(self.model.readable_in(actor, name)), self.model.role(actor, self.model.collections[name]))
            for name in self.model.searchable(actor)
        }

    def check_orders(self, by: str, actor: str, page_size: int) -> None:
        known, is_admin = self.model.known(actor), self.model.is_admin(actor)
        order = self.chance.choice(("UPDATED", "NAME", "SIZE"))
        turned = {"page_size": page_size, "order": order, "descending": self.chance.random() < 1 / 2}

        def listed(**filters: Any) -> list[str]:
            found = self.world.walk("catalog/listDocuments", by, **turned, **filters)
            return sorted(each["documentExternalId"] for each in found)

        assert listed() == sorted(known)
        folders = self.world.walk("catalog/listFolders", by, page_size=page_size)
        assert {each["folder"]: each["documentCount"] for each in folders} == Counter(_folder(name) for name in known)
        for name in self.chance.sample(collections := sorted(self.world.collection_ids), min(1, len(collections))):
            visible = self.model.collections.keys() if is_admin else self.model.searchable(actor)
            held = self.model.collections[name].places.keys() if name in visible else set()
            assert listed(documentCollectionId=self.world.collection_ids[name]) == sorted(held & known.keys())
        if is_admin:
            subject = self.chance.choice(sorted((*self.model.users, *self.model.accounts)))
            may = self.model.readable(subject) if subject in self.model.actors else {}
            assert listed(readableBy=self.world.principal(subject)) == sorted(may)

    def check_authorized_resources(self, by: str, actor: str, page_size: int, **named: str) -> None:
        asked = {"action": "READ", "page_size": page_size}
        listed = self.world.walk("permissions/listAuthorizedResources", by, **asked, **named)
        expected = [*self.model.readable(actor), *self.model.searchable(actor), *self.model.usable(actor)]
        assert sorted(self.world.resource_names(listed, self.model.resources)) == sorted(expected)

    def check_document(self, by: str, document: str) -> None:
        actor = self.model.enter(by, READING)
        named = {"documentId": self.world.document_id(document)}
        text = self.model.documents[document].text
        known, readable = document in self.model.known(actor), document in self.model.readable(actor)
        shown = self.world.call("catalog/getDocument", by, **named)
        assert outcome_of(shown) == ((200, None) if known else (404, "document_not_found"))
        self.check_silence(shown.json(), [text] if known else [])
        file = self.world.call("catalog/downloadDocument", by, **named)
        assert file.status_code == (200 if readable else 404)
        assert (text.marker in file.text) == readable
        chunks = self.world.call("documentCollections/getDocumentChunks", by, pageSize=100, **named)
        assert chunks.status_code == (200 if readable else 404)
        assert chunks.text.count(text.marker) == (text.parts if readable else 0)
        self.check_found_alone(by, document)

    def check_found_alone(self, by: str, document: str) -> None:
        text = self.model.documents[document].text
        alone = self.find(by, text.marker, "LEXICAL", literalQuery=True)
        readable = document in self.model.readable(self.model.enter(by, READING))
        assert [each["documentExternalId"] for each in alone] == ([document] if readable else [])
        assert [each["documentName"] for each in alone] == ([text.title] if readable else [])

    def check_authorizations(self, by: str | None, subject: str, **named: str) -> None:
        unknown = {"resourceId": self.world.document_id("log/never"), "resourceType": "UPLOADED_DOCUMENT"}
        names = sorted(self.model.resources)
        asked = [*map(self.world.resource, names), unknown]
        operation = "permissions/checkBulkResourcesAuthorizationForUser"
        results = self.world.ask(operation, by, resources=asked, action="READ", **named)["results"]
        seen = (self.model.readable, self.model.searchable, self.model.usable)
        may = {name for each in seen for name in each(subject)} if subject in self.model.actors else set()
        assert [each["resource"] for each in results] == asked
        assert [each["authorized"] for each in results] == [*(name in may for name in names), False]
        operation = "permissions/checkResourceAuthorizationForUser"
        for name in self.chance.sample(names, min(1, len(names))):
            answer = self.world.ask(operation, by, resource=self.world.resource(name), action="READ", **named)
            assert answer["authorized"] == (name in may)

    def check_silence(self, shown: Any, texts: Iterable[Text]) -> None:
        assert words_in(shown, (self.markers | self.titles) - _words(texts)) == set()

    # What an admin is told.

    def check_readers(self, resource: str, page_size: int) -> None:
        asked = {"resource": self.world.resource(resource), "action": "READ", "page_size": page_size}
        listed = self.world.walk("permissions/listAuthorizedPrincipalsForResource", **asked)
        there = self.model.resources[resource]
        assert sorted(self.world.names(listed)) == sorted(self.model.readers(there))
        assert self.world.granted(resource) == {(who, role) for who, role in there.roles if role != "OWNER"}

    def check_explanation(self, resource: str, principal: str) -> None:
        asked = {"resource": self.world.resource(resource), "principal": self.world.principal(principal)}
        explained = self.world.ask("permissions/explainAuthorization", action="READ", **asked)
        there = self.model.resources[resource]
        authorized = principal in self.model.readers(there)
        assert (explained["authorized"], explained["complete"]) == (authorized, True), explained
        assert ("missing" in explained) != authorized
        lengths = [len(path) for path in explained["paths"]]
        assert lengths == sorted(lengths)
        paths = [self.chain(path, resource) for path in explained["paths"]]
        assert len(set(paths)) == len(paths)
        assert set(paths) == (self.model.chains(principal, there) if authorized else set())

    def chain(self, path: list[dict[str, str]], resource: str) -> tuple[str, ...]:
        *steps, grant, end = path
        assert (end["type"], end["id"]) == ("resource", self.world.resource(resource)["resourceId"])
        assert (grant["type"], grant.get("id")) == ("grant", None)
        names = [EVERYONE if step["type"] == "organization" else self.world.names([step])[0] for step in steps]
        return (*names, grant["role"])

    def check_reach(self, account: str, scopes: Iterable[str]) -> None:
        asked = {"serviceAccountId": self.world.account_ids[account], "scopes": sorted(scopes)}
        response = self.world.call("admin/serviceAccountTokens/previewReach", **asked)
        if account not in self.model.accounts:
            assert outcome_of(response) == (404, "service_account_not_found")
            return
        self.check_preview(response.raise_for_status().json(), account, set(scopes))

    def check_token_reach(self, token: str) -> None:
        asked = {"tokenId": self.world.credential_ids[token]}
        shown = self.world.ask("admin/serviceAccountTokens/previewReach", **asked)
        credential = self.model.credentials[token]
        working = credential.scopes if credential.status == "active" else frozenset[str]()
        self.check_preview(shown, credential.owner, set(working or ()))

    def check_preview(self, shown: dict[str, Any], account: str, scopes: set[str]) -> None:
        readable = self.model.readable(account) if READING in scopes else {}
        editable = self.model.editable(account) if WRITING in scopes else set()
        assert (shown["documentCount"], shown["editableDocumentCount"]) == (len(readable), len(editable))
        roles = {
            name: self.model.role(account, self.model.collections[name]) for name in self.model.searchable(account)
        }
        if READING not in scopes:
            roles = {name: role for name, role in roles.items() if role != VIEWER and WRITING in scopes}
        assert {each["collectionName"]: each["role"] for each in shown["collections"]} == roles
        usable = self.model.usable(account) if MESSAGING in scopes else set()
        agents = {name: self.model.agents[name].api_access for name in usable}
        assert {each["agentName"]: each["apiAccessEnabled"] for each in shown["agents"]} == agents
        assert (shown["collectionCount"], shown["agentCount"]) == (len(roles), len(agents))
        opened = {scope for scope, operation in OPENED.items() if operation in shown["endpoints"]}
        assert opened == scopes & OPENED.keys()
        assert not [operation for operation in shown["endpoints"] if operation.startswith("admin/")]

    def check_members(self, group: str, page_size: int) -> None:
        groups = self.world.walk("admin/groups/list", page_size=page_size)
        counts = {each["name"]: each["memberCount"] for each in groups}
        assert counts == {name: len(members) for name, members in self.model.groups.items()}
        listed = self.world.walk("admin/groups/listMembers", page_size=page_size, groupId=self.world.group_ids[group])
        assert sorted(self.world.names(listed)) == sorted(self.model.groups[group])

    def check_credentials(self, page_size: int) -> None:
        accounts = self.world.walk("admin/serviceAccounts/list", page_size=page_size)
        assert sorted(each["displayName"] for each in accounts) == sorted(self.model.accounts)
        tokens = self.world.walk("admin/serviceAccountTokens/list", page_size=page_size)
        keys = self.world.walk("admin/apiKeys/list", page_size=page_size)
        statuses = {each["name"]: each["status"] for each in (*tokens, *keys) if each["name"] in self.model.credentials}
        assert statuses == {name: credential.status for name, credential in self.model.credentials.items()}

    # Some of it, and all of it.

    def check_some(self, by: str, mode: str, page_size: int) -> None:
        if outcome(self.model.enter, by, READING)[0] != 200 or self.chance.random() < 1 / 3:
            self.check_entry(by)
        by = by if outcome(self.model.enter, by, READING)[0] == 200 else ADMIN
        self.check_catalog_search(by, mode)
        seen = (self._collection, self._lists, self._document, self._authorizations, self._signs)
        told = (self._readers, self._explanation, self._explanation, self._reach, self._members, self._credentials)
        if self.chance.random() < 1 / 2:
            self.chance.choice(seen)(by, mode, page_size)
        else:
            self.chance.choice(told)(page_size)

    def check_everything(self, mode: str, page_size: int) -> None:
        for by in sorted((*self.model.users, *self.model.credentials)):
            self.check_entry(by)
            if outcome(self.model.enter, by, READING)[0] == 200:
                self.check_catalog_search(by, mode)
                self.check_lists(by, page_size)
                self.check_authorizations(by, self.model.enter(by, READING))
                for collection in self.world.collection_ids:
                    self.check_collection_search(by, collection, mode)
        for resource in sorted(self.model.resources):
            self.check_readers(resource, page_size)
            self.check_explanation(resource, self.chance.choice(sorted(self.model.principals)))
        for group in self.model.groups:
            self.check_members(group, page_size)
        for token in sorted(self.tokens):
            self.check_token_reach(token)
        self.check_credentials(page_size)

    @property
    def tokens(self) -> list[str]:
        return [name for name, credential in self.model.credentials.items() if credential.scopes is not None]

    def _collection(self, by: str, mode: str, _: int) -> None:
        if collections := sorted(self.world.collection_ids):
            self.check_collection_search(by, self.chance.choice(collections), mode)

    def _signs(self, by: str, mode: str, _: int) -> None:
        if self.model.documents:
            self.check_signs(by, mode)

    def _lists(self, by: str, _: str, page_size: int) -> None:
        self.check_lists(by, page_size)

    def _document(self, by: str, _: str, __: int) -> None:
        if documents := sorted(self.model.documents):
            self.check_document(by, self.chance.choice(documents))

    def _authorizations(self, by: str, _: str, __: int) -> None:
        if self.chance.random() < 1 / 2:
            self.check_authorizations(by, self.model.enter(by, READING))
            return
        subject = self.chance.choice(sorted((*self.model.users, *self.model.accounts)))
        self.check_authorizations(None, subject, userEmail=self.world.address(subject))

    def _readers(self, page_size: int) -> None:
        if resources := sorted(self.model.resources):
            self.check_readers(self.chance.choice(resources), page_size)

    def _explanation(self, _: int) -> None:
        principals = sorted(self.model.principals | self.world.account_ids.keys())
        pairs = [(resource, principal) for resource in sorted(self.model.resources) for principal in principals]
        if not pairs:
            return
        if self.chance.random() < 1 / 2:
            self.check_explanation(*self.chance.choice(pairs))
        else:
            self.check_explanation(*max(pairs, key=self._ways))

    def _ways(self, pair: tuple[str, str]) -> int:
        resource, principal = pair
        return len(self.model.chains(principal, self.model.resources[resource]))

    def _reach(self, _: int) -> None:
        if self.tokens and self.chance.random() < 1 / 2:
            self.check_token_reach(self.chance.choice(sorted(self.tokens)))
            return
        account = self.chance.choice(sorted(self.world.account_ids))
        self.check_reach(account, self.chance.sample(SCOPES, self.chance.randint(0, 3)))

    def _members(self, page_size: int) -> None:
        self.check_members(self.chance.choice(sorted(self.model.groups)), page_size)

    def _credentials(self, page_size: int) -> None:
        self.check_credentials(page_size)


def _folder(name: str) -> str:
    return name.partition("/")[0]


def _words(texts: Iterable[Text]) -> set[str]:
    return {word for text in texts for word in text.words}
