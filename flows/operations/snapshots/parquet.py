"""Tables of strings as Parquet files, written and read a few thousand rows at a time."""
# pyarrow has no types; this module adds types to its results.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import cast

import pyarrow as pa
import pyarrow.parquet as pq

from flows.errors import SnapshotError

Row = tuple[str | None, ...]
_ROWS = 5_000


class TableWriter(AbstractContextManager["TableWriter"]):
    """Writes rows to a new file; the file is complete and on disk when the block ends."""

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        self._path = path
        self._schema = pa.schema([(name, pa.string()) for name in columns])
        self._writer = pq.ParquetWriter(path, self._schema, compression="zstd")
        self._rows: list[Row] = []
        self.count = 0

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if error is None:
            self._flush()
        self._writer.close()

    def add(self, rows: Iterable[Row]) -> None:
        before = len(self._rows)
        self._rows.extend(rows)
        self.count += len(self._rows) - before
        if len(self._rows) >= _ROWS:
            self._flush()

    def _flush(self) -> None:
        if self._rows:
            columns = [pa.array(column, pa.string()) for column in zip(*self._rows, strict=True)]
            self._writer.write_table(pa.Table.from_arrays(columns, schema=self._schema))
            self._rows = []


def read_rows(path: Path, columns: Sequence[str]) -> Iterator[Row]:
    """Yield the values of these columns, row by row. Raises SnapshotError for an unreadable file."""
    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=_ROWS, columns=list(columns)):
                read = [cast("list[str | None]", batch.column(name).to_pylist()) for name in columns]
                yield from zip(*read, strict=True)
    except (OSError, pa.ArrowException, KeyError) as exc:
        raise SnapshotError(f"{path} cannot be read ({exc}).") from exc
