"""The model's graph on disk: built once for a data folder, in the configured precision."""

import fcntl
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from service.text.embedding.session import quantize
from service.text.embedding.weights import WEIGHTS_SHA256, ModelFiles, verify

Precision = Literal["fp32", "int8"]

GRAPH_VERSION = 1
"""Raised whenever graph.py or `quantize` builds something else, so that older files are left alone and not used."""


_KEPT_EXACT = ("encoder.layer.0.output.dense.product", "encoder.layer.2.output.dense.product")
"""What 8 bits would cost the most: exact, they take the mean cosine from .992 to .995 for a tenth more time."""


def prepare(folder: Path, precision: Precision, *, files: ModelFiles) -> Path:
    """Return the graph's path in `folder`, building it if it isn't there (a second or two).

    Any number of processes may ask at once: one builds, the others wait. A file has its name only once it is whole.
    Raises ModelFilesError when the weights aren't the pinned ones.
    """
    path = _path(folder, precision)
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with _alone(folder):
            _build(folder, precision, files)
    return path


def _path(folder: Path, precision: Precision) -> Path:
    return folder / f"all-MiniLM-L6-v2.{WEIGHTS_SHA256[:8]}.v{GRAPH_VERSION}.{precision}.onnx"


@contextmanager
def _alone(folder: Path) -> Generator[None]:
    """Lock the folder until the block ends; the kernel releases the lock if this process dies."""
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build(folder: Path, precision: Precision, files: ModelFiles) -> None:
    for left_over in folder.glob("*.partial"):
        left_over.unlink()
    exact = _path(folder, "fp32")
    if not exact.exists():
        verify(files.weights)
        _write(exact, lambda partial: _save(files, partial))
    fast = _path(folder, "int8")
    if precision == "int8" and not fast.exists():
        _write(fast, lambda partial: quantize(exact, partial, exact=_KEPT_EXACT))


def _save(files: ModelFiles, path: Path) -> None:
    # Imported late: onnx takes a third of a second and is wanted once in the life of a data folder.
    from service.text.embedding.graph import build  # noqa: PLC0415

    path.write_bytes(build(files.weights, files.config).SerializeToString())


def _write(path: Path, write: Callable[[Path], None]) -> None:
    """Fill a file beside `path` with `write`, flush it to disk, and give it its name."""
    partial = path.with_suffix(".partial")
    write(partial)
    with partial.open("rb") as file:
        os.fsync(file.fileno())
    partial.replace(path)
