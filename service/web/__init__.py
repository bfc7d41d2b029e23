"""HTTP: connections, the edge, bodies, routes, error responses, pages, idempotency, OpenAPI, metrics."""
