"""Whether a picture is large enough to contain legible text: icons and lines are not."""

import io

from PIL import Image

# pictures.py registers HEIF.
_FORMATS = ("PNG", "JPEG", "TIFF", "WEBP", "GIF", "BMP", "HEIF")
_LEAST_SIDE, _LEAST_PIXELS = 64, 10_000


def is_legible(content: bytes, *, pixels: int) -> bool | None:
    """Whether a picture's size allows legible text; None if unreadable or with too many pixels."""
    Image.MAX_IMAGE_PIXELS = None
    try:
        with Image.open(io.BytesIO(content), formats=_FORMATS) as picture:
            width, height = picture.size
    except (OSError, ValueError, SyntaxError, EOFError):
        return None
    return None if width * height > pixels else is_large(width, height)


def is_large(width: int, height: int) -> bool:
    return min(width, height) >= _LEAST_SIDE and width * height >= _LEAST_PIXELS
