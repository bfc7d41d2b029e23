"""Sources that are named by a URL."""


def holds_credential(source: str) -> bool:
    """Tell whether a source's URL has a password or a query in it, which whoever sees the run would see too.

    What chooses from the catalog (flows.operations.sources.selection) has its conditions there, and no password.
    """
    scheme, is_url, rest = source.partition("://")
    return bool(is_url) and scheme != "catalog" and ("@" in rest.partition("/")[0] or "?" in rest)
