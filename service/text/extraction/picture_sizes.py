"""Whether a picture is large enough for text in it to be read: icons and lines are not."""

import io

from PIL import Image

# pictures.py registers HEIF.
_FORMATS = ("PNG", "JPEG", "TIFF", "WEBP", "GIF", "BMP", "HEIF")
_LEAST_SIDE, _LEAST_PIXELS = 64, 10_000


def is_legible(content: bytes, *, pixels: int) -> bool | None:
    """Return whether text may be read in a picture, by its size; None if it can't be read, or has too many pixels."""
    Image.MAX_IMAGE_PIXELS = None
    try:
        with Image.open(io.BytesIO(content), formats=_FORMATS) as picture:
            width, height = picture.size
    except (OSError, ValueError, SyntaxError, EOFError):
        return None
    return None if width * height > pixels else is_large(width, height)


def is_large(width: int, height: int) -> bool:
    """Return whether a picture of so many pixels is more than an icon or a line."""
    return min(width, height) >= _LEAST_SIDE and width * height >= _LEAST_PIXELS
