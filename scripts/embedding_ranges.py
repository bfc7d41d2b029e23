"""Measure the ranges of the local model's activations, from which its 8-bit arithmetic is scaled.

The texts are this project's own: its documentation and the sample organization's files, as paragraphs and as pages of
256 tokens. `python -m scripts.embedding_ranges` writes the file beside the model's code; a change of it changes the
vectors a little, so raise GRAPH_VERSION with it.
"""
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

import re
from pathlib import Path

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper

from service.text.embedding.graph import build
from service.text.embedding.quantization import RANGES_FILE, weight_products
from service.text.embedding.tokenizer import WordPieces
from service.text.embedding.weights import locate

FOLDERS = (("docs", "*.md"), ("sample/documents", "*.md"), ("sample/documents", "*.txt"), ("sample/documents", "*.eml"))
PAGE_WORDS = 240
EVERY = 8
"""Paragraphs and pages that are passed over for each one used: more texts move the ranges by little."""


def read_texts(root: Path) -> list[str]:
    """Return paragraphs and pages of the documentation and the sample files."""
    texts: list[str] = []
    for folder, pattern in FOLDERS:
        for path in sorted((root / folder).rglob(pattern)):
            text = path.read_text()
            words = text.split()
            texts += [part for part in re.split(r"\n\s*\n", text) if part.strip()]
            texts += [" ".join(words[at : at + PAGE_WORDS]) for at in range(0, len(words), PAGE_WORDS)]
    return texts[::EVERY]


def measure(texts: list[str]) -> dict[str, NDArray[np.float32]]:
    """Return the largest absolute value of each channel that goes into a product with weights."""
    files = locate()
    model = build(files.weights, files.config)
    inputs = {name: node.input[0] for name, node in weight_products(model).items()}
    model.graph.output.extend(helper.make_tensor_value_info(each, TensorProto.FLOAT, None) for each in inputs.values())
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    largest = {name: np.zeros(1, np.float32) for name in inputs}
    for ids in WordPieces(files.tokenizer).token_ids(texts):
        feeds = {"input_ids": ids[None], "attention_mask": np.ones_like(ids)[None]}
        for name, value in zip(inputs, session.run(list(inputs.values()), feeds), strict=True):
            largest[name] = np.maximum(largest[name], np.abs(value[0]).max(axis=0))
    return largest


def main() -> None:
    """Measure, and write the file; half precision is more than the ranges mean."""
    texts = read_texts(Path(__file__).parent.parent)
    np.savez_compressed(RANGES_FILE, **{name: value.astype(np.float16) for name, value in measure(texts).items()})


if __name__ == "__main__":
    main()
