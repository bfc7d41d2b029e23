"""The real service for a test: a real runtime on a cloned database, behind a real uvicorn on a free port."""

import asyncio
import itertools
import os
import socket
import ssl
import tempfile
from collections.abc import Awaitable, Callable, Generator, Sequence
from concurrent.futures import Future
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

import httpx
import numpy as np
import psycopg
import pytest
import uvicorn
from argon2 import PasswordHasher
from httpx._transports import default
from psycopg.abc import Params, QueryNoTemplate
from pydantic import SecretStr
from sqlalchemy.engine import URL
from sqlalchemy.ext.asyncio import AsyncConnection

from service.domains.people.directory.organizations import create_organization
from service.identity import passwords
from service.operate.bootstrap import bootstrap
from service.operate.startup import open_extractor
from service.platform import secrets
from service.platform.database import Database, driver_url
from service.platform.identifiers import uuid7
from service.platform.postgres.server import DATABASE
from service.platform.settings import Settings
from service.platform.sharing import MOST_COUNTS, Counts, Figures, Share
from service.runtime import Runtime
from service.text.embedding import MODEL_FOLDER, Arithmetic, Embedders, open_embedders
from service.text.embedding.batching import Rows, Tokens
from service.text.embedding.local import Engine
from service.text.embedding.remote import RemoteEmbedder
from service.text.recognition import workers as recognition
from tests.harness.databases import TestDatabases, connect
from tests.harness.embeddings import DIMENSIONS, MODEL, serving_embeddings
from tests.harness.first_start import bring_model
from tests.harness.lazy import lazily
from tests.harness.loops import LoopThread

Result = TypeVar("Result")
# They import all endpoints, which tests without a service do not wait for.
main, web = lazily("service.main"), lazily("service.server")
ADMIN_EMAIL = "admin@example.test"
ADMIN_PASSWORD = "correct horse battery staple"
SECRET_KEY = "the same for every clone of the template database"
API_KEY = "svc_key_" + "test0bootstrap1key2" * 3
# Most tests have ended before, and their services had no use for what runs beside the requests: its connections alone
# take most of a start.
BESIDE_AFTER_SECONDS = 0.6
# To read them takes a client tens of milliseconds, and the services of tests are asked by plain HTTP.
AUTHORITIES = ssl.create_default_context()
CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
# A shared service has hundreds of organizations, and looks through all of them for what a crash has left.
SWEEP_SECONDS = 3600.0
PASSWORD_HASHER = passwords._HASHER


@dataclass(frozen=True)
class RunningService:
    """A service under test; `http` has the bootstrap admin's API key, which may act for users. With several workers,
    asked in turn, `base_url` and `runtime` are the first worker's."""

    base_url: str
    settings: Settings
    runtime: Runtime
    database: str
    http: httpx.Client
    api_key: str = API_KEY
    admin_email: str = ADMIN_EMAIL
    admin_password: str = ADMIN_PASSWORD
    ports: list[int] = field(kw_only=True)
    loop: LoopThread = field(repr=False, kw_only=True)

    def call(
        self, operation: str, body: object = None, *, api_key: str | None = None, **options: Any
    ) -> httpx.Response:
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        headers |= options.pop("headers", {})
        return self.http.post(f"/api/v0/{operation}", json=body if body is not None else {}, headers=headers, **options)

    def new_user(self, email: str, *, is_admin: bool = False, **options: Any) -> str:
        user = {"email": email, "name": email.partition("@")[0], "isAdmin": is_admin}
        self.call("admin/users/upsert", {"users": [user]}).raise_for_status()
        key = self.call("admin/apiKeys/create", {"name": f"{email}'s", "ownerEmail": email, **options})
        return str(key.raise_for_status().json()["apiKey"])

    def connect(self, *, timeout: float) -> httpx.Client:
        transport = Alternating(self.ports)
        return httpx.Client(base_url=self.base_url, headers=self.http.headers, timeout=timeout, transport=transport)

    @contextmanager
    def new_organization(
        self, *, admin_email: str = ADMIN_EMAIL, name: str = "example.test", password_hash: str | None = None
    ) -> Generator["RunningService"]:
        """Create an organization in this service; yield the service as its admin. Database, settings and runtime stay
        shared. With `password_hash` the admin signs in by password; account pages then ask for the organization."""
        key, organization = secrets.mint(secrets.API_KEY), uuid7()

        self.in_transaction(
            organization,
            lambda connection: create_organization(
                connection, organization, name=name, admin_email=admin_email, password_hash=password_hash, api_key=key
            ),
        )
        api_key = key.value.get_secret_value()
        headers = {"Authorization": f"Bearer {api_key}"}
        transport = Alternating(self.ports)
        with httpx.Client(base_url=self.base_url, headers=headers, timeout=60, transport=transport) as http:
            yield replace(self, api_key=api_key, admin_email=admin_email, http=http)

    def owner_url(self) -> URL:
        """Return the address for the database's owner, exempt from row-level security."""
        return driver_url(self.settings.database_url.get_secret_value())

    def owner_connection(self) -> psycopg.Connection[Any]:
        return connect(self.owner_url())

    def execute(self, statement: QueryNoTemplate, values: Params | None = None) -> list[tuple[Any, ...]]:
        with self.owner_connection() as connection:
            cursor = connection.execute(statement, values)
            return cursor.fetchall() if cursor.description else []

    def run(self, work: Any) -> Any:
        return self.loop.run(work)

    def in_transaction(self, organization: UUID | None, work: Callable[[AsyncConnection], Awaitable[Result]]) -> Result:
        async def run() -> Result:
            async with self.runtime.database.transaction(organization) as connection:
                return await work(connection)

        return self.run(run())


