"""Answering a message from what its sender may read: retrieval, a model, and citations that are checked.

`answer` knows nothing of conversations or HTTP: an `Assignment` goes in, a `Reply` comes out.
"""
