"""Removing many documents from the index at once."""
