"""Every table of the service: `metadata` is complete once each module of `service.schema` is imported."""

from importlib import import_module
from pkgutil import iter_modules

from service import schema
from service.platform.database import metadata

for module in iter_modules(schema.__path__):
    import_module(f"{schema.__name__}.{module.name}")

__all__ = ["metadata"]
