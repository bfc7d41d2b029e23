"""What Prometheus reads at /metrics: counts and times of requests, never anything of an organization."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from service.runtime import Runtime

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

    def count(self, *, route: str, method: str, status: int, seconds: float) -> None:
        """Count an answered request under its route's template (a path of the caller's is never a label)."""
        self._requests.labels(route, method, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def render(self) -> bytes:
        """Return the exposition format's text."""
        return generate_latest(self._registry)
