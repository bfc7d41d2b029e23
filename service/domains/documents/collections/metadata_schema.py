"""What a collection's custom metadata may hold: typed fields whose values always travel as strings (wire.md)."""

from collections.abc import Iterator, Mapping

from carrel.wire.field_values import expectation, read_value
from service.platform.errors import BadRequest, FieldError


def check_metadata(metadata: Mapping[str, str], fields: Mapping[str, str]) -> dict[str, str]:
    """Return values as they are kept; BadRequest `invalid_metadata` names unknown keys and values of other types."""
    if errors := list(_metadata_errors(metadata, fields)):
        raise BadRequest(f"{errors[0].field}: {errors[0].message}", code="invalid_metadata", details=errors)
    return {key: read_value(fields[key], value) or "" for key, value in metadata.items()}


def _metadata_errors(metadata: Mapping[str, str], fields: Mapping[str, str]) -> Iterator[FieldError]:
    for key, value in metadata.items():
        if key not in fields:
            known = ", ".join(fields) or "none, its schema is empty"
            yield FieldError(f"customMetadata.{key}", f"The collection's schema has no such field; it has: {known}.")
        elif read_value(fields[key], value) is None:
            yield FieldError(f"customMetadata.{key}", expectation(fields[key], value))
