"""The model's graph on disk: built once for a data folder, in the configured precision."""

import fcntl
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from service.text.embedding.weights import WEIGHTS_SHA256, ModelFiles, verify

Precision = Literal["fp32", "int8"]

GRAPH_VERSION = 2
"""Raised whenever graph.py or quantization.py builds something else: older files are left alone and not used."""


def prepare(folder: Path, precision: Precision, *, files: ModelFiles) -> Path:
    """Return the graph's path, built once and whole for all processes; ModelFilesError for other weights."""
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
    path = _path(folder, precision)
    if not path.exists():
        verify(files.weights)
        _write(path, lambda partial: _save(files, precision, partial))


def _save(files: ModelFiles, precision: Precision, path: Path) -> None:
    # Imported late: onnx takes a third of a second and is wanted once in the life of a data folder.
    from service.text.embedding.graph import build  # noqa: PLC0415
    from service.text.embedding.quantization import quantize  # noqa: PLC0415

    model = build(files.weights, files.config)
    if precision == "int8":
        quantize(model)
    path.write_bytes(model.SerializeToString())


def _write(path: Path, write: Callable[[Path], None]) -> None:
    partial = path.with_suffix(".partial")
    write(partial)
    with partial.open("rb") as file:
        os.fsync(file.fileno())
    partial.replace(path)