MakeService = Callable[..., RunningService]


class Alternating(httpx.HTTPTransport):
    """Sends each request to the next worker of a service; each worker has a separate port here."""

    def __init__(self, ports: list[int]) -> None:
        super().__init__(verify=AUTHORITIES)
        self._ports = itertools.cycle(ports)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.url = request.url.copy_with(port=next(self._ports))
        return super().handle_request(request)


class QuickServer(uvicorn.Server):
    """A uvicorn server that stops at once, instead of polling ten times a second."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()
        self.stopping = asyncio.Event()

    async def main_loop(self) -> None:
        await self.on_tick(0)
        self.ready.set()
        await self.stopping.wait()


class Remembering:
    """Embeds each text only once a session, as int8 vectors don't depend on the batch; count calls in front of it."""

    def __init__(self, arithmetic: Arithmetic) -> None:
        self._arithmetic = arithmetic
        self._rows: dict[bytes, Any] = {}

    async def embed(self, texts: Sequence[Tokens], *, in_background: bool) -> Rows:
        if not texts:
            return await self._arithmetic.embed(texts, in_background=in_background)
        keys = [text.tobytes() for text in texts]
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._rows}
        if new:
            rows = await self._arithmetic.embed([*new.values()], in_background=in_background)
            self._rows |= zip(new, rows, strict=True)
        return np.stack([self._rows[key] for key in keys])

    async def close(self) -> None:
        await self._arithmetic.close()


class SharedParts:
    """The extraction processes and the embedding model of a session, made at first use."""

    def __init__(self, folder: Path, loop: LoopThread) -> None:
        self._loop = loop
        self._stack = AsyncExitStack()
        settings = settings_for_test(folder, None)
        bring_model(settings.data_dir)
        self.extractor = loop.run(open_extractor(self._stack, settings))
        self.embeddings = self._stack.enter_context(serving_embeddings())
        self.embedders = loop.run(self._open_embedders(settings))
        self._stack.push_async_callback(self.embedders.close)

    async def _open_embedders(self, settings: Settings) -> Embedders:
        folder = settings.data_dir / MODEL_FOLDER
        engine = Engine.open(folder, precision="int8")
        local = (await open_embedders(settings, arithmetic=[Remembering(engine)])).default
        further = RemoteEmbedder(
            url=self.embeddings.url,
            api_key=None,
            model=MODEL,
            dimensions=DIMENSIONS,
            ask_for_dimensions=False,
            tokenizer=local.tokenizer,
        )
        return Embedders(local, further)

    def close(self) -> None:
        self._loop.run(self._stack.aclose())


