"""The files in documents that are containers: how far they are, and which were left out."""
