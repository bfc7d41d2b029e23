"""Ask an agent over documents made for the question."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from uuid import UUID

from carrel.wire.agents import AgentRetrieval
from service.auth.callers import Caller, authenticate
from service.domains.agents.answering import answer
from service.domains.agents.answering.models import Assignment, Exchange, Passage, Reply
from service.domains.agents.answering.phrases import PHRASES
from service.platform.errors import Forbidden
from tests.harness.documents import create_collection, ok, uploaded
from tests.harness.services import RunningService

ADMIN = ""
NOTHING_ANSWERS = PHRASES["en"].nothing_answers


@dataclass
class Library:
    """A service with a collection for everyone, and people who ask."""

    service: RunningService
    collection_id: str
    keys: dict[str, str] = field(default_factory=dict[str, str])
    told: list[tuple[str, Sequence[Passage]]] = field(default_factory=list[tuple[str, Sequence[Passage]]])

    def put(self, external_id: str, text: str | bytes, *, readers: Sequence[str] | None = None, **parts: str) -> str:
        access = {"internalPublic": "true"} if readers is None else {"allowedUsersEmailAddresses": ",".join(readers)}
        place = {"collectionId": self.collection_id, "awaitVectorStoreSync": "true"}
        parts = {"file_name": "a.md", "documentName": external_id, **place, **access, **parts}
        return str(uploaded(self.service, external_id, text, **parts)["documentId"])

    def person(self, email: str) -> str:
        self.keys[email] = self.service.new_user(email)
        return email

    def caller(self, person: str = ADMIN) -> Caller:
        key = self.keys.get(person, self.service.api_key)

        async def authenticated() -> Caller:
            async with self.service.runtime.database.transaction(None) as connection:
                return await authenticate(connection, f"Bearer {key}", keys=self.service.runtime.keys)

        return self.service.run(authenticated())

    def ask(
        self,
        message: str,
        *,
        person: str = ADMIN,
        model: str | None = None,
        instructions: str = "",
        history: Sequence[Exchange] = (),
        collection_ids: Sequence[str] | None = None,
        searches: int | None = None,
        retrieval: AgentRetrieval | None = None,
    ) -> Reply:
        """Ask over the collection; `told` records the progress. After `searches` searches the sender loses access."""
        self.told.clear()
        caller = self.caller(person)

        left = count(0) if searches is None else count(-searches)

        async def sender() -> Caller:
            if next(left) == 0 and searches is not None:
                raise Forbidden("The sender has left.", code="sender_inactive")
            return caller

        assignment = Assignment(
            sender=sender,
            message=message,
            instructions=instructions,
            model=model,
            collection_ids=[UUID(one) for one in ([self.collection_id] if collection_ids is None else collection_ids)],
            history=history,
            retrieval=retrieval or AgentRetrieval(),
        )

        async def note(text: str, passages: Sequence[Passage]) -> None:
            self.told.append((text, passages))

        return self.service.run(answer(self.service.runtime, assignment, progress=note))


def a_library(service: RunningService, *, name: str = "Everything") -> Library:
    collection_id = create_collection(service, name)
    share(service, collection_id, everybody=True)
    return Library(service, collection_id)


def share(service: RunningService, collection_id: str, *, everybody: bool) -> None:
    resource = {"resourceId": collection_id, "resourceType": "DOCUMENT_COLLECTION"}
    ok(service.call("admin/grants/set", {"resource": resource, "grants": [], "organizationWide": everybody}))
