"""A local model's graph on disk: built once per data folder, in the configured precision."""

import fcntl
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Literal

import numpy as np
from numpy.typing import NDArray

from service.platform.files import sync
from service.text.embedding.models import MINILM, WordPieces
from service.text.embedding.weights import WEIGHTS_SHA256, ModelFiles, ModelFilesError, verify

Precision = Literal["fp32", "int8"]

_TEXTS_FILE = Path(__file__).with_name("texts.json")

GRAPH_VERSION = 3  # increase whenever graph.py or quantization.py produces a different graph: older files stay, unused


def prepare(folder: Path, precision: Precision, *, files: ModelFiles) -> Path:
    """Return the graph's path; the graph is built once, whole, after a folder model's mean. Raises ModelFilesError."""
    name = f"{files.name}.{WEIGHTS_SHA256[:8]}" if files.name == MINILM else files.name
    path = folder / f"{name}.v{GRAPH_VERSION}.{precision}.onnx"
    if _is_built(path, files):
        return path
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # which the kernel releases if this process dies
            for left_over in folder.glob("*.partial"):
                left_over.unlink()
            if not _is_built(path, files):
                _build_graph(path, precision, files)
    except Exception as error:
        raise ModelFilesError(f"{files.weights} can't be run here: {error}") from error
    return path


def read_mean(graph: Path) -> NDArray[np.float32]:
    """Read the mean next to a folder model's graph; raises ModelFilesError."""
    path = graph.with_suffix(".npy")
    try:
        return np.load(path)
    except (OSError, EOFError, ValueError) as error:
        raise ModelFilesError(f"{path} can't be read: {error}") from error


def _is_built(path: Path, files: ModelFiles) -> bool:
    try:
        return path.exists() and (files.name == MINILM or read_mean(path).size > 0)
    except ModelFilesError:
        return False


def _build_graph(path: Path, precision: Precision, files: ModelFiles) -> None:
    # Imported late: onnx takes a third of a second and is needed once per data folder.
    import onnx  # noqa: PLC0415

    from service.text.embedding import quantization  # noqa: PLC0415
    from service.text.embedding.graph import build  # noqa: PLC0415

    if files.name == MINILM:
        verify(files.weights)
        model = build(files)
        with np.load(quantization.RANGES_FILE) as shipped:
            ranges = {name: shipped[name].astype(np.float32) for name in shipped if name not in quantization.KEPT_EXACT}
    else:
        texts = [files.prefixes[1] + text for text in read_texts()]
        tokens = WordPieces(files.tokenizer, max_tokens=files.max_tokens).token_ids(texts)
        model = build(files)
        ranges, mean = quantization.measure(model, tokens)
        _write(path.with_suffix(".npy"), lambda file: np.save(file, mean))
    if precision == "int8":
        quantization.quantize(model, ranges)
    # Weights are memory-mapped from a file next to the graph: only rows of occurring words use memory.
    partial, weights = path.with_name(f"{path.name}.partial"), path.with_suffix(".weights")
    weights.unlink(missing_ok=True)  # left by a killed process; the graph doesn't exist yet
    onnx.save_model(  # pyright: ignore[reportUnknownMemberType]
        model, partial, save_as_external_data=True, location=weights.name
    )
    # Sync names too, so that after a power cut no graph lacks its weights.
    for each in (weights, partial, path.parent):
        sync(each)
    partial.replace(path)


def read_texts() -> list[str]:
    return json.loads(_TEXTS_FILE.read_text())


def _write(path: Path, save: Callable[[BinaryIO], object]) -> None:
    """Write a file atomically: after a power cut it is complete or absent."""
    partial = path.with_name(f"{path.name}.partial")
    with partial.open("wb") as file:
        save(file)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
