"""Indexing the files in containers where their containers are."""
