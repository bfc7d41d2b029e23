"""Recognizing lines of text in a picture, with PP-OCR's models in ONNX Runtime on a single core."""

from typing import Any

import numpy as np
from PIL import Image

from service.text.extraction.building import one_line
from service.text.recognition.layout import PageView, RecognizedLine

# The longest side, in pixels, of the picture in which lines are located; lines are read from the original.
_LOOKED_AT = 1280
# Less certain readings are left out: most are of pictures, stains and lines of forms.
_LEAST_CONFIDENCE = 0.5
# If the average reading is less certain, the page may be upside down, so it is turned.
_DOUBTFUL = 0.8
# Pillow turns to the left.
_QUARTERS = {Image.Transpose.ROTATE_90: 1, Image.Transpose.ROTATE_180: 2, Image.Transpose.ROTATE_270: 3}
_PARAMETERS = {
    "Global.log_level": "error",
    "Global.text_score": _LEAST_CONFIDENCE,
    "Global.max_side_len": 4_000,
    # This option would turn upright long lines upside down; whole pages are turned instead.
    "Global.use_cls": False,
    "Det.limit_type": "max",
    "Det.limit_side_len": _LOOKED_AT,
    # Lines differ in length, and each line in a batch needs the memory of the longest.
    "Rec.rec_batch_num": 1,
    "EngineConfig.onnxruntime.intra_op_num_threads": 1,
    "EngineConfig.onnxruntime.inter_op_num_threads": 1,
}


class Recognizer:
    """The models, loaded once."""

    def __init__(self) -> None:
        # Only a process that reads pages imports these, because the import takes seconds.
        import cv2  # noqa: PLC0415
        from rapidocr import RapidOCR  # noqa: PLC0415

        cv2.setNumThreads(1)
        self._engine: Any = RapidOCR(params=_PARAMETERS)

    def read(self, picture: Image.Image) -> tuple[list[RecognizedLine], PageView]:
        """Return the lines of a page, and the rotation applied if the page lies on its side or upside down."""
        lines, view = self._read_as_is(picture), PageView(picture.size)
        for angle in _other_angles(lines):
            turned = picture.transpose(angle)
            again = self._read_as_is(turned)
            if _certainty(again) > _certainty(lines):
                lines, view = again, PageView(turned.size, _QUARTERS[angle])
        return lines, view

    def _read_as_is(self, picture: Image.Image) -> list[RecognizedLine]:
        found = self._engine(np.asarray(picture)[:, :, ::-1])
        if found.txts is None or found.boxes is None:
            return []
        return [
            RecognizedLine(cleaned, float(score), tuple((float(x), float(y)) for x, y in corners))
            for text, score, corners in zip(found.txts, found.scores, found.boxes, strict=True)
            if (cleaned := one_line(text))
        ]


def _other_angles(lines: list[RecognizedLine]) -> tuple[Image.Transpose, ...]:
    if not lines:
        return ()
    if sum(line.is_upright for line in lines) * 2 < len(lines):
        return Image.Transpose.ROTATE_90, Image.Transpose.ROTATE_270
    average = sum(line.confidence for line in lines) / len(lines)
    return (Image.Transpose.ROTATE_180,) if average < _DOUBTFUL else ()


def _certainty(lines: list[RecognizedLine]) -> float:
    """Return a score from the amount and certainty of text, to compare rotations."""
    return sum(len(line.text) * line.confidence**4 for line in lines)
