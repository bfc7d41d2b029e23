"""A local model's graph on disk: built once for a data folder, in the configured precision."""

import fcntl
import json
import os
from pathlib import Path
from typing import Literal

import numpy as np

from service.text.embedding.models import MINILM
from service.text.embedding.tokenizer import WordPieces
from service.text.embedding.weights import WEIGHTS_SHA256, ModelFiles, ModelFilesError, verify

Precision = Literal["fp32", "int8"]

_TEXTS_FILE = Path(__file__).with_name("texts.json")
"""Texts in several languages, by which the model of a folder is measured."""

GRAPH_VERSION = 2
"""Raised whenever graph.py or quantization.py builds something else: older files are left alone and not used."""


def prepare(folder: Path, precision: Precision, *, files: ModelFiles) -> Path:
    """Return the graph's path, built once and whole for all processes, after the mean of a folder's model beside it;
    raises ModelFilesError."""
    name = f"{files.name}.{WEIGHTS_SHA256[:8]}" if files.name == MINILM else files.name
    path = folder / f"{name}.v{GRAPH_VERSION}.{precision}.onnx"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # which the kernel releases if this process dies
            _build(path, precision, files)
    return path


def _build(path: Path, precision: Precision, files: ModelFiles) -> None:
    for left_over in path.parent.glob("*.partial"):
        left_over.unlink()
    if path.exists():
        return
    partial = path.with_suffix(".partial")
    try:
        _save(files, precision, partial)
    except Exception as error:
        raise ModelFilesError(f"{files.weights} can't be run here: {error}") from error
    with partial.open("rb") as file:
        os.fsync(file.fileno())
    partial.replace(path)


def _save(files: ModelFiles, precision: Precision, path: Path) -> None:
    # Imported late: onnx takes a third of a second and is wanted once in the life of a data folder.
    from service.text.embedding import quantization  # noqa: PLC0415
    from service.text.embedding.graph import build  # noqa: PLC0415

    if files.name == MINILM:
        verify(files.weights)
        model = build(files)
        with np.load(quantization.RANGES_FILE) as shipped:
            ranges = {name: shipped[name].astype(np.float32) for name in shipped if name not in quantization.KEPT_EXACT}
    else:
        texts = [files.prefixes[1] + text for text in json.loads(_TEXTS_FILE.read_text())]
        tokens = WordPieces(files.tokenizer, max_tokens=files.max_tokens).token_ids(texts)
        model = build(files)
        ranges, mean = quantization.measure(model, tokens)
        np.save(path.with_suffix(".npy"), mean)
    if precision == "int8":
        quantization.quantize(model, ranges)
    path.write_bytes(model.SerializeToString())
