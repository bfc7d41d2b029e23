"""Shapes of searches, and the exact scores of chunks."""
