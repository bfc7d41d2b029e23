"""Every operation of the API, by its path."""

from collections.abc import Mapping
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, cast

from carrel import wire
from carrel.wire.operations import ApiOperation

MODULES = [import_module(f"carrel.wire.{module.name}") for module in iter_modules(wire.__path__)]
_ALL = [
    cast("ApiOperation[Any, Any]", var)
    for module in MODULES
    for var in vars(module).values()
    if isinstance(var, ApiOperation)
]
OPERATIONS: Mapping[str, ApiOperation[Any, Any]] = {operation.path: operation for operation in _ALL}
