"""A service's processes: supervisor, workers, a process that embeds, and a process from which file readers are forked.
The supervisor starts, watches and ends the others, binds the workers' port and owns an embedded database's server.
Without threads and event loop it can fork: workers begin with everything imported, in shared memory. Orders go through
sockets, as a stop may send signals to all processes. Another process restarts a dead embedded server."""

import asyncio
import gc
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from functools import partial
from multiprocessing.connection import wait
from pathlib import Path
from socket import socket, socketpair
from typing import Any

import uvloop
from prometheus_client.multiprocess import mark_process_dead  # pyright: ignore[reportUnknownVariableType]

from service.identity.passwords import end_threads
from service.main import routes
from service.operate.archiving.shipping import keep_archiving
from service.operate.startup import Prepared, prepare, start_embedded
from service.platform import processes, traces
from service.platform.background import Failures
from service.platform.deployment_errors import DeploymentError
from service.platform.descriptors import most_connections, part_of, raise_limit
from service.platform.logs import logger
from service.platform.postgres.host import DatabaseServerError
from service.platform.postgres.server import EmbeddedPostgres
from service.platform.settings import Settings
from service.platform.sharing import MOST_COUNTS, Counts, Figure, Figures, Share
from service.server import CANCELLED_SECONDS, GRACE_SECONDS, bind, serve
from service.text.embedding import MODEL_FOLDER, local_files
from service.text.embedding.exchange import DistantArithmetic, Line
from service.text.embedding.local import Engine, choose
from service.text.embedding.prepared import prepare as prepare_graph
from service.text.embedding.weights import ModelFilesError
from service.text.pools import SharedForkServer
from service.web.metrics import count_in_row
from service.web.pages import confidential

LOOK_SECONDS = 1.0
# How long a worker may take to start; the database is already migrated.
STARTING_SECONDS = 120.0
# The same for the first workers: a first start on a slow machine takes longer.
FIRST_STARTING_SECONDS = 600.0
# How long workers may take to end: longer than their requests and jobs.
ENDING_SECONDS = GRACE_SECONDS + CANCELLED_SECONDS + 15
# Workers collect garbage after this many new objects instead of 700: a request makes thousands.
OBJECTS = 10_000
START_ERRORS = (DatabaseServerError, DeploymentError, ModelFilesError, ValueError)


EMBEDDING, DATABASE, ARCHIVE, READERS = "embedding", "database", "archive", "readers"


