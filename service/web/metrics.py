"""Prometheus metrics at /metrics: counts and times of requests, never an organization's data. With
`PROMETHEUS_MULTIPROC_DIR`, each worker counts in files of its own there, and the files outlive the worker."""

import os
from collections.abc import Callable
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest, values
from prometheus_client.multiprocess import MultiProcessCollector

from carrel.wire.servers import StandbyState
from service.platform.background import Background
from service.platform.sharing import Figure
from service.runtime import Runtime
from service.web.connections import Connections

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
UNKNOWN_ROUTE = "unknown"
# How old the figures of other workers are at most.
TELL_SECONDS = 1.0

# How figures of workers are combined: the sum of living workers, their greatest, or the sum of all workers ever.
Mode = Literal["livesum", "livemax", "sum"]


def count_in_row(row: int) -> None:
    """Make this process count in a free row's files: files for each process id would multiply and slow /metrics."""
    values.ValueClass = values.MultiProcessValue(lambda: row)  # pyright: ignore[reportUnknownMemberType]


class Metrics:
    def __init__(self, runtime: Runtime) -> None:
        self._registry = CollectorRegistry()
        self._runtime = runtime
        self._connections: Connections | None = None
        labels = ("route", "method", "status")
        self._requests = Counter("carrel_requests", "Requests answered.", labels, registry=self._registry)
        self._seconds = Histogram(
            "carrel_request_seconds", "Time to the last byte.", ("route",), registry=self._registry, buckets=SECONDS
        )
        self.in_flight = self._gauge("requests_in_flight", "Requests being answered.")
        self._reads: list[tuple[Gauge, Callable[[], float]]] = []
        self._counted: dict[tuple[Counter | Gauge, *tuple[str, ...]], float] = {}
        self._describe_runtime()

    def watch(self, connections: Connections) -> None:
        self._connections = connections
        self._read("connections_open", "Connections of callers.", lambda: connections.open)
        self._read("connections_most", "Limit of open connections.", lambda: connections.most)
        self._refused = self._counter("connections_refused", "Connections not taken.")
        self._evicted = self._counter("connections_evicted", "Connections closed to make room.")

    def watch_archive(self) -> None:
        def total(figure: Figure) -> float:
            return self._runtime.share.total(figure)

        purpose = "Time up to which all changes are archived, in seconds since 1970."
        self._read("archive_timestamp_seconds", purpose, lambda: total(Figure.ARCHIVED_AT), "livemax")
        purpose = "End of the newest backup that can be restored to now, in seconds since 1970."
        self._read("archive_backup_timestamp_seconds", purpose, lambda: total(Figure.BACKED_UP_AT), "livemax")

    def keep_told(self, background: Background) -> None:
        """Have `background` publish the worker's figures to the other workers regularly while the service runs."""

        async def tell() -> None:
            self.tell()

        background.repeat("metrics", tell, every=TELL_SECONDS)

    def count(self, *, route: str, method: str, status: int, seconds: float) -> None:
        """Count an answered request under its route's template. A path sent by a caller is never a label."""
        self._requests.labels(route, method, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def render(self) -> bytes:
        """Return the metrics in Prometheus format, of all workers if they count in files."""
        self.tell()
        registry = self._registry
        if folder := os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
            registry = CollectorRegistry()
            MultiProcessCollector(registry, folder)
        return generate_latest(registry)

    def _describe_runtime(self) -> None:
        runtime = self._runtime  # absent if the application is only described
        self._texts = self._gauge("texts_embedded", "Texts embedded since the start.", mode="sum")
        self._read("indexing_running", "Documents being indexed.", lambda: runtime.indexer.running)
        self._read("indexing_waiting", "Documents waiting to be indexed.", lambda: runtime.indexer.waiting, "livemax")
        pace = "Chunks indexed per second recently."
        self._read("indexing_chunks_per_second", pace, lambda: runtime.indexer.embedding.chunks_per_second, "livemax")
        self._read("jobs_waiting", "Waiting jobs.", lambda: runtime.jobs.counts.waiting, "livemax")
        self._read("jobs_running", "Running jobs.", lambda: runtime.jobs.counts.running)
        self._jobs_done = self._counter("jobs_done", "Completed jobs.", "task")
        self._jobs_failed = self._counter("jobs_failed", "Failed jobs.", "task")
        self._restarts = self._counter("background_restarts", "Restarts of background tasks.", "task")
        self._free = self._gauge("storage_free_bytes", "Free bytes.", "area", mode="livemax")
        self._total = self._gauge("storage_total_bytes", "Size of the disk in bytes.", "area", mode="livemax")
        left_out = "1 while a process reads nothing from the standby."
        self._left_out = self._gauge("standby_left_out", left_out, "standby", mode="livemax")
        self._lag = self._gauge("standby_lag_bytes", "Bytes that it had not replayed.", "standby", mode="livemax")
        waits = "How long the oldest commit has waited for the database to confirm it, such as for a standby."
        self._read("commit_wait_seconds", waits, lambda: runtime.database.commit_seconds, "livemax")
        older = "Connections that were given up because another server was promoted since."
        self._older = self._counter("older_primary_refused", older)
        self._rerankings = self._counter("rerankings", "Requests to the reranking endpoint.", "outcome")
        self._reranking_seconds = self._counter("reranking_seconds", "Time that they took.")
        self._read_from = self._counter("reads", "Searches and lists by the server that they were read from.", "server")

    def tell(self) -> None:
        """Update figures not counted at the event."""
        for gauge, read in self._reads:
            gauge.set(read())
        for system in self._runtime.disk.file_systems:
            for area in system.areas:
                self._free.labels(area.lower()).set(system.free)
                self._total.labels(area.lower()).set(system.total)
        self._tell_standbys()
        self._count_up(self._older, self._runtime.database.primary.refused)
        if (reranker := self._runtime.reranker) is not None:
            for outcome, count in reranker.outcomes.items():
                self._count_up(self._rerankings, count, outcome)
            self._count_up(self._reranking_seconds, reranker.seconds)
        self._count_up(self._texts, self._runtime.embedders.texts_embedded)
        counts = self._runtime.jobs.counts
        for counter, outcomes in ((self._jobs_done, counts.done), (self._jobs_failed, counts.failed)):
            for task, count in outcomes.items():
                self._count_up(counter, count, task)
        for task in self._runtime.background.kept.values():
            self._count_up(self._restarts, task.restarts, task.name)
        if self._connections is not None:
            self._count_up(self._refused, self._connections.refused)
            self._count_up(self._evicted, self._connections.evicted)

    def _tell_standbys(self) -> None:
        standbys = self._runtime.standbys
        for standby in standbys.all:
            status, label = standby.describe(), str(standby.number)
            self._left_out.labels(label).set(status.state is not StandbyState.SERVING)
            self._lag.labels(label).set(status.lag_bytes or 0)
            self._count_up(self._read_from, standby.reads, label)
        if standbys.all:
            self._count_up(self._read_from, standbys.primary_reads, "primary")

    def _count_up(self, counter: Counter | Gauge, count: float, *labels: str) -> None:
        key = (counter, *labels)
        child = counter.labels(*labels) if labels else counter
        child.inc(count - self._counted.get(key, 0))
        self._counted[key] = count

    def _read(self, name: str, documentation: str, read: Callable[[], float], mode: Mode = "livesum") -> None:
        self._reads.append((self._gauge(name, documentation, mode=mode), read))

    def _gauge(self, name: str, documentation: str, *labels: str, mode: Mode = "livesum") -> Gauge:
        return Gauge(f"carrel_{name}", documentation, labels, registry=self._registry, multiprocess_mode=mode)

    def _counter(self, name: str, documentation: str, *labels: str) -> Counter:
        return Counter(f"carrel_{name}", documentation, labels, registry=self._registry)
