"""A revoked right is gone with the response, for every later request, under any load."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from time import monotonic

import httpx
import pytest
from psycopg import sql

from tests.harness.documents import add_group, add_to_collection, add_users, create_collection, ok, upload, uploaded
from tests.harness.services import RunningService, ServiceHarness
from tests.service.directory import a_group, a_key, collection, document, grant, group, user
from tests.service.service_accounts import a_token, an_account, enable_service_accounts
from tests.service.service_accounts import account as account_of

READER = "reader@example.test"
# Nobody asks for this word, so that an answer which has it shows the document.
MARKER = "quinquereme"
SIGNS = (MARKER, '"documentCount":1')
THREADS = 3
ROUNDS = 2
SECONDS = 120


@pytest.fixture(scope="module")
def house(service_harness: ServiceHarness) -> Iterator[RunningService]:
    with service_harness.running(workers=2) as service:
        yield service


@dataclass(frozen=True)
class Scene:
    """A document in a collection that every user may search; the reader is in a nested group."""

    service: RunningService
    document_id: str
    collection_id: str
    inner: str
    outer: str

    def grant(self, *principals: dict[str, str]) -> None:
        grant(self.service, document(self.document_id), *principals)

    def member(self, operation: str) -> None:
        ok(self.service.call(f"admin/groups/{operation}", {"groupId": self.inner, "members": [user(READER)]}))

    def active(self, active: bool) -> None:
        ok(self.service.call("admin/users/upsert", {"users": [{"email": READER, "active": active}]}))

    def share(self, emails: str) -> None:
        ok(upload(self.service, "log", _contents(0), allowedUsersEmailAddresses=emails))

    def looks(self) -> list[tuple[str, dict]]:
        of_document, within = {"documentId": self.document_id}, {"documentCollectionId": self.collection_id}
        searches = (("search/searchDocumentCatalog", {}), ("search/searchDocumentCollection", within))
        return [
            *(
                (operation, {**where, "searchQuery": "what the harbour saw", "searchOptions": {"mode": mode}})
                for operation, where in searches
                for mode in ("HYBRID", "LEXICAL", "SEMANTIC")
            ),
            ("catalog/getDocument", of_document),
            ("catalog/downloadDocument", of_document),
            ("catalog/listDocuments", {}),
            ("documentCollections/getDocumentChunks", of_document),
            ("documentCollections/getDocumentChunks", {**of_document, **within}),
            ("documentCollections/listDocumentsInCollection", within),
            ("documentCollections/listDocumentCollections", {}),
            ("permissions/listAuthorizedResources", {"action": "READ", "resourceType": "UPLOADED_DOCUMENT"}),
        ]


@dataclass
class Watch:
    """Threads that ask for the document repeatedly, each worker in turn, and a thread for changing the contents. All
    record the time and kind of request, whether the document was shown, and the status."""

    scene: Scene
    credential: str | None = None
    seen: list[tuple[float, str, bool, int]] = field(default_factory=list)
    revoked: threading.Event = field(default_factory=threading.Event)
    failures: list[Exception] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._warm = threading.Barrier(THREADS + 1)
        work = [self._write, *[self._ask] * THREADS]
        self._threads = [threading.Thread(target=self._run, args=(each,)) for each in work]
        headers = dict(self.scene.service.http.headers)
        own = {} if self.credential is None else {"Authorization": f"Bearer {self.credential}"}
        self._asking = {"headers": headers | {name.lower(): value for name, value in own.items()}}
        self._members = {"userEmail": READER} if self.credential is None else {}

    def begin(self) -> None:
        for thread in self._threads:
            thread.start()
        self._warm.wait(SECONDS)

    def end(self) -> None:
        self.revoked.set()
        for thread in self._threads:
            thread.join(SECONDS)
        assert not any(thread.is_alive() for thread in self._threads)
        assert self.failures == []

    def _run(self, work: Callable[[httpx.Client], None]) -> None:
        try:
            with self.scene.service.connect(timeout=SECONDS) as http:
                work(http)
        except Exception as failure:  # noqa: BLE001 - raised again in the test's own thread
            self.failures.append(failure)
            self._warm.abort()

    def _ask(self, http: httpx.Client) -> None:
        self._ask_all(http)
        self._warm.wait(SECONDS)
        last = False
        while not last:
            last = self.revoked.is_set()
            self._ask_all(http)

    def _ask_all(self, http: httpx.Client) -> None:
        for number, (operation, members) in enumerate(self.scene.looks()):
            began = monotonic()
            answer = http.post(f"/api/v0/{operation}", json={**members, **self._members}, **self._asking)
            assert answer.status_code < 500, answer.text
            shown = answer.status_code == 200 and any(sign in answer.text for sign in (*SIGNS, self.scene.document_id))
            self.seen.append((began, f"{number} {operation}", shown, answer.status_code))

    def _write(self, http: httpx.Client) -> None:
        version = 0
        while not self.revoked.is_set():
            version += 1
            parts = {"documentExternalId": "log", "documentName": f"The {MARKER} log", "awaitVectorStoreSync": "true"}
            # Most find it unchanged, so that a search by meaning finds it between two changes.
            answer = http.post(
                "/api/v0/catalog/uploadFile", data=parts, files={"file": ("log.txt", _contents(version // 40 % 2))}
            )
            assert answer.status_code in {200, 409}, answer.text


def _contents(number: int) -> str:
    return f"In its year {number} the harbour saw a {MARKER} come in."


@pytest.fixture
def scene(house: RunningService) -> Iterator[Scene]:
    with house.new_organization() as service:
        add_users(service, READER)
        inner = add_group(service, "Inner")
        outer = a_group(service, "Outer", group({"id": inner}))["id"]
        document_id = uploaded(service, "log", _contents(0), documentName=f"The {MARKER} log")["documentId"]
        collection_id = create_collection(service, "Logs")
        ok(add_to_collection(service, document_id, collection_id))
        scene = Scene(service, document_id, collection_id, inner, outer)
        grant(service, collection(collection_id), organizationWide=True)
        yield scene


WAYS: dict[str, tuple[Callable[[Scene], None], Callable[[Scene], None]]] = {
    "a grant is taken away": (lambda scene: scene.grant(user(READER)), lambda scene: scene.grant()),
    "a member leaves a group inside the one that was granted": (
        lambda scene: (scene.grant(group({"id": scene.outer})), scene.member("addMembers")),
        lambda scene: scene.member("removeMembers"),
    ),
    "an upload says who may read": (lambda scene: scene.share(READER), lambda scene: scene.share("[]")),
    "the user is deactivated": (
        lambda scene: (scene.active(True), scene.grant(user(READER))),
        lambda scene: scene.active(False),
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_nothing_asked_after_a_right_was_taken_away_shows_the_document(scene: Scene, way: str) -> None:
    give, take = WAYS[way]
    for _ in range(ROUNDS):
        give(scene)
        watch_beside(Watch(scene), lambda: take(scene))


def watch_beside(watch: Watch, change: Callable[[], None]) -> set[int]:
    watch.begin()
    asked = monotonic()
    change()
    answered = monotonic()
    watch.end()
    for number, (operation, _) in enumerate(watch.scene.looks()):
        name = f"{number} {operation}"
        before = [shown for began, each, shown, _ in watch.seen if each == name and began < asked]
        after = [shown for began, each, shown, _ in watch.seen if each == name and began > answered]
        assert any(before), name
        assert len(after) >= THREADS
        assert not any(after), name
    return {status for began, _, _, status in watch.seen if began > answered}


@dataclass(frozen=True)
class Held:
    """A credential for reading the document, through a nested group."""

    scene: Scene
    value: str
    credential_id: str
    holder: dict[str, str]

    def call(self, operation: str, body: dict) -> None:
        ok(self.scene.service.call(operation, body))

    def expire(self, table: str, key: str) -> None:
        statement = "UPDATE {} SET expires_at = now() + interval '0.3 seconds' WHERE {} = %s"
        named = sql.SQL(statement).format(sql.Identifier(table), sql.Identifier(key))
        self.scene.service.execute(named, [self.credential_id])
        self.scene.service.execute("SELECT pg_sleep(0.4)")

    def leave(self) -> None:
        self.call("admin/groups/removeMembers", {"groupId": self.scene.inner, "members": [self.holder]})


def hold_token(scene: Scene) -> Held:
    service = scene.service
    enable_service_accounts(service)
    account = an_account(service)
    token = a_token(service, account, "catalog:read")
    return Held(scene, token["token"], token["tokenId"], account_of(account))


def hold_key(scene: Scene) -> Held:
    key = a_key(scene.service, ownerEmail=READER)
    return Held(scene, key["apiKey"], key["apiKeyId"], user(READER))


def disable_service_accounts(held: Held) -> None:
    held.call("admin/organization/update", {"serviceAccountsEnabled": False})


# Who holds what, how it is taken away, and what each request is answered from then on (None: it depends on what is
# asked; nothing shows the document).
STOPS: dict[str, tuple[Callable[[Scene], Held], Callable[[Held], None], int | None]] = {
    "a token is revoked": (
        hold_token,
        lambda held: held.call("admin/serviceAccountTokens/revoke", {"tokenId": held.credential_id}),
        401,
    ),
    "a token expires": (hold_token, lambda held: held.expire("service_account_tokens", "token_id"), 401),
    "a service account is deleted": (
        hold_token,
        lambda held: held.call("admin/serviceAccounts/delete", {"serviceAccountId": held.holder["id"]}),
        401,
    ),
    "service accounts are disabled": (hold_token, disable_service_accounts, 403),
    "a service account leaves its group": (hold_token, Held.leave, None),
    "a key is revoked": (
        hold_key,
        lambda held: held.call("admin/apiKeys/revoke", {"apiKeyId": held.credential_id}),
        401,
    ),
    "a key expires": (hold_key, lambda held: held.expire("api_keys", "api_key_id"), 401),
}


@pytest.mark.parametrize("stop", STOPS)
def test_no_request_that_begins_after_a_credential_stopped_succeeds(scene: Scene, stop: str) -> None:
    hold, take, status = STOPS[stop]
    held, readers = hold(scene), group({"id": scene.outer})
    scene.grant(readers)
    grant(scene.service, collection(scene.collection_id), readers)
    held.call("admin/groups/addMembers", {"groupId": scene.inner, "members": [held.holder]})
    statuses = watch_beside(Watch(scene, held.value), lambda: take(held))
    if status is not None:
        assert statuses == {status}
