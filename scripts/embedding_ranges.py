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

from service.text.embedding.graph import build
from service.text.embedding.models import WordPieces
from service.text.embedding.quantization import RANGES_FILE, measure
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


def main() -> None:
    """Measure, and write the file; half precision is more than the ranges mean."""
    files = locate()
    texts = WordPieces(files.tokenizer).token_ids(read_texts(Path(__file__).parent.parent))
    ranges, _ = measure(build(files), texts)
    np.savez_compressed(RANGES_FILE, **{name: value.astype(np.float16) for name, value in ranges.items()})


if __name__ == "__main__":
    main()