class ServiceHarness:
    def __init__(self, databases: TestDatabases, *, parts: SharedParts, loop: LoopThread) -> None:
        self._databases = databases
        self._shared = {"extractor": parts.extractor, "embedders": parts.embedders}
        self.embeddings = parts.embeddings
        self._loop = loop
        self._ending: list[Future[None]] = []

    def start(self, **overrides: Any) -> tuple[RunningService, AsyncExitStack]:
        shared = self._shared | {name: overrides.pop(name) for name in {"rate_limits"} & overrides.keys()}
        database = overrides.pop("database", None) or self._databases.clone()
        folder = Path(tempfile.mkdtemp(prefix="data-", dir=self._databases.folder))
        url = self._databases.owner_url(database).set(drivername="postgresql")
        settings = settings_for_test(folder, SecretStr(url.render_as_string(hide_password=False)), **overrides)
        return self._loop.run(self._start(settings, database, shared))

    def stop(self, service: RunningService, stack: AsyncExitStack) -> None:
        """Stop a service without waiting; `close` waits for all services, and raises errors."""
        service.http.close()
        self._ending.append(self._loop.submit(self._stop(service, stack)))

    @contextmanager
    def running(self, **overrides: Any) -> Generator[RunningService]:
        service, stack = self.start(**overrides)
        try:
            yield service
        finally:
            self.stop(service, stack)

    def close(self) -> None:
        for ending in self._ending:
            ending.result(60)

    async def _start(
        self, settings: Settings, database: str, shared: dict[str, Any]
    ) -> tuple[RunningService, AsyncExitStack]:
        async with AsyncExitStack() as stack:
            service = await self._assemble(stack, settings, database, shared)
            return service, stack.pop_all()

    async def _assemble(
        self, stack: AsyncExitStack, settings: Settings, database: str, shared: dict[str, Any]
    ) -> RunningService:
        listeners = [_listener() for _ in range(settings.workers)]
        for listener in listeners:
            stack.callback(listener.close)
        ports = [int(listener.getsockname()[1]) for listener in listeners]
        settings = settings.model_copy(update={"port": ports[0]})
        figures, counts = Figures(settings.workers), Counts(settings.workers, capacity=MOST_COUNTS)
        runtimes: list[Runtime] = []
        for worker, listener in enumerate(listeners):
            share = Share(worker, settings.workers, figures, counts)
            app = await stack.enter_async_context(main.open_app(settings, share=share, **shared))
            runtimes.append(app.state.runtime)
            server = QuickServer(web.server_config(settings, app))
            stack.push_async_callback(_end, server, asyncio.create_task(server.serve([listener])))
            await server.ready.wait()
        base_url = f"http://127.0.0.1:{ports[0]}"
        headers = {"Authorization": f"Bearer {API_KEY}"}
        http = httpx.Client(base_url=base_url, headers=headers, timeout=60, transport=Alternating(ports))
        return RunningService(base_url, runtimes[0].settings, runtimes[0], database, http, ports=ports, loop=self._loop)

    async def _stop(self, service: RunningService, stack: AsyncExitStack) -> None:
        await stack.aclose()
        await asyncio.to_thread(self._databases.drop, service.database)


@contextmanager
def starting_tasks_later() -> Generator[None]:
    """Delay services' background work a moment, or to the first job, except where a test sets `sweep_seconds`."""
    keep_tasks, usual = main._keep_tasks, Settings.model_fields["sweep_seconds"].default

    def keep_later(runtime: Runtime) -> None:
        if runtime.settings.sweep_seconds != usual:
            keep_tasks(runtime)
            return
        needed, enqueue = asyncio.Event(), runtime.jobs.enqueue

        async def begin() -> None:
            with suppress(TimeoutError):
                await asyncio.wait_for(needed.wait(), BESIDE_AFTER_SECONDS)
            keep_tasks(runtime)

        def enqueue_and_begin(*arguments: Any, **options: Any) -> Any:
            needed.set()
            return enqueue(*arguments, **options)

        runtime.jobs.enqueue = enqueue_and_begin
        runtime.background.spawn(begin())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("service.main._keep_tasks", keep_later)
        # Beside other tests that keep every core busy, pages would not be read for minutes.
        patch.setattr(recognition, "_NICENESS", 0)
        yield


@contextmanager
def reading_authorities_once() -> Generator[None]:
    """Let clients share the authorities' certificates, unless a test names certificates in its environment."""
    create, named = default.create_ssl_context, [os.environ.get(name) for name in CERTIFICATES]

    def share(verify: Any = True, cert: Any = None, trust_env: bool = True) -> ssl.SSLContext:
        if verify is True and cert is None and [os.environ.get(name) for name in CERTIFICATES] == named:
            return AUTHORITIES
        return create(verify, cert, trust_env)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(default, "create_ssl_context", share)
        yield


@contextmanager
def hashing_passwords_at_once() -> Generator[None]:
    """Make password hashing cheap: tests hash or check several passwords each."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passwords, "_HASHER", PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))
        yield


def bootstrap_template(databases: TestDatabases, loop: LoopThread) -> None:
    """Put the bootstrap organization into the template, to hash the password only once."""

    async def fill() -> None:
        database = Database(databases.service_url(DATABASE))
        try:
            async with database.transaction(None) as connection:
                await bootstrap(connection, settings_for_test(databases.folder, None))
        finally:
            await database.close()

    loop.run(fill())


def _listener() -> socket.socket:
    """Return a listening socket with TCP_NODELAY (asyncio sets it only for a named protocol; else 40 ms waits)."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    return listener


async def _end(server: QuickServer, serving: "asyncio.Task[None]") -> None:
    server.stopping.set()
    await serving


def settings_for_test(folder: Path, url: SecretStr | None, **overrides: Any) -> Settings:
    values: dict[str, Any] = {
        "data_dir": folder,
        "database_url": url,
        "workers": 1,
        "database_pool_size": 5,
        "secret_key": SecretStr(SECRET_KEY),
        "bootstrap_admin_email": ADMIN_EMAIL,
        "bootstrap_admin_password": SecretStr(ADMIN_PASSWORD),
        "bootstrap_api_key": SecretStr(API_KEY),
        "extraction_workers": 1,
        "embeddings_precision": "int8",
        # Pages wait for ever unless a test has them read.
        "ocr_workers": 0,
        # Tests of refusals fail to authenticate more often than anybody should.
        "rate_limit_failures": 0,
    }
    return Settings(**(values | overrides))
