"""Sources that are named by a URL."""


def holds_credential(source: str) -> bool:
    """Return whether a source's URL has a password or a query, which everybody who sees the run would see too.

    A selection from the catalog (flows.operations.sources.selection) has its conditions in the query, and no password.
    """
    scheme, is_url, rest = source.partition("://")
    return bool(is_url) and scheme != "catalog" and ("@" in rest.partition("/")[0] or "?" in rest)