class Supervisor:
    """Starts the processes of a service, and restarts ended processes, until ordered to stop."""

    def __init__(self, settings: Settings, *, metrics: Path) -> None:
        self.settings = settings
        self.signals = processes.Signals()
        self._metrics = metrics
        self._lines = [Line() for _ in (None, *settings.embeddings_folder)]
        self._workers = {f"worker-{number}": number for number in range(settings.workers)}
        # One more row than workers, because a replacement starts before the replaced worker ends.
        self._rows = range(settings.workers + 1)
        self._figures, self._counts = Figures(len(self._rows)), Counts(len(self._rows), capacity=MOST_COUNTS)
        self._children: list[processes.Child] = []
        self._to_replace: list[str] = []
        self._restarts: dict[str, processes.Restarts] = {}
        self._database: EmbeddedPostgres | None = None
        self._failures = Failures("database-server")
        self._status = 0

    def run(self) -> int:
        """Serve until a signal; return the exit status: 1 if a process ended before all were ready. A first signal
        counts after the start, a second at once. Raises `START_ERRORS`."""
        settings = self.settings
        with ExitStack() as stack:
            traces.load()
            limit, self._listener = raise_limit(), bind(settings)
            stack.callback(self._listener.close)
            # Port 0 chooses a free port, which the issuer contains.
            self.settings = settings = settings.model_copy(update={"port": self._listener.getsockname()[1]})
            self._most = most_connections(part_of(settings, worker=0), limit)
            confidential.warn(settings)
            self._database = start_embedded(stack.enter_context(ExitStack()), settings)
            stack.callback(self._kill_all)  # before the database stops
            self._readers = SharedForkServer(self._metrics)
            self._fork(READERS)
            self._fork(EMBEDDING)
            self._prepared = asyncio.run(prepare(settings, self._database))
            end_threads()
            routes()
            gc.collect()
            gc.freeze()  # workers share the present objects until a write
            gc.set_threshold(OBJECTS)
            for name in self._workers:
                self._fork(name)
            if settings.archive_url is not None:
                self._fork(ARCHIVE)
            self.signals.is_starting = False
            self._supervise()
        logger.info("stopped")
        return self._status

    def _supervise(self) -> None:
        is_told = False
        while not self.signals.stops and not self._status:
            self._wait(LOOK_SECONDS)
            waits = any(each.due is not None for each in self._restarts.values())
            if not (is_told or waits) and all(child.is_ready for child in self._children):
                host, port = self._listener.getsockname()[:2]
                logger.info("listening", url=f"http://{host}:{port}", workers=self.settings.workers)
                is_told = True
            has_killed = self._kill_unready(STARTING_SECONDS if is_told else FIRST_STARTING_SECONDS)
            self._take_ended(may_restart=is_told or has_killed)
            self._start_due()
            self._replace_workers()
            self._look_after_database()
        self._listener.close()
        self._readers.close()
        self._end()

    def _end(self) -> None:
        """End the workers, then the processes behind them, within `ENDING_SECONDS`. Further signals hurry the end."""
        deadline = time.monotonic() + ENDING_SECONDS
        while self._children and time.monotonic() < deadline:
            workers = [child for child in self._children if child.row is not None]
            for child in workers or self._children:
                child.stop(max(self.signals.stops, 1))
            self._wait(LOOK_SECONDS)
            self._take_ended(may_restart=False)

    def _wait(self, seconds: float) -> None:
        due = [each.due - time.monotonic() for each in self._restarts.values() if each.due is not None]
        seconds = max(0.0, min([seconds, *due]))
        try:
            wait(
                [
                    self.signals.wakes,
                    *(child.process.sentinel for child in self._children),
                    *(child.orders for child in self._children if not child.is_ready),
                ],
                seconds,
            )
        except OSError as error:  # the system lacks memory or descriptors
            logger.error("supervisor_can_not_wait", reason=str(error))
            time.sleep(LOOK_SECONDS)
        self.signals.clear_wakes()
        for child in self._children:
            if not child.is_ready:
                child.hear()

    def _take_ended(self, *, may_restart: bool) -> None:
        """Forget ended processes. Log an end without an order, and plan a restart, or if not `may_restart` set the exit
        status to 1."""
        for child in [each for each in self._children if each.process.exitcode is not None]:
            self._children.remove(child)
            self._forget(child)
            if child.stops or child.leaving_since is not None or child.name == DATABASE:
                continue
            pause = self._plan_restart(child) if may_restart else None
            logger.error(
                "process_ended",
                process=child.name,
                pid=child.process.pid,
                status=child.process.exitcode,
                again_in=pause,
            )
            if not may_restart:
                self._status = 1

    def _plan_restart(self, child: processes.Child) -> float | None:
        """Plan an ended child's next start; return the pause in seconds, None if another process has its name."""
        if any(other.name == child.name and other.leaving_since is None for other in self._children):
            self._to_replace.clear()
            return None
        restarts = self._restarts.setdefault(child.name, processes.Restarts())
        return restarts.plan(lived=time.monotonic() - child.began)

    def _start_due(self) -> None:
        for name, restarts in self._restarts.items():
            if restarts.is_due():
                restarts.due = None if self._try_fork(name) else time.monotonic() + LOOK_SECONDS

    def _forget(self, child: processes.Child) -> None:
        child.orders.close()
        child.process.close()
        if child.row is not None:
            self._figures.clear(child.row)
            mark_process_dead(child.row, str(self._metrics))

    def _replace_workers(self) -> None:
        """Replace the workers in turn when a signal asks for it. Each new worker serves before the old worker ends."""
        if self.signals.restart and not self._to_replace:  # a signal during a replacement starts another
            self.signals.restart = False
            self._to_replace = list(self._workers)
            logger.info("replacing_workers", workers=self.settings.workers)
        if any(child.leaving_since is not None for child in self._children):
            self._kill_late()
        elif self._to_replace:
            self._replace(self._to_replace[0])

    def _replace(self, name: str) -> None:
        named = [child for child in self._children if child.name == name]
        if len(named) == 1 and named[0].is_ready:
            self._try_fork(name)
        elif len(named) > 1 and named[-1].is_ready:
            named[0].leaving_since = time.monotonic()
            named[0].order(processes.DRAIN)
            self._to_replace.remove(name)

    def _kill_late(self) -> None:
        for child in self._children:
            if child.leaving_since is not None and time.monotonic() > child.leaving_since + ENDING_SECONDS:
                child.process.kill()

    def _kill_unready(self, limit: float) -> bool:
        """Kill workers not ready after `limit` seconds; return whether there were any."""
        due = time.monotonic() - limit
        late = [each for each in self._children if each.row is not None and not each.is_ready and each.began < due]
        for child in late:
            logger.error("worker_does_not_start", process=child.name, pid=child.process.pid)
            child.process.kill()
            child.process.join()
        return bool(late)

    def _look_after_database(self) -> None:
        """Restart a dead embedded server; requests get a 503 until then."""
        if self._database is None or any(child.name == DATABASE for child in self._children):
            return
        try:
            is_dead = self._database.process() is None
        except Exception as error:  # noqa: BLE001 - the next look may find it better
            self._failures.log(error)
            return
        self._failures.reset()
        if is_dead and not self.signals.stops:
            logger.error("embedded_postgres_died")
            self._try_fork(DATABASE)

    def _try_fork(self, name: str) -> bool:
        """Start a process. Return False if the system is short of memory, processes or descriptors."""
        try:
            self._fork(name)
        except OSError as error:
            logger.error("process_not_started", process=name, reason=str(error))
            return False
        return True

    def _fork(self, name: str) -> None:
        row = None
        if name in self._workers:
            used = {child.row for child in self._children}
            row = next(row for row in self._rows if row not in used)
            work = partial(self._run_worker, self._workers[name], row)
        else:
            work = {
                EMBEDDING: self._run_embedding,
                DATABASE: self._bring_database_back,
                ARCHIVE: self._run_archiving,
                READERS: self._fork_readers,
            }[name]
        ours, theirs = socketpair()
        try:
            process = processes.ForkedProcess(partial(self._be_child, work, ours, theirs))
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
        ours.setblocking(False)
        self._children.append(processes.Child(name, process, ours, row))
        logger.info("process_started", process=name, pid=process.pid)

    def _be_child(self, work: Callable[[socket], None], ours: socket, orders: socket) -> None:
        """Do a forked process's work, without the supervisor's sockets: an open socket would hide an end."""
        self.signals.forget()
        processes.go_on_when_parent_dies()
        for end in (ours, *(child.orders for child in self._children)):
            end.close()
        try:
            work(orders)
        except START_ERRORS as error:
            sys.stderr.write(f"{error}\n")
            sys.exit(1)

    def _run_worker(self, number: int, row: int, orders: socket) -> None:
        prepared: Prepared = self._prepared
        count_in_row(row)
        share = Share(row, self.settings.workers, self._figures, self._counts)
        settings = part_of(self.settings, worker=number)
        arithmetic = [DistantArithmetic(line) for line in self._lines]
        with traces.sending(f"worker-{number}"), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(
                serve(
                    settings,
                    self._listener,
                    orders,
                    most=self._most,
                    share=share,
                    prepared=prepared,
                    arithmetic=arithmetic,
                )
            )

    def _run_embedding(self, orders: socket) -> None:
        self._listener.close()
        folder, files = self.settings.data_dir / MODEL_FOLDER, local_files(self.settings)

        def build() -> None:
            with suppress(ModelFilesError):  # the engines raise this error again
                precision = choose(folder, self.settings.embeddings_precision).precision
                for each in files:
                    prepare_graph(folder, precision, files=each)

        processes.ForkedProcess(build).join()  # freed memory: the process ends
        precision = choose(folder, self.settings.embeddings_precision).precision
        options: dict[str, Any] = {"must_rest": lambda: any(self._figures.read(Figure.WORDS_AWAITED))}
        engines = [Engine.open(folder, precision=precision, files=each, **options) for each in files]
        with traces.sending(EMBEDDING), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(
                _embed_until_ordered(dict(zip(self._lines, engines, strict=True)), orders, metrics=self._metrics)
            )

    def _fork_readers(self, orders: socket) -> None:
        orders.send(processes.READY)
        self._readers.run()

    def _run_archiving(self, orders: socket) -> None:
        self._listener.close()
        assert self._database is not None  # noqa: S101 - else there is nothing to archive
        keep_archiving(self.settings, self._database, orders, self._figures.write_common)

    def _bring_database_back(self, orders: socket) -> None:
        """Start the embedded server again, retrying until success, an order, or the supervisor's end."""
        self._listener.close()
        assert self._database is not None  # noqa: S101 - else there is nothing to bring back
        while True:
            try:
                self._database.restart()
            except Exception as error:  # noqa: BLE001 - the next time may find it better
                self._failures.log(error)
            else:
                return
            if wait([orders], LOOK_SECONDS):
                return

    def _kill_all(self) -> None:
        for child in self._children:
            child.process.kill()
            child.process.join()


async def _embed_until_ordered(engines: Mapping[Line, Engine], orders: socket, *, metrics: Path) -> None:
    ordered: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def obey(_: bytes) -> None:
        if not ordered.done():
            ordered.set_result(None)

    # Only the supervisor removes the metrics' folder.
    listening = await processes.Orders.listen(
        orders, obey, at_death=partial(shutil.rmtree, metrics, ignore_errors=True)
    )
    listening.say(processes.READY)
    await asyncio.gather(*(line.answer(engine, ordered) for line, engine in engines.items()))
    listening.close()
