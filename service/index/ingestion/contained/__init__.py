"""Indexing contained files in their containers' collections."""
