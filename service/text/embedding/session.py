"""A typed interface to onnxruntime, which has no type hints: running a graph."""
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import numpy as np
import onnxruntime
from numpy.typing import NDArray

_ERRORS_ONLY = 3


class Session:
    """A loaded graph. It runs in the calling thread; several threads may run it at once and share its weights."""

    def __init__(self, path: Path) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.log_severity_level = _ERRORS_ONLY
        # A pattern is kept for each shape of input, and here nearly every batch has its own.
        options.enable_mem_pattern = False
        # The fused operator takes five times as long as the two it stands for (28 % of a batch in int8).
        self._session = onnxruntime.InferenceSession(
            str(path), options, providers=["CPUExecutionProvider"], disabled_optimizers=["SkipLayerNormFusion"]
        )

    def run(self, texts: Sequence[NDArray[np.int64]]) -> NDArray[np.float32]:
        """Embed one batch of token ids, padded to the longest; returns a row of unit length for each."""
        ids = np.zeros((len(texts), max(map(len, texts))), np.int64)
        mask = np.zeros_like(ids)
        for row, text in enumerate(texts):
            ids[row, : len(text)] = text
            mask[row, : len(text)] = 1
        outputs = self._session.run(None, {"input_ids": ids, "attention_mask": mask})
        return cast("NDArray[np.float32]", outputs[0])
