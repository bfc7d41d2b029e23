"""Argument types of operations in addition to the wire's own types, so that callers need not convert first."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias, TypeVar, cast, overload
from uuid import UUID

from carrel.errors import InvalidArgumentError
from carrel.wire.common import ResourceIdentifier, ResourceReference

T = TypeVar("T")

Id: TypeAlias = UUID | str

Members: TypeAlias = Mapping[str, Any]
"""An object of the wire as a plain mapping, in snake_case or camelCase."""


def require_id(name: str, value: Id) -> UUID:
    """Return an id for an operation's path. Raises InvalidArgumentError with the argument's name."""
    try:
        return value if isinstance(value, UUID) else UUID(value)
    except (ValueError, AttributeError, TypeError) as exc:
        raise InvalidArgumentError(f"{name}: must be a UUID") from exc


def as_any(kind: type[T], value: object) -> T:
    """Return `value` typed as in a wire model; the model converts and checks it."""
    del kind
    return cast("T", value)


@overload
def as_list(kind: type[T], values: Iterable[object]) -> list[T]: ...
@overload
def as_list(kind: type[T], values: Iterable[object] | None) -> list[T] | None: ...
def as_list(kind: type[T], values: Iterable[object] | None) -> list[T] | None:
    """Return values as a list typed as in a wire model, which converts and checks the items. A bare string is passed on
    whole and refused by the model, instead of being split into letters."""
    del kind
    return cast("list[T] | None", values if values is None or isinstance(values, str) else list(values))


def reference_to(resource: ResourceReference | ResourceIdentifier | Members) -> ResourceReference:
    """Return a resource in the form for requests, from the form of responses."""
    if isinstance(resource, ResourceIdentifier):
        return ResourceReference(resource_id=resource.resource_id, resource_type=resource.resource_type)
    return ResourceReference.model_validate(resource, by_name=True)
