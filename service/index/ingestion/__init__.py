"""Indexing documents: requested versions, the bounded queue, embedding, writing."""
