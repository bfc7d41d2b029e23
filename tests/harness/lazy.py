"""Slow imports unused by most tests are left out of collection."""

from importlib import import_module


class _Lazy:
    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str):
        # pytest looks for its own marks on every value of a test module, which must not import the module.
        if attribute.startswith(("__", "_pytest")):
            raise AttributeError(attribute)
        return getattr(import_module(self._name), attribute)


def lazily(name: str):
    return _Lazy(name)
