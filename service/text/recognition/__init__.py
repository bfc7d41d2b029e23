"""Text recognition (OCR): the text of scanned pages and pictures, read from their pixels in worker processes."""

from service.text.recognition.workers import PageReader, UnreadablePage

__all__ = ["PageReader", "UnreadablePage"]
