"""HTTP: connections, the edge, bodies, routes, error answers, pages, idempotency, OpenAPI, metrics."""
