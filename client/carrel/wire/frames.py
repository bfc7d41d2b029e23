"""Rows of a response as a pandas DataFrame; pandas is imported only on use."""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, cast, get_args, get_origin
from uuid import UUID

from pydantic import BaseModel

if TYPE_CHECKING:
    import pandas as pd

_NOT_IN_EXCEL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_EXCEL_CELL = 32_766


def frame_of(rows: Sequence[BaseModel], row_type: object) -> "pd.DataFrame":
    """Return one line per row, in order; columns are the members, nested with a dot. Ids and enum values are strings,
    times are aware timestamps, lists stay lists. `row_type` gives an empty frame its columns. `to_excel` writes times
    in UTC, without a zone, and text as text. Without pandas, ImportError names the package to install."""
    try:
        import pandas  # noqa: F401, PLC0415 # pyright: ignore[reportUnusedImport] - optional, and slow to import
    except ImportError as exc:
        raise ImportError("to_frame() needs pandas: pip install pandas") from exc
    frame = _frame_class()
    return frame([dict(flatten_row(row)) for row in rows]) if rows else frame(columns=list(_columns(row_type)))


@cache
def _frame_class() -> "type[pd.DataFrame]":
    import pandas as pd  # noqa: PLC0415 - as above

    class Frame(pd.DataFrame):
        """Rows of a response; derived frames have the same class."""

        @property
        def _constructor(self) -> Any:
            return Frame

        def to_excel(self, *args: Any, **kwargs: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
            """Write the frame to a sheet like pandas, with cells valid in Excel."""
            plain = pd.DataFrame(self.map(_excel_cell))
            plain.index = self.index.map(_excel_cell)
            plain.to_excel(*args, **kwargs)  # pyright: ignore[reportUnknownMemberType]

        def __reduce_ex__(self, protocol: Any, /) -> Any:
            return pd.DataFrame, (pd.DataFrame(self),)

    return Frame


def _excel_cell(value: Any) -> Any:
    """Return a value valid in Excel: times without zone, and short cells without control characters."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).replace(tzinfo=None)
    if isinstance(value, str | list | dict):
        text = _NOT_IN_EXCEL.sub("", str(cast("object", value)))[:_EXCEL_CELL]
        return f"'{text}" if text.startswith("=") else text
    return value


def flatten_row(row: BaseModel, *, prefix: str = "", secrets: bool = True) -> Iterator[tuple[str, object]]:
    """Yield the members of a row by column name; `secrets=False` leaves out members hidden from `repr`."""
    for name, field in type(row).model_fields.items():
        value: object = getattr(row, name)
        if not (field.repr or secrets):
            continue
        if isinstance(value, BaseModel):
            yield from flatten_row(value, prefix=f"{prefix}{name}.", secrets=secrets)
        elif value is None and (nested := _columns(field.annotation)):
            yield from ((f"{prefix}{name}.{inner}", None) for inner in nested)
        elif isinstance(value, Mapping):
            for key, item in cast("Mapping[str, object]", value).items():
                yield f"{prefix}{name}.{key}", item
        else:
            yield prefix + name, _plain(value)


def _plain(value: object) -> object:
    if isinstance(value, list):
        return [_plain(item) for item in cast("list[object]", value)]
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    return str(value) if isinstance(value, UUID | str) else value


def _columns(row_type: object) -> dict[str, None]:
    """Return the columns of an object type, also if optional; none for other types."""
    columns: dict[str, None] = {}
    for model in _models(row_type):
        for name, field in model.model_fields.items():
            nested = _columns(field.annotation)
            columns |= dict.fromkeys(f"{name}.{inner}" for inner in nested) if nested else {name: None}
    return columns


def _models(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
        return
    for argument in () if get_origin(annotation) is list else get_args(annotation):
        yield from _models(argument)
