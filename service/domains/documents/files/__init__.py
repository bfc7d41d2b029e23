"""Collecting files that no document's version refers to any more."""
