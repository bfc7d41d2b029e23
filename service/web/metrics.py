"""What Prometheus reads at /metrics: counts and times of requests, never anything of an organization."""

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from service.runtime import Runtime
from service.web.connections import Connections

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
UNKNOWN_ROUTE = "unknown"


class Metrics:
    """One application's metrics."""

    def __init__(self, runtime: Runtime) -> None:
        self._registry = CollectorRegistry()
        labels = ("route", "method", "status")
        self._requests = Counter("carrel_requests", "Requests answered.", labels, registry=self._registry)
        self._seconds = Histogram(
            "carrel_request_seconds", "Time to the last byte.", ("route",), registry=self._registry, buckets=SECONDS
        )
        self.in_flight = Gauge("carrel_requests_in_flight", "Requests being answered.", registry=self._registry)
        embedded = Gauge("carrel_texts_embedded", "Texts embedded since the start.", registry=self._registry)
        embedded.set_function(lambda: runtime.embedders.texts_embedded)
        self._watch_indexing(runtime)
        self._registry.register(_JobMetrics(runtime))
        self._registry.register(_BackgroundMetrics(runtime))
        self._registry.register(_StorageMetrics(runtime))

    def watch(self, connections: Connections) -> None:
        """Show how many connections there are, too."""
        self._registry.register(_ConnectionMetrics(connections))

    def _watch_indexing(self, runtime: Runtime) -> None:
        figures: dict[str, tuple[str, Callable[[], float]]] = {
            "running": ("Documents that this process has taken up to index.", lambda: runtime.indexer.running),
            "waiting": ("Documents that wait for their turn to be indexed.", lambda: runtime.indexer.waiting),
            "chunks_per_second": ("Chunks indexed a second, lately.", lambda: runtime.indexer.chunks_per_second),
        }
        for name, (documentation, read) in figures.items():
            gauge = Gauge(f"carrel_indexing_{name}", documentation, registry=self._registry)
            gauge.set_function(read)

    def count(self, *, route: str, method: str, status: int, seconds: float) -> None:
        """Count an answered request under its route's template (a path of the caller's is never a label)."""
        self._requests.labels(route, method, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def render(self) -> bytes:
        """Return the exposition format's text."""
        return generate_latest(self._registry)


class _JobMetrics(Collector):
    """What becomes of jobs; labelled by task, of which there are a few."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def collect(self) -> Iterator[Metric]:
        """Yield the counts as they are."""
        counts = self._runtime.jobs.counts
        yield GaugeMetricFamily("carrel_jobs_waiting", "Jobs that no process has begun.", counts.waiting)
        yield GaugeMetricFamily("carrel_jobs_running", "Jobs that this process is at.", counts.running)
        for name, outcomes in (("done", counts.done), ("failed", counts.failed)):
            family = CounterMetricFamily(f"carrel_jobs_{name}", f"Jobs that are {name}.", labels=("task",))
            for task, count in sorted(outcomes.items()):
                family.add_metric((task,), count)
            yield family


class _ConnectionMetrics(Collector):
    """How many connections of callers are open, and how many had to go."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def collect(self) -> Iterator[Metric]:
        """Yield the counts as they are."""
        connections = self._connections
        yield GaugeMetricFamily("carrel_connections_open", "Connections of callers.", connections.open)
        yield GaugeMetricFamily("carrel_connections_most", "As many may be open.", connections.most)
        yield CounterMetricFamily("carrel_connections_refused", "Connections not taken.", connections.refused)
        yield CounterMetricFamily("carrel_connections_evicted", "Connections closed for others.", connections.evicted)


class _BackgroundMetrics(Collector):
    """How often tasks that are never to end have ended; labelled by task, of which there are a few."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def collect(self) -> Iterator[Metric]:
        """Yield the counts as they are."""
        family = CounterMetricFamily(
            "carrel_background_restarts", "Starts of background tasks that had ended.", labels=("task",)
        )
        for task in self._runtime.background.kept.values():
            family.add_metric((task.name,), task.restarts)
        yield family


class _StorageMetrics(Collector):
    """The room on this process's disks; labelled by what is kept there, so that areas of one disk say the same."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def collect(self) -> Iterator[Metric]:
        """Yield what was last seen."""
        free = GaugeMetricFamily("carrel_storage_free_bytes", "Bytes that are free.", labels=("area",))
        total = GaugeMetricFamily("carrel_storage_total_bytes", "Bytes of the whole disk.", labels=("area",))
        for one in self._runtime.disk.file_systems:
            for area in one.areas:
                free.add_metric((area.lower(),), one.free)
                total.add_metric((area.lower(),), one.total)
        yield free
        yield total
