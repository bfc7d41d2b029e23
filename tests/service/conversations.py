"""Helpers for agents and conversations, and a model controlled step by step."""

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Self
from uuid import UUID, uuid4

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncConnection

from service.domains.agents.answering.models import Assignment, Citation, Passage, Progress, Reply
from service.identity_server.oauth import queries as oauth
from service.platform.identifiers import uuid7
from service.platform.secrets import ACCESS_TOKEN, REFRESH_TOKEN, mint
from service.runtime import Runtime
from tests.harness.documents import add_to_collection, create_collection, ok, uploaded
from tests.harness.services import RunningService
from tests.oauth.flow import App, an_app, v1
from tests.service.directory import collection, document, done, entries, grant, organization_id, user

Agent = dict[str, Any]


def an_agent(service: RunningService, *, api_key: str | None = None, **fields: Any) -> Agent:
    return done(service.call("admin/agents/create", {"name": f"Agent {uuid4().hex}", **fields}, api_key=api_key))


def deploy(service: RunningService, agent: Agent, *principals: dict[str, Any], **members: Any) -> dict[str, Any]:
    body = {"agentId": agent["agentId"], "principals": list(principals), **members}
    return done(service.call("admin/agents/deploy", body))


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    with ThreadPoolExecutor(len(calls)) as pool:
        return [one.result(60) for one in [pool.submit(call) for call in calls]]


ADA, BEN = "ada@example.test", "ben@example.test"
FERRY = "The ferry to Northlight leaves at noon. Dogs travel free of charge."
MESSAGES = "api:agent:message:*"
SECONDS = 60


@dataclass(frozen=True)
class Desk:
    """An agent with a collection of one document for everyone, open to programs and to all users."""

    service: RunningService
    agent_id: str
    collection_id: str
    document_id: str

    def send(self, message: str = "When does the ferry leave?", **options: Any) -> httpx.Response:
        call = {name: options.pop(name) for name in ("api_key", "headers", "timeout") if name in options}
        return self.service.call(
            "copilots/sendMessage", {"agentId": self.agent_id, "message": message, **options}, **call
        )

    def ask(self, message: str = "When does the ferry leave?", **options: Any) -> dict[str, Any]:
        return done(self.send(message, **options))["sendChatResult"]

    def share(self, *emails: str, everybody: bool = False, document_id: str | None = None) -> None:
        grant(self.service, document(document_id or self.document_id), *map(user, emails), organizationWide=everybody)

    def deploy(self, *emails: str, everybody: bool = False) -> None:
        deploy(self.service, {"agentId": self.agent_id}, *map(user, emails), organizationWide=everybody)

    def update(self, **members: Any) -> None:
        done(self.service.call("admin/agents/update", {"agentId": self.agent_id, **members}))

    def delete(self) -> None:
        done(self.service.call("admin/agents/delete", {"agentId": self.agent_id}))

    def entries(self, action: str = "agent.message") -> list[dict[str, Any]]:
        return entries(self.service, action=action)


def a_desk(service: RunningService, name: str = "Harbour desk", *, text: str = FERRY) -> Desk:
    everyone = {"allowedUsersEmailAddresses": "[]", "internalPublic": "true"}
    document_id = uploaded(service, f"{name} notes", text, documentName="Ferries", **everyone)["documentId"]
    collection_id = create_collection(service, f"{name} documents")
    ok(add_to_collection(service, document_id, collection_id))
    grant(service, collection(collection_id), organizationWide=True)
    agent = an_agent(service, name=name, collectionIds=[collection_id], apiAccessEnabled=True)
    deploy(service, agent, organizationWide=True)
    return Desk(service, agent["agentId"], collection_id, document_id)


@dataclass
class Scene:
    """A request to the model, and the next steps, controlled by the test."""

    assignment: Assignment
    progress: Progress
    ended: "asyncio.Future[Reply]"


@dataclass
class Script:
    """A stand-in for the model: each message waits for the test."""

    service: RunningService
    scenes: "list[Scene]" = field(default_factory=list["Scene"])
    _arrived: "asyncio.Condition | None" = None

    async def __call__(self, _runtime: Runtime, assignment: Assignment, *, progress: Progress) -> Reply:
        scene = Scene(assignment, progress, asyncio.get_running_loop().create_future())
        self.scenes.append(scene)
        async with self._condition:
            self._condition.notify_all()
        return await scene.ended

    @property
    def _condition(self) -> asyncio.Condition:
        if self._arrived is None:
            self._arrived = asyncio.Condition()
        return self._arrived

    def scene(self, number: int = 0) -> Scene:
        async def wait() -> Scene:
            async with asyncio.timeout(SECONDS), self._condition:
                await self._condition.wait_for(lambda: len(self.scenes) > number)
            return self.scenes[number]

        return self.service.run(wait())

    def tell(self, text: str, *passages: Passage, number: int = 0) -> None:
        self.service.run(self.scene(number).progress(text, passages))

    def end(self, outcome: Reply | Exception, *, number: int = 0) -> None:
        scene = self.scene(number)

        async def end() -> None:
            if isinstance(outcome, Exception):
                scene.ended.set_exception(outcome)
            else:
                scene.ended.set_result(outcome)

        self.service.run(end())


