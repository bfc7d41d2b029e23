"""Text recognition (OCR): the text of scanned pages and pictures, read from their pixels in worker processes."""
