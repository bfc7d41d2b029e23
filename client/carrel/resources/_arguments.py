"""What operations accept beside the wire's own types, so that callers need not convert first."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias, TypeVar, cast, overload
from uuid import UUID

from carrel.errors import InvalidArgumentError
from carrel.wire.common import ResourceIdentifier, ResourceReference

T = TypeVar("T")

Id: TypeAlias = UUID | str
"""An id of the service's, as a UUID or its text."""

Members: TypeAlias = Mapping[str, Any]
"""An object of the wire as a plain mapping, in snake_case or camelCase."""


def require_id(name: str, value: Id) -> UUID:
    """Return an id that is part of an operation's path; raises InvalidArgumentError, by the argument's name."""
    try:
        return value if isinstance(value, UUID) else UUID(value)
    except (ValueError, AttributeError, TypeError) as exc:
        raise InvalidArgumentError(f"{name}: must be a UUID") from exc


def as_any(kind: type[T], value: object) -> T:
    """Return `value` as the type a wire model declares; the model converts and checks it."""
    del kind
    return cast("T", value)


@overload
def as_list(kind: type[T], values: Iterable[object]) -> list[T]: ...
@overload
def as_list(kind: type[T], values: Iterable[object] | None) -> list[T] | None: ...
def as_list(kind: type[T], values: Iterable[object] | None) -> list[T] | None:
    """Return values as the list a wire model declares, whose items it converts and checks.

    A bare string, which would fall into letters, is passed on whole, so that the model refuses it."""
    del kind
    return cast("list[T] | None", values if values is None or isinstance(values, str) else list(values))


def reference_to(resource: ResourceReference | ResourceIdentifier | Members) -> ResourceReference:
    """Return a resource as requests name it, from how responses do."""
    if isinstance(resource, ResourceIdentifier):
        return ResourceReference(resource_id=resource.resource_id, resource_type=resource.resource_type)
    return ResourceReference.model_validate(resource, by_name=True)