def take_answers(service: RunningService, monkeypatch: pytest.MonkeyPatch) -> Script:
    monkeypatch.setattr("service.domains.agents.conversations.drafts.PAUSE_SECONDS", 0)
    monkeypatch.setattr("service.domains.agents.conversations.streaming.LOOK_SECONDS", 0.02)
    script = Script(service)
    monkeypatch.setattr("service.domains.agents.answering.answer", script)
    return script


def passage(document_id: str, text: str = FERRY) -> Passage:
    return Passage(UUID(document_id), "Ferries", text, 0.9)


def a_reply(text: str, *passages: Passage, cited: Sequence[int] = (), quotes_only: bool = False, **more: Any) -> Reply:
    citations = [Citation(number, passages[number].text) for number in cited]
    return Reply(text, "a model", passages, citations, quotes_only=quotes_only, **more)


def in_flight(service: RunningService) -> float:
    lines = service.http.get("/metrics").text.splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("carrel_requests_in_flight "))


def in_background(work: Callable[[], Any]) -> "Future[Any]":
    future: Future[Any] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - whoever asks for the result is told
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


@dataclass(frozen=True)
class Visitor:
    desk: Desk
    token: str
    app: App

    def send(
        self, message: str = "When does the ferry leave?", conversation_id: str | None = None, **options: Any
    ) -> httpx.Response:
        conversation = {"type": "existing", "conversationId": conversation_id} if conversation_id else {"type": "new"}
        body = {"agentId": self.desk.agent_id, "conversation": conversation, "message": message}
        return v1(self.desk.service, "agents/sendMessage", self.token, body | options.pop("body", {}), **options)

    def get(self, path: str, *, headers: dict[str, Any] | None = None, **parameters: Any) -> httpx.Response:
        return v1(self.desk.service, path, self.token, params=parameters, headers=headers or {})

    def fetch(self, job_id: str) -> dict[str, Any]:
        return done(self.get("agents/fetchAgentResponse", jobId=job_id))

    def finished(self, job_id: str) -> dict[str, Any]:
        deadline = time.monotonic() + SECONDS
        while (job := self.fetch(job_id))["status"] == "RUNNING":
            assert time.monotonic() < deadline, job
            time.sleep(0.02)
        return job

    def ask(self, message: str = "When does the ferry leave?", conversation_id: str | None = None) -> dict[str, Any]:
        return self.finished(done(self.send(message, conversation_id))["jobId"])


def a_visitor(desk: Desk, email: str = ADA, *, scope: str = MESSAGES) -> Visitor:
    app = an_app(desk.service)
    person = done(desk.service.call("admin/users/upsert", {"users": [{"email": email, "name": "Ada Lovelace"}]}))
    return Visitor(desk, an_access_token(app, person["users"][0]["id"], scope=scope), app)


def an_access_token(app: App, person_id: str, *, scope: str) -> str:
    organization, token, family = organization_id(app.service), mint(ACCESS_TOKEN), uuid7()
    row = {"client_id": app.client_id, "principal_id": person_id, "scopes": scope.split(), "family_id": family}
    now = datetime.now(UTC) + app.service.runtime.clock.offset
    hour = {"expires_at": now + timedelta(hours=1)}

    async def keep(connection: AsyncConnection) -> None:
        await oauth.insert_family(connection, organization, row={**row, "created_at": now})
        await oauth.insert_tokens(
            connection,
            organization,
            access={**row, **hour, "token_id": uuid7(), "secret_hash": token.hash},
            refresh={**hour, "family_id": family, "token_id": uuid7(), "secret_hash": mint(REFRESH_TOKEN).hash},
        )

    app.service.in_transaction(organization, keep)
    return token.value.get_secret_value()


@dataclass(frozen=True)
class Event:
    kind: str
    data: dict[str, Any]
    id: str


class Watch:
    """A stream of a job, read event by event; the context manager hangs up at its end."""

    def __init__(self, visitor: Visitor, job_id: str, *, last_event_id: str | None = None) -> None:
        headers = {"Authorization": f"Bearer {visitor.token}"}
        if last_event_id is not None:
            headers["Last-Event-ID"] = last_event_id
        url = f"{visitor.desk.service.base_url}/api/v1/agents/streamAgentResponse"
        self._stack = ExitStack()
        stream = httpx.stream("GET", url, params={"jobId": job_id}, headers=headers, timeout=SECONDS)
        self.response = self._stack.enter_context(stream)
        self.lines = self.response.iter_lines()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def __iter__(self) -> Iterator[Event]:
        """Every event from here on (HTML standard, "Interpreting an event stream")."""
        fields = dict[str, str]()
        for line in self.lines:
            if line == "":
                if fields:
                    yield Event(fields["event"], json.loads(fields["data"]), fields["id"])
                fields = {}
            elif not line.startswith(":"):
                name, _, value = line.partition(": ")
                fields[name] = value

    def next(self) -> Event:
        return next(iter(self))


def text_of(events: Iterable[Event], so_far: str = "") -> str:
    for event in events:
        if event.kind == "restarted":
            so_far = ""
        elif event.kind == "delta":
            so_far += event.data["text"]
    return so_far
