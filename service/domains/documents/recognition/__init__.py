"""Text recognition (OCR) of the scanned pages of documents, in the background."""
